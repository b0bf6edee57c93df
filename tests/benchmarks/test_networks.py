"""The networks of the benchmarks: the same bytes every time, and files that are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_graph, import_graph
from families import FAMILIES
from families.onnx_builder import OnnxBuilder
from networks import NETWORKS, write_network

onnx = pytest.importorskip("onnx")

#: Too large to be written twice in a test.
LARGE = {"resnet_50", "deit_tiny", "efficientnet_b0", "mobilenet_v1", "text_transformer"}
#: Those that are compiled here.
SMALL = ("blazeface", "gru_denoiser", "lstm_128", "wave_tcn")


def _operators(graph: Graph) -> set[str]:
    return {node.op.kind for node in graph.nodes}


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - LARGE))
def test_the_same_bytes_every_time(name: str, tmp_path: Path) -> None:
    first, again = (write_network(name, tmp_path / folder).read_bytes() for folder in "ab")
    assert first == again


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_is_what_its_format_asks_for(name: str, tmp_path: Path) -> None:
    file = write_network(name, tmp_path)
    if file.suffix == ".onnx":
        model = onnx.load(file)
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    graph = run_passes(load_graph(file))
    assert graph.outputs
    # Spelled out or not: an activation is one operator after the passes.
    assert not {"Erf", "BatchNormalization"} & _operators(graph)


@pytest.mark.parametrize("name", SMALL)
def test_compiles(name: str, tmp_path: Path) -> None:
    options = make_options(write_network(name, tmp_path), {"isa": ("avx2",)})
    files = compile_graph(import_graph(options), options).files
    assert f"{name}_run" in files[f"{name}.h"].decode()


def test_every_name_is_there_once() -> None:
    assert set(FAMILIES) < set(NETWORKS)
    assert all(NETWORKS[name].__doc__ for name in NETWORKS)


def test_pools_round_up_where_they_are_told_to(tmp_path: Path) -> None:
    b = OnnxBuilder("pools", 1)
    x = b.input("image", 1, 3, 10, 10)
    up, down = b.pool(x, 3, 2, ceil=True), b.pool(x, 3, 2)
    assert (b.shapes[up][2:], b.shapes[down][2:]) == ((5, 5), (4, 4))
    file = tmp_path / "pools.onnx"
    file.write_bytes(b.model(up=up, down=down).SerializeToString())
    graph = load_graph(file)
    assert [graph.types[v].shape[1:3] for v in graph.outputs] == [(5, 5), (4, 4)]
