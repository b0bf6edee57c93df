"""Layers that multiply bfloat16: which do, what is said, and what the code computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cannery.cli import cli
from cannery.errors import OptionError
from cannery.execution.error_bounds import error_bounds
from cannery.execution.program import network_program
from cannery.execution.samples import errors_by_output, seeded_samples
from cannery.ir.bfloat import rounded_to_bfloat
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.verify import verify
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.ops.matmul.op import MatMul
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph, load_model
from cannery.quantization.bfloat_layers import (
    able_bfloat_steps,
    compute_in_bfloat,
    gaining_steps,
    in_bfloat,
)
from cannery.target.toolchain import find_toolchain
from needs import need_runner, need_toolchain
from ops.cases import Net
from quantization.networks import camera, layers, separable, write

TARGET = "neon64bf16"
BFLOAT: dict[str, Any] = {"target": TARGET, "compute_as": "bfloat16", "max_error": "0.1"}
ONE, SAME = (1, 1), ((1, 1), (1, 1))


def shared_weights() -> Graph:
    """Two products with the same matrix, and one with few outputs."""
    net = Net()
    x = net.input("x", (1, 64))
    w = net.weight(64, 64)
    one = net.node(Relu(), [net.node(MatMul(), [x, w], name="one")])
    two = net.node(MatMul(), [one, w], name="two")
    return net.graph(net.node(MatMul(), [two, net.weight(64, 2)], name="few"))


def test_operands_are_rounded_and_values_stay_float32() -> None:
    graph = shared_weights()
    made = in_bfloat(graph, [step for step in able_bfloat_steps(graph) if step.name == "one"])
    verify(made, after="bfloat16")
    assert [node.op.kind for node in made.nodes] == ["BfloatMatMul", "Relu", "MatMul", "MatMul"]
    assert {type_.dtype.value for type_ in made.types.values()} == {"float32"}
    kept, rounded = graph.nodes[2].inputs[1], made.nodes[0].inputs[1]
    assert kept != rounded
    assert np.array_equal(made.constants[kept], graph.constants[kept])
    w = rounded_to_bfloat(graph.constants[kept])
    assert np.array_equal(made.constants[rounded], w)
    x = np.random.default_rng(1).standard_normal((1, 64))
    (found,) = made.nodes[0].op.reference(x, made.constants[rounded])
    assert np.allclose(found, rounded_to_bfloat(x) @ w, rtol=1e-12)
    assert not np.allclose(found, x @ w, rtol=1e-6)


def test_layers_that_winograd_computes_faster_stay_float32() -> None:
    net = Net()
    x = net.input("x", (1, 32, 32, 32))
    windows = net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 32, 32)], name="windows")
    graph = net.graph(
        net.node(Conv(ONE, ((0, 0), (0, 0)), ONE), [windows, net.weight(1, 1, 32, 32)], name="1x1")
    )
    able = able_bfloat_steps(graph)
    assert [step.name for step in able] == ["windows", "1x1"]
    assert [step.name for step in gaining_steps(graph, able)] == ["1x1"]


def test_what_has_no_kernel() -> None:
    net = Net()
    x = net.input("x", (1, 8, 8, 16))
    depthwise = net.node(Conv(ONE, SAME, ONE, 16), [x, net.weight(3, 3, 1, 16)])
    grouped = net.node(Conv(ONE, SAME, ONE, 2), [depthwise, net.weight(3, 3, 8, 16)])
    large = net.constant("large", np.full((1, 1, 16, 16), 3.4e38, np.float32))
    graph = net.graph(net.node(Conv(ONE, ((0, 0), (0, 0)), ONE), [grouped, large]))
    assert not able_bfloat_steps(graph)
    with pytest.raises(OptionError, match="no layer takes less time in bfloat16"):
        compute_in_bfloat(graph, 1.0)


def test_what_loses_too_much_stays_float32() -> None:
    net = Net()
    x = net.input("x", (1, 64))
    plain = net.node(MatMul(), [x, net.weight(64, 64)], name="plain")
    w = net.rng.standard_normal((64, 32)).astype(np.float32)
    pair = np.concatenate([30 + w, w[::-1] - 30], axis=1).astype(np.float32)
    both = net.node(MatMul(), [x, net.constant("w", pair)], name="cancelling")
    graph = net.graph(plain, net.node(MatMul(), [both, net.weight(64, 64)], name="sum"))
    facts = compute_in_bfloat(graph, 2e-2).half_layers
    assert facts is not None
    assert facts.type == "bfloat16"
    assert facts.bytes < facts.float_bytes
    with pytest.raises(OptionError, match=r"layers in bfloat16 cost .* --max-error 1e-07"):
        compute_in_bfloat(graph, 1e-7)


@pytest.mark.parametrize(
    ("model", "further"),
    [(camera(), {}), (separable(), {"parallel": True}), (layers(), {"batch": "3"})],
    ids=["camera", "separable", "dense"],
)
def test_networks_compute_in_bfloat16(tmp_path: Path, model: Any, further: dict[str, Any]) -> None:
    """The error is what was estimated, to which inexact schedules may add half of the bound."""
    need_toolchain(TARGET)
    file, _ = write(tmp_path, model)
    options = make_options(file, {**BFLOAT, **further})
    compiled = compile_model(options)
    graph, toolchain = compiled.source.graph, find_toolchain(options)
    assert graph.half_layers is not None
    floats = import_graph(make_options(file, {**further, "target": TARGET}))
    samples = seeded_samples(floats, graph.half_layers.samples)  # those that judged it
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(need_runner(toolchain))
    before = load_model(options)
    error = max(errors_by_output(found, [evaluate(before, s) for s in samples]).values())
    schedules = [s["schedule"] for s in json.loads(compiled.files["net.json"])["steps"]]
    inexact = any("winograd" in name or "math=" in name for name in schedules)
    most = 1.25 * graph.half_layers.error + (0.05 if inexact else 0.0)
    assert graph.half_layers.error / 2 < error < most
    assert b'"cannery/vec_bfloat.h"' in compiled.files["net.c"]
    (bound, *_) = error_bounds(compiled.source, -1.0, 1.0)
    assert bound.error is None
    assert "has no rule" in bound.reason
    facts = json.loads(compiled.files["net.json"])["bfloat16_layers"]
    assert len(facts["layers"]) == sum(name.startswith("bfloat.") for name in schedules)


def test_options_that_do_not() -> None:
    with pytest.raises(OptionError, match=": --weights cannot be combined with it"):
        make_options(Path("net.h5"), {**BFLOAT, "weights": "net.weights"})


def test_processors_without_bfloat16(tmp_path: Path) -> None:
    need_toolchain("neon64half")
    file, _ = write(tmp_path, camera())
    words = ["compile", str(file), "-o", str(tmp_path / "out"), "--compute-as", "bfloat16"]
    done = CliRunner().invoke(cli, [*words, "--max-error", "0.1", "--target", "neon64half"])
    assert isinstance(done.exception, OptionError)
    assert "neon64half (neon64half) does not multiply bfloat16" in str(done.exception)
    assert "neoverse-v1" in done.exception.cure
