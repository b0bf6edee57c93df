"""Weights stored as float16: which layers bear it, what is said, and what the code computes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cannery
from cannery.choose.signature import step_signature
from cannery.cli import cli
from cannery.errors import ModelError, OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import errors_by_output, seeded_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.ops.matmul.op import MatMul
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.passes.place_constants import place_constants
from cannery.pipeline import compile_model, import_graph, load_model
from cannery.quantization.halves import LARGEST, rounded, storable, store_halves, with_halves
from cannery.target.isa import isa
from cannery.target.toolchain import find_toolchain
from frontends.keras_files import Model, write_h5
from needs import need_runner, need_toolchain
from nets.net_bench import make_net_source
from nets.random_graphs import random_graph
from ops.cases import Net
from quantization.networks import camera, layers, resets, retrained, separable, sequences, write

HALVES = {"weights_as": "float16", "max_error": "0.01"}
NETWORKS = {"sequences": sequences, "camera": camera, "separable": separable, "resets": resets}


def dense(*scales: float) -> Graph:
    """Dense layers whose weights are normal numbers times these."""
    net = Net()
    value = net.input("x", (1, 16))
    for k, scale in enumerate(scales):
        weights = scale * net.rng.standard_normal((16, 16)).astype(np.float32)
        value = net.node(MatMul(), [value, net.constant(f"w{k}", weights)], name=f"layer{k}")
    return net.graph(value)


def test_rounding_is_to_nearest_even_and_keeps_subnormals() -> None:
    one, least = 2.0**-11, 2.0**-24
    given = [1 + one, 1 + 3 * one, least / 2, 1.5 * least, -3.25 * least, LARGEST + 15.9]
    expected = [1, 1 + 4 * one, 0, 2 * least, -3 * least, LARGEST]
    assert rounded(np.array(given, np.float32)).tolist() == expected
    assert np.isinf(rounded(np.array([LARGEST + 16], np.float32))).all()


def test_weights_are_rounded_and_nothing_else() -> None:
    graph = dense(1.0, 0.3)
    made = store_halves(graph, 1e-2)
    assert made.halves == {"w0", "w1"}
    for name in made.halves:
        expected = graph.constants[name].astype(np.float16).astype(np.float32)
        assert np.array_equal(made.constants[name], expected)
    assert (made.nodes, made.types) == (graph.nodes, graph.types)
    facts = made.half_weights
    assert facts is not None
    assert facts.layers == ("layer0", "layer1")
    assert (facts.float_bytes, facts.bytes) == (2 * 1024, 1024)
    assert not facts.floats


def test_the_error_is_what_the_references_lose() -> None:
    graph = dense(1.0, 1.0)
    made = store_halves(graph, 1e-2)
    samples = seeded_samples(graph)
    lost = errors_by_output(
        [evaluate(made, s) for s in samples], [evaluate(graph, s) for s in samples]
    )
    assert made.half_weights is not None
    assert made.half_weights.error == max(lost.values())
    assert 1e-5 < made.half_weights.error < 1e-3
    assert made.half_weights.samples == len(samples) == 16


def test_weights_beyond_float16_stay() -> None:
    for scale, reason in ((1e6, "is beyond 65504, the largest float16"), (np.nan, "not finite")):
        made = store_halves(dense(scale, 1.0), 1.0)
        assert made.half_weights is not None
        assert made.halves == {"w1"}
        ((layer, why),) = made.half_weights.floats
        assert layer == "layer0"
        assert reason in why
    with pytest.raises(OptionError, match=r"'layer0': a weight of .* is beyond 65504"):
        store_halves(dense(1e6), 1.0)


def test_what_loses_too_much_stays_float32() -> None:
    """The layer whose large outputs cancel in the next one."""
    net = Net()
    x = net.input("x", (1, 64))
    plain = net.node(MatMul(), [x, net.weight(64, 64)], name="plain")
    w = net.rng.standard_normal((64, 1)).astype(np.float32)
    pair = np.concatenate([1e3 + w, w[::-1] - 1e3], axis=1).astype(np.float32)
    both = net.node(MatMul(), [x, net.constant("w", pair)], name="cancelling")
    ones = net.constant("ones", np.ones((2, 1), np.float32))
    graph = net.graph(plain, net.node(MatMul(), [both, ones], name="sum"))
    free, bounded = (store_halves(graph, bound).half_weights for bound in (10.0, 1e-3))
    assert free is not None
    assert bounded is not None
    assert not free.floats
    assert free.error > 1e-2
    ((layer, why),) = bounded.floats
    assert layer == "cancelling"
    assert why.startswith("alone it loses 0.")
    assert bounded.layers == ("plain", "sum")
    assert bounded.error < 1e-3 / 1.25


def test_the_advice_after_a_refusal_helps() -> None:
    graph = dense(1.0)
    with pytest.raises(OptionError, match="more than --max-error 1e-06") as refused:
        store_halves(graph, 1e-6)
    assert refused.value.where == "--weights-as"
    advised = float(refused.value.cure.split()[-1])
    assert advised < 2e-3
    assert store_halves(graph, advised).halves


def test_a_network_without_such_weights() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    with pytest.raises(OptionError, match="no layer has weights that can be stored as float16"):
        store_halves(net.graph(net.node(MatMul(transpose_b=True), [x, x])), 1.0)


def test_shared_weights_are_rounded_where_all_their_layers_can() -> None:
    net = Net()
    x, w = net.input("x", (8, 8)), net.weight(8, 8)
    once = net.node(MatMul(), [x, w], name="once")
    twice = net.node(MatMul(), [once, w], name="twice")
    assert storable(net.graph(twice)) == {"once": w, "twice": w}
    net = Net()
    x, w = net.input("x", (8, 8)), net.weight(8, 8)
    once = net.node(MatMul(), [x, w], name="once")
    twice = net.node(MatMul(), [w, once], name="twice")
    assert not storable(net.graph(twice))


def test_records_of_other_weights_do_not_count() -> None:
    """Neither those of the network nor, in a record, those of single steps."""
    graph = dense(1.0)
    made = store_halves(graph, 1e-2)
    before, after = (step_signature(g, cut(g)[0]) for g in (graph, made))
    assert before != after
    options = make_options(Path("net.h5"), {"weights_as": "float16"})
    assert options.form == "float16-weights"


def test_weights_that_vary_are_all_float16() -> None:
    """No choice may depend on numbers: another training has the same code."""
    for graph in (dense(1.0, 1.0), dense(0.3, 2.0)):
        assert len(store_halves(replace(graph, weights_vary=True), 1e-2).halves) == 2
    with pytest.raises(ModelError, match="beyond 65504") as beyond:
        store_halves(replace(dense(1.0, 1e6), weights_vary=True), 1.0)
    assert beyond.value.where == "layer 'layer1'"
    with pytest.raises(OptionError, match="more than --max-error 1e-06"):
        store_halves(replace(dense(1.0), weights_vary=True), 1e-6)


def test_a_file_of_weights_serves_the_code(tmp_path: Path) -> None:
    files = []
    for name, model in (("one", camera()), ("other", retrained(camera()))):
        path = write_h5(tmp_path / f"{name}.h5", model)
        raw = {"isa": "sse2", "name": "net", "weights": "net.weights", **HALVES}
        files.append(compile_model(make_options(path, raw)).files)
    one, other = files
    assert [name for name in one if one[name] != other[name]] == ["net.weights"]
    plain = compile_model(make_options(path, {"isa": "sse2", "name": "net", "weights": "x"})).files
    assert len(one["net.weights"]) < 0.65 * len(plain["net.weights"])


@pytest.mark.parametrize("target", ["generic", "sse2", "avx2", "avx512", "neon32", "neon64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_with_rounded_weights(tmp_path: Path, name: str, target: str) -> None:
    """Within the rounding of float32; the model itself is further off."""
    need_toolchain(target)
    file, _ = write(tmp_path, NETWORKS[name]())
    options = make_options(file, {"target": target, **HALVES})
    compiled = compile_model(options)
    graph, toolchain = compiled.source.graph, find_toolchain(options)
    samples = seeded_samples(graph, 4)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(need_runner(toolchain))
    assert max(errors_by_output(found, [evaluate(graph, s) for s in samples]).values()) < 1e-5
    before = load_model(options)
    assert max(errors_by_output(found, [evaluate(before, s) for s in samples]).values()) > 2e-5


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_random_networks_have_such_code(seed: int) -> None:
    """No kernel that is chosen reads weights in a way that float16 has no words for."""
    graph = place_constants(run_passes(random_graph(seed)))
    names = set(storable(graph).values())
    made = with_halves(graph, names)
    for isa_name in ("generic", "sse2", "avx512", "neon64"):
        calls = make_net_source(made, isa(isa_name), "net").calls
        arrays = [c.values for call in calls for c in call.kernel.constants]
        assert any(array.dtype == np.float16 for array in arrays) == bool(names)


def test_other_functions_have_the_same_bits(tmp_path: Path) -> None:
    """Many inputs at once, several cores, several instruction sets, calls of several sizes."""
    file, _ = write(tmp_path, layers())
    x = np.random.default_rng(0).standard_normal((5, 24)).astype(np.float32)
    net = cannery.load(file, many=4, parallel=True, **HALVES)  # type: ignore[arg-type]
    one_by_one = np.concatenate([np.atleast_2d(net(row)) for row in x])
    assert np.array_equal(net(x).reshape(one_by_one.shape), one_by_one)
    found = compile_model(make_options(file, {"isa": ["sse2", "avx2"], **HALVES})).files
    assert all(b"_load_f16(" in found[f"net_{isa}.c"] for isa in ("sse2", "avx2"))


def test_calls_of_all_sizes_have_the_same_weights(tmp_path: Path) -> None:
    file, _ = write(tmp_path, resets(backwards=False))
    raw: dict[str, Any] = {"streaming": True, "isa": "sse2", "max_error": "6e-4",
                           "weights_as": "float16"}  # fmt: skip
    small, large = (
        import_graph(make_options(file, {**raw, "block": [str(n), *map(str, rest)]}))
        for n, rest in ((1, [4]), (4, [1]))
    )
    assert small.half_weights is not None
    assert large.half_weights is not None
    assert small.half_weights.layers == large.half_weights.layers


@pytest.mark.parametrize("model", [camera(), sequences()], ids=["camera", "sequences"])
def test_constants_take_half(tmp_path: Path, model: Model) -> None:
    file, _ = write(tmp_path, model)
    made = compile_model(make_options(file, {"isa": "avx2", **HALVES}))
    manifest = json.loads(made.files["net.json"])
    facts = manifest["float16_weights"]
    assert facts["weight_bytes"] < 0.6 * facts["float_weight_bytes"]
    assert not facts["float32_layers"]
    plain = json.loads(compile_model(make_options(file, {"isa": "avx2"})).files["net.json"])
    sizes = [sum(s["constant_bytes"] for s in m["steps"]) for m in (manifest, plain)]
    assert sizes[0] < 0.7 * sizes[1]
    assert b"store their weights as float16" in made.files["net.h"]


def test_what_compile_says(tmp_path: Path) -> None:
    file, samples = write(tmp_path, camera())
    words = ["compile", str(file), "-o", str(tmp_path / "out"), "--isa", "sse2"]
    half = ["--weights-as", "float16"]
    kept = CliRunner().invoke(cli, [*words, *half, "--max-error", "9e-4"])
    assert kept.exit_code == 0, kept.output
    assert "weights stay float32 in" in kept.output
    given = CliRunner().invoke(
        cli, [*words, *half, "--max-error", "0.01", "--calibration", str(samples)]
    )
    assert given.exit_code == 0, given.output
    manifest = json.loads((tmp_path / "out" / "net.json").read_text())
    assert manifest["float16_weights"]["samples"] == 6
    both = CliRunner().invoke(
        cli, [*words, *half, "--quantize", "int8", "--calibration", str(samples)]
    )
    assert isinstance(both.exception, OptionError)
    assert both.exception.where == "--weights-as"
