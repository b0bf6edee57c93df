"""Layers in half precision: which bear it, what is said, and what the code computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cannery.choose.rounding import rounded_outputs
from cannery.cli import cli
from cannery.ctext.half import with_half_memory
from cannery.errors import OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import errors_by_output, seeded_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.parser import parse_graph
from cannery.ir.printer import write_graph
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.lowering.lower import cut
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Relu, Sigmoid, Tanh
from cannery.ops.half import recurrent as half_recurrent
from cannery.ops.half.recurrent import half_recurrence
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Reshape
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.recurrent.op import Rnn
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.passes.place_constants import place_constants
from cannery.pipeline import compile_model, load_model
from cannery.quantization.half_layers import able_steps, compute_in_half, in_half, worthwhile
from cannery.schedule.schedule import Kernel, legal
from cannery.target.isa import isa
from cannery.target.toolchain import find_toolchain
from needs import need_runner, need_toolchain
from nets.net_bench import make_net_source
from nets.random_graphs import random_graph
from ops.cases import Net
from quantization.networks import camera, layers, resets, separable, sequences, unet, write

TARGET = "neon64half"
HALF: dict[str, Any] = {"target": TARGET, "compute_as": "float16", "max_error": "0.05"}
ONE, SAME = (1, 1), ((1, 1), (1, 1))


def residual(*, shares: bool = True) -> Graph:
    """Two convolutions around which the input goes; `shares` has no kernel in half precision."""
    net = Net()
    x = net.input("x", (1, 6, 7, 8))
    one = net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 8, 8), net.weight(8)], name="one")
    relu = net.node(Relu(), [one], name="relu")
    two = net.node(Conv(ONE, SAME, ONE), [relu, net.weight(3, 3, 8, 8)], name="two")
    both = net.node(Add(), [two, x], name="sum")
    return net.graph(net.node(Softmax(3), [both], name="shares") if shares else both)


def test_conversions_stand_where_precision_changes() -> None:
    graph = residual()
    made = in_half(graph, able_steps(graph))
    verify(made, after="half")
    kinds = [node.op.kind for node in made.nodes]
    assert kinds == ["Cast", "Conv", "Relu", "Conv", "Add", "Cast", "Softmax"]
    inner = [made.types[node.output].dtype for node in made.nodes[:5]]
    assert inner == [DType.HALF] * 5
    assert made.types[made.outputs[0]] == graph.types[graph.outputs[0]]
    assert [step.kind for step in cut(made)] == ["Cast", "Conv", "Conv", "Cast", "Softmax"]
    assert parse_graph(write_graph(made)).types == made.types


def test_only_layers_in_half_precision_have_rounded_weights() -> None:
    net = Net()
    x, w = net.input("x", (8, 8)), net.weight(8, 8)
    once = net.node(MatMul(), [x, w], name="once")
    graph = net.graph(net.node(MatMul(), [once, w], name="twice"))
    first = next(step for step in able_steps(graph) if step.name == "once")
    made = in_half(graph, [first])
    half, whole = (
        made.constants[node.inputs[1]] for node in made.nodes if node.op.kind == "MatMul"
    )
    assert np.array_equal(whole, graph.constants[w])
    assert np.array_equal(half, graph.constants[w].astype(np.float16).astype(np.float32))
    assert not np.array_equal(half, whole)


def test_values_are_rounded_by_the_reference() -> None:
    graph = residual(shares=False)
    made = in_half(graph, able_steps(graph))
    x = {"x": np.full((1, 6, 7, 8), 1 + 2.0**-11 + 2.0**-20, np.float32)}
    (found,) = evaluate(made, x).values()
    assert np.array_equal(found, found.astype(np.float16).astype(np.float64))
    (rounded,) = rounded_outputs(made, x).values()
    assert np.array_equal(rounded, rounded.astype(np.float16).astype(np.float64))
    assert not np.array_equal(found, rounded)


def test_elementwise_layers_alone_stay_float32() -> None:
    net = Net()
    x = net.input("x", (1, 4, 4, 8))
    alone = net.node(Relu(), [x], name="alone")
    shares = net.node(Softmax(3), [alone], name="shares")
    flat = net.node(Reshape((16, 8)), [shares], name="flat")
    graph = net.graph(net.node(MatMul(), [flat, net.weight(8, 8)], name="product"))
    able = able_steps(graph)
    assert [step.name for step in able] == ["alone", "flat", "product"]
    assert [step.name for step in worthwhile(graph, able)] == ["flat", "product"]


def test_no_conversions_between_layers_that_values_only_pass() -> None:
    net = Net()
    x = net.input("x", (1, 6, 8, 8))
    one, two = (net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 8, 8)]) for _ in range(2))
    joined = net.node(Concat(3), [one, two])
    large = net.node(Resize("nearest", (12, 16)), [joined])
    flat = net.node(Reshape((1, 3072)), [large])
    graph = net.graph(net.node(MatMul(), [flat, net.weight(3072, 8)]))
    made = in_half(graph, able_steps(graph))
    casts = [node for node in made.nodes if node.op.kind == "Cast"]
    assert [made.types[node.output].dtype for node in casts] == [DType.HALF, DType.FLOAT32]
    ids = {s.id for step in cut(made) for s in legal(made, step, isa(TARGET))}
    assert {"concat.view", "half.resize.direct_c", "movement.reshape"} <= ids


def squeezed() -> Graph:
    """Squeeze and excitation: channels of an image times a function of their means."""
    net = Net()
    x = net.input("x", (1, 9, 8, 16))
    one = net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 16, 16)])
    mean = net.node(ReduceMean((1, 2), keepdims=True), [one])
    share = net.node(Conv(ONE, ((0, 0), (0, 0)), ONE), [mean, net.weight(1, 1, 16, 16)])
    both = net.node(Mul(), [one, net.node(Sigmoid(), [share])])
    normal = net.node(LayerNormalization((3,), 1e-3), [both, net.weight(16), net.weight(16)])
    return net.graph(net.node(Conv(ONE, SAME, ONE), [normal, net.weight(3, 3, 16, 8)]))


def test_means_and_normalisations_read_half_precision() -> None:
    made = in_half(squeezed(), able_steps(squeezed()))
    casts = [node for node in made.nodes if node.op.kind == "Cast"]
    assert [made.types[node.output].dtype for node in casts] == [DType.HALF, DType.FLOAT32]
    ids = {s.id for step in cut(made) for s in legal(made, step, isa(TARGET))}
    assert {"half.reduce.nest", "half.normalization.nest"} <= ids


def test_means_sum_in_float32() -> None:
    """4096 times 1: half precision ends at 2048."""
    net = Net()
    x = net.input("x", (1, 64, 64, 8))
    graph = net.graph(net.node(ReduceMean((1, 2)), [x]))
    made = in_half(graph, able_steps(graph))
    (call,) = (c for c in make_net_source(made, isa(TARGET), "net").calls if "reduce" in c.symbol)
    assert "f32x4_add" in call.kernel.code
    assert "f32x4_load_f16" in call.kernel.code
    assert "f16x" not in call.kernel.code


def test_what_reads_memory_otherwise_is_refused() -> None:
    for line in ("a = p[3];", "f32x4_load2(p, &a, &b);", "memcpy(y, x, 4 * sizeof(float));"):
        with pytest.raises(ValueError, match="not known"):
            with_half_memory(Kernel(f"static void f(const float *p)\n{{\n    {line}\n}}\n"))
    with pytest.raises(ValueError, match="scratch"):
        with_half_memory(Kernel("", scratch_bytes=64))


@pytest.mark.parametrize(
    ("more", "half"), [(False, ["one"]), (True, ["one", "pair", "two"])], ids=["last", "between"]
)
def test_what_more_numbers_have_to_be_converted_for_stays_float32(
    more: bool, half: list[str]
) -> None:
    """Two values are joined of which one is float32; so is the result, unless a layer follows."""
    net = Net()
    x = net.input("x", (1, 6, 8, 8))
    one = net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 8, 8)], name="one")
    shares = net.node(Softmax(3), [one], name="shares")
    pair = net.node(Concat(3), [one, shares], name="pair")
    two = Conv(ONE, SAME, ONE), [pair, net.weight(3, 3, 16, 8)]
    graph = net.graph(net.node(*two, name="two") if more else pair)
    assert [step.name for step in worthwhile(graph, able_steps(graph))] == half


def test_constants_are_not_concatenated_in_half_precision() -> None:
    """They are stored as float32."""
    net = Net()
    x = net.input("x", (2, 3, 4, 8))
    made = net.node(Conv(ONE, SAME, ONE), [x, net.weight(3, 3, 8, 8)])
    graph = net.graph(net.node(Concat(3), [made, net.weight(2, 3, 4, 8)]))
    assert [step.kind for step in able_steps(graph)] == ["Conv"]


def recurrent(activation: Elementwise, *, first: bool = False) -> Graph:
    """A plain recurrent layer over 40 steps whose state stays; `first`: it may begin later."""
    net = Net()
    given = [net.input("first", (1,))] if first else []
    inputs = [net.input("p", (1, 40, 8)), net.constant("r", np.eye(8, dtype=np.float32)[None])]
    inputs += ["", *given] if first else []
    return net.graph(net.node(Rnn(8, ((activation,),)), inputs, name="layer"))


def test_states_are_rounded_in_every_step() -> None:
    """A sum of 40 steps, each a little less than what half precision tells apart beside 8."""
    op, inputs = Rnn(8, ((Relu(),),)), [np.full((1, 40, 8), 2.0**-9), np.eye(8)[None]]
    inputs[0][:, 0] = 8.0
    (exact,) = op.reference(*inputs)
    (found,) = half_recurrence(op, inputs, np.zeros(7), 1.0)
    assert exact[0, -1, 0] == 8 + 39 * 2.0**-9
    assert (found == 8.0).all()
    (moved,) = half_recurrence(op, inputs, np.ones(7), 2.0**-12)
    assert (np.diff(moved, axis=1) > 0.0).all()


def test_recurrent_layers_that_stay_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that may begin later, and those with functions that half precision does not have."""
    assert [step.name for step in able_steps(recurrent(Tanh()))] == ["layer"]
    assert not able_steps(recurrent(Tanh(), first=True))
    monkeypatch.setattr(
        half_recurrent, "unknown_words", lambda code: {"tanh"} if "_tanh" in code else set()
    )
    assert not able_steps(recurrent(Tanh()))
    assert able_steps(recurrent(Sigmoid()))


def cancelling() -> Graph:
    """A layer whose large outputs cancel in the next one, beside another layer."""
    net = Net()
    x = net.input("x", (1, 64))
    plain = net.node(MatMul(), [x, net.weight(64, 64)], name="plain")
    w = net.rng.standard_normal((64, 8)).astype(np.float32)
    pair = np.concatenate([30 + w, w[::-1] - 30], axis=1).astype(np.float32)
    both = net.node(MatMul(), [x, net.constant("w", pair)], name="cancelling")
    ones = net.constant("ones", np.tile(np.eye(8, dtype=np.float32), (2, 1)))
    return net.graph(plain, net.node(MatMul(), [both, ones], name="sum"))


def test_what_loses_too_much_stays_float32() -> None:
    free, bounded = (compute_in_half(cancelling(), b).half_layers for b in (10.0, 5e-3))
    assert free is not None
    assert bounded is not None
    assert not free.floats
    assert free.error > 2e-2
    assert "cancelling" in dict(bounded.floats)
    assert dict(bounded.floats)["cancelling"].startswith("alone it loses 0.")
    assert "plain" in bounded.layers
    assert bounded.error < 5e-3 / 1.25
    assert bounded.bytes < bounded.float_bytes


def test_overflow_keeps_a_layer_float32() -> None:
    net = Net()
    x = net.input("x", (1, 16))
    large = net.constant("w", 1e5 * net.rng.standard_normal((16, 16)).astype(np.float32))
    first = net.node(MatMul(), [x, net.weight(16, 16)], name="first")
    facts = compute_in_half(
        net.graph(first, net.node(MatMul(), [x, large], name="large")), 0.1
    ).half_layers
    assert facts is not None
    assert facts.layers == ("first",)


def test_the_advice_after_a_refusal_helps() -> None:
    with pytest.raises(OptionError, match="more than --max-error 1e-07") as refused:
        compute_in_half(residual(), 1e-7)
    assert refused.value.where == "--compute-as"
    assert compute_in_half(residual(), float(refused.value.cure.split()[-1])).half_layers


def test_a_network_without_such_layers() -> None:
    net = Net()
    graph = net.graph(net.node(Relu(), [net.input("x", (1, 8))]))
    with pytest.raises(OptionError, match="no layer can compute in half precision"):
        compute_in_half(graph, 1.0)


@pytest.mark.parametrize(
    "model",
    [camera(), separable(), layers(), unet(), sequences(), resets(backwards=False)],
    ids=["camera", "separable", "dense", "unet", "recurrent", "resets"],
)
def test_networks_compute_in_half_precision(tmp_path: Path, model: Any) -> None:
    """The error is what was estimated, to which tiles of 4x4 may add half of the bound."""
    need_toolchain(TARGET)
    file, _ = write(tmp_path, model)
    options = make_options(file, HALF)
    compiled = compile_model(options)
    graph, toolchain = compiled.source.graph, find_toolchain(options)
    assert graph.half_layers is not None
    samples = seeded_samples(graph, 8)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(need_runner(toolchain))
    before = load_model(options)
    error = max(errors_by_output(found, [evaluate(before, s) for s in samples]).values())
    schedules = _schedules(compiled.files)
    tiles = any("conv.winograd_oc{" in name for name in schedules)
    most = 2 * graph.half_layers.error + (0.025 if tiles else 0.0)
    assert graph.half_layers.error / 4 < error < most
    assert any(name.startswith("half.") for name in schedules)
    assert b'"cannery/vec_half.h"' in compiled.files["net.c"]
    facts = json.loads(compiled.files["net.json"])["float16_layers"]
    assert facts["weight_bytes"] < 0.6 * facts["float_weight_bytes"]


def _schedules(files: Any) -> list[str]:
    return [step["schedule"] for step in json.loads(files["net.json"])["steps"]]


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_random_networks_have_such_code(seed: int) -> None:
    """Every step that is converted has a kernel that half precision knows."""
    graph = place_constants(run_passes(random_graph(seed)))
    made = in_half(graph, able_steps(graph))
    verify(made, after="half")
    calls = make_net_source(made, isa(TARGET), "net").calls
    converted = any(isinstance(node.op, Cast) and node.op.to is DType.HALF for node in made.nodes)
    assert any(call.kernel.needs_half for call in calls) == converted


@pytest.mark.parametrize(
    "further",
    [{"many": "4"}, {"parallel": True}, {"split": "2"}, {"max_lines": "30"}, {"max_size": "1.5"},
     {"trace_steps": True}, {"dump_values": True}, {"max_ram": "100K"}],
    ids=lambda further: next(iter(further)),
)  # fmt: skip
def test_other_options_go_with_it(tmp_path: Path, further: dict[str, Any]) -> None:
    need_toolchain(TARGET)
    file, _ = write(tmp_path, camera())
    options = make_options(file, {**HALF, **further})
    compiled = compile_model(options)
    graph, toolchain = compiled.source.graph, find_toolchain(options)
    samples = seeded_samples(graph, 2)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(need_runner(toolchain))
    before = load_model(options)
    assert max(errors_by_output(found, [evaluate(before, s) for s in samples]).values()) < 0.05


@pytest.mark.parametrize(
    ("further", "what"),
    [
        ({"weights_as": "float16"}, "--weights-as float16"),
        ({"weights": "net.weights"}, "--weights"),
        ({"same_everywhere": True}, "--same-everywhere"),
        ({"streaming": True, "block": ["1", "4"]}, "several --block"),
    ],
)
def test_options_that_do_not(further: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionError, match=f": {what} cannot be combined with it") as refused:
        make_options(Path("net.h5"), {**HALF, **further})
    assert refused.value.where == "--compute-as"


def test_what_compile_says(tmp_path: Path) -> None:
    file, samples = write(tmp_path, camera())
    words = ["compile", str(file), "-o", str(tmp_path / "out"), "--compute-as", "float16"]
    given = ["--max-error", "0.05", "--calibration", str(samples)]
    done = CliRunner().invoke(cli, [*words, *given, "--target", TARGET])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out" / "net.json").read_text())
    assert manifest["float16_layers"]["samples"] == 6


@pytest.mark.parametrize("command", [["compile", "-o", "out"], ["autotune", "--budget", "5"]])
def test_processors_without_half_precision(tmp_path: Path, command: list[str]) -> None:
    need_toolchain("generic")
    file, _ = write(tmp_path, camera())
    words = [command[0], str(file), *command[1:], "--compute-as", "float16", "--max-error", "0.05"]
    done = CliRunner().invoke(cli, [*words, "--target", "generic"])
    assert isinstance(done.exception, OptionError)
    assert "generic (generic) does not compute in half precision" in str(done.exception)
    assert "--weights-as float16" in done.exception.cure
