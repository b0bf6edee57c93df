"""Networks whose outputs depend on constants, or are inputs: every step has something to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.lowering.cores import Cores
from cannery.ops.movement.op import Expand, Identity
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.passes.place_constants import place_constants
from cannery.pipeline import compile_model
from cannery.quantization.quantize import quantize
from cannery.quantization.raw import raw_interface
from cannery.target.targets import find_target
from emit.c_programs import compile_file, net_files, write_all
from frontends.onnx_models import floats, load, model, node, write
from nets.net_bench import make_net_source, reference_net
from nets.random_graphs import random_constants
from nets.test_nets import run

SEEDS = range(32)
ISAS = tuple(find_target(name).isa for name in ("generic", "avx2", "neon64", "ssse3"))


def _is_computed(graph: Graph, value: str) -> bool:
    return bool(value) and value not in graph.constants


@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_reads_something(seed: int) -> None:
    graph = run_passes(random_constants(seed))
    for each in graph.nodes:
        reads = any(_is_computed(graph, i) for i in each.inputs)
        assert reads or isinstance(each.op, Identity | Expand), each
    cores = Cores(openmp=False) if seed % 3 == 0 else None
    make_net_source(graph, ISAS[seed % 4], "net", views=bool(seed % 2), cores=cores)


def test_quantised_networks(tmp_path: Path) -> None:
    made = 0
    for seed in SEEDS:
        graph, samples = run_passes(random_constants(seed)), tmp_path / "samples.npz"
        np.savez(samples, image=floats(3, *graph.types["image"].shape[1:]))
        dtype, raw = (DType.INT16, DType.INT8)[seed % 2], seed % 4 > 1
        try:
            graph = quantize(graph, dtype, samples, 10.0, raw=raw)
            graph = raw_interface(graph) if raw else graph
        except OptionError:  # nothing that depends on the input has an integer form
            continue
        make_net_source(place_constants(graph), ISAS[seed % 4], "net")
        made += 1
    assert made > 4


def _i64(*values: int) -> Any:
    return np.array(values, np.int64)


def _of_constants() -> Any:
    """Windows, choices, repetitions and a recurrent layer, of constants too large to fold."""
    nodes = [
        node("Tile", ["c", "four"], ["wide"]),
        node("Conv", ["wide", "w"], ["image"], pads=[1, 1, 1, 1]),
        node("Greater", ["wide", "zero"], ["positive"]),
        node("Where", ["positive", "wide", "image"], ["picked"]),
        node("Reshape", ["picked", "rows"], ["flat"]),
        node("Transpose", ["picked"], ["turned"], perm=[0, 2, 3, 1]),
        node("Reshape", ["turned", "steps"], ["sequence"]),
        node("RNN", ["sequence", "v", "r"], ["walked", "last"], hidden_size=3),
        node("Concat", ["picked", "image"], ["joined"], axis=1),
        node("Add", ["x", "flat"], ["sum"]),
    ]
    weights = {
        "c": floats(1, 1, 24, 24), "four": _i64(1, 4, 6, 6), "w": floats(4, 4, 3, 3, seed=1),
        "zero": np.float32(0), "rows": _i64(4, -1), "steps": _i64(-1, 1, 144 * 4),
        "v": floats(1, 3, 576, seed=2) / 24, "r": floats(1, 3, 3, seed=3),
    }  # fmt: skip
    outputs = ["flat", "walked", "last", "joined", "sum", "x", "c", "sum"]
    return model(nodes, {"x": [4, 1]}, outputs, weights)


def test_a_file_of_constants(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", _of_constants())
    options: list[dict[str, Any]] = [
        {}, {"parallel": True}, {"many": "4"}, {"io_layout": "nchw"}, {"outputs": ("walked",)},
    ]  # fmt: skip
    for isa, given in zip(("generic", "avx2", "neon64", "ssse3", "avx512"), options, strict=True):
        options_ = make_options(path, {"target": "any", "isa": (isa,), **given})
        assert compile_model(options_).files


@pytest.mark.parametrize("target", ["generic", "avx2"])
def test_results(target: str, tmp_path: Path) -> None:
    nets = [reference_net(f"seed {s}", random_constants(s), s) for s in SEEDS[:4]]
    run([*nets, reference_net("file", load(tmp_path, _of_constants()))], target, tmp_path)


def test_folded_outputs_keep_their_values(tmp_path: Path) -> None:
    graph = load(tmp_path, _of_constants())
    x = {"x": floats(4, 1)}
    before, after = evaluate(graph, x), evaluate(run_passes(graph), x)
    for name, y in before.items():
        assert np.allclose(y, after[name], rtol=1e-5, atol=1e-6)


def _steps(kind: str) -> Any:
    """A recurrent network, and what depends on constants alone: another one, a state, a mean."""
    constant = node("GRU", ["c", "cw", "cr"], ["b", "bh"], hidden_size=3, direction="reverse")
    mean = node("ReduceMean", ["c"], ["m"], axes=[0, 2], keepdims=0)
    gru = node("GRU", ["x", "w", "r", "", "", *(["h"] if kind == "state" else [])], ["g", "y"],
               hidden_size=3)  # fmt: skip
    nodes = {
        "layer": [
            constant,
            node("Squeeze", ["bh", "a"], ["s"]),
            gru,
            node("Add", ["g", "s"], ["z"]),
        ],
        "output": [constant, gru, node("Softmax", ["b"], ["z"], axis=0)],
        "state": [mean, node("Expand", ["m", "e"], ["h"]), gru, node("Neg", ["g"], ["z"])],
        "mean": [mean, gru, node("Add", ["g", "m"], ["z"])],
    }[kind]
    weights = {
        "w": floats(1, 9, 4), "r": floats(1, 9, 3), "c": floats(80, 1, 60), "cr": floats(1, 9, 3),
        "cw": floats(1, 9, 60), "a": _i64(0), "e": _i64(1, 1, 3),
    }  # fmt: skip
    return model(nodes, {"x": [6, 1, 4]}, ["z", "y"], weights)


@pytest.mark.parametrize("kind", ["layer", "output", "state", "mean"])
@pytest.mark.parametrize("option", ["streaming", "variable_length"])
def test_constants_have_no_time(kind: str, option: str, tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", _steps(kind))
    compiled = compile_model(make_options(path, {"isa": "avx2", "target": "any", option: True}))
    assert (len(compiled.source.states.slots), compiled.source.max_length) == (
        (1, 0) if option == "streaming" else (0, 6)
    )


@pytest.mark.parametrize("inputs", [{}, {"x": [2]}], ids=["none", "unused"])
@pytest.mark.parametrize("language", ["c99 gcc", "c++11 clang"])
def test_code_that_reads_no_input_is_silent(
    inputs: dict[str, Any], language: str, tmp_path: Path
) -> None:
    graph = load(tmp_path, model([node("Relu", ["c"], ["y"])], inputs, weights={"c": floats(3, 4)}))
    files = net_files(graph, "net")
    write_all(tmp_path, files)
    for name in files:
        if name.endswith(".c"):
            compile_file(tmp_path, name, language)
