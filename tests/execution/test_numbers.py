"""Bounds of rounding errors and of integer sums: they hold for every input that is tried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.emit.source import Source
from cannery.execution.error_bounds import _winograd, error_bounds
from cannery.execution.function_bounds import RULES
from cannery.execution.normalization_bounds import standardized
from cannery.execution.numbers import box_samples, numbers_of
from cannery.execution.program import network_program
from cannery.execution.spans import Span
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv.winograd import F2, F4, Tile
from cannery.ops.elementwise import (
    Abs,
    Add,
    Affine,
    Clip,
    Div,
    Elu,
    Exp,
    Floor,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Log,
    Max,
    Min,
    Mish,
    Mul,
    Neg,
    Reciprocal,
    Relu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Sub,
    Tanh,
)  # fmt: skip
from cannery.ops.logic.compare import Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.sums import SumBound, integer_sums
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.softmax.op import Softmax
from cannery.passes import run_passes
from cannery.target.targets import parse_isa
from needs import need_runner, need_toolchain
from nets.net_bench import make_net_source

RNG = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
    return RNG.standard_normal(shape, np.float32)


def convolved(b: GraphBuilder) -> str:
    """Two 3x3 layers, where Winograd may be used, with what often lies between them."""
    x = b.input("x", (1, 12, 12, 4))
    pads = ((1, 1), (1, 1))
    conv = Conv((1, 1), pads, (1, 1))
    w = b.constant("w", weights(3, 3, 4, 16))
    bias = b.constant("b", weights(16))
    first = b.node(Relu(), [b.node(conv, [x, w, bias], name="c")], name="r")
    pooled = b.node(MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)), [first], name="p")
    second = b.node(conv, [pooled, b.constant("v", weights(3, 3, 16, 16))], name="d")
    mean = b.node(AveragePool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)), [second], name="a")
    return b.node(LeakyRelu(0.1), [mean], name="y")


def smooth(b: GraphBuilder) -> str:
    x = b.input("x", (2, 12))
    parts = [
        b.node(op, [x], name=f"f{k}")
        for k, op in enumerate((
            Sigmoid(), Tanh(), Silu(), Softplus(), Softsign(), Mish(), Elu(0.5), Gelu(),
            Clip(-0.5, 0.7),
        ))
    ]  # fmt: skip
    return b.node(Concat(1), parts, name="y")


def attending(b: GraphBuilder) -> str:
    """Products of two values, a softmax, differences."""
    x = b.input("x", (6, 8))
    q = b.node(MatMul(), [x, b.constant("q", weights(8, 8))], name="qx")
    k = b.node(MatMul(), [x, b.constant("k", weights(8, 8))], name="kx")
    scores = b.node(MatMul(transpose_b=True), [q, k], name="s")
    shares = b.node(Softmax(1), [scores], name="p")
    out = b.node(MatMul(), [shares, x], name="o")
    both = b.node(
        Sub(), [b.node(Mul(), [out, x], name="m"), b.node(Neg(), [x], name="n")], name="t"
    )
    return b.node(ReduceMean((1,)), [both], name="y")


def picked(b: GraphBuilder) -> str:
    x, z = b.input("x", (3, 4)), b.input("z", (3, 4))
    larger = b.node(Max(), [x, z], name="a")
    smaller = b.node(Min(), [b.node(Abs(), [x], name="c"), z], name="d")
    both = b.node(Add(), [larger, smaller], name="e")
    padded = b.node(Pad(((0, 0), (1, 2)), 3.0), [both], name="f")
    return b.node(Reshape((21,)), [padded], name="y")


def remembering(b: GraphBuilder) -> str:
    """Recurrent layers: an LSTM to and fro with peepholes, both kinds of GRU, a plain one."""
    x = b.input("x", (1, 5, 4))
    gates = (Sigmoid(),), (Tanh(),), (Tanh(),)

    def layer(op: Recurrent, value: str, name: str, *more: str) -> str:
        shape = (op.directions, op.cells, op.gates * op.cells)
        width = b.types[value].shape[2]
        w = b.constant(f"{name}_w", weights(width, shape[0] * shape[2]) * np.float32(0.3))
        p = b.node(MatMul(), [value, w], name=f"{name}_p")
        r = b.constant(f"{name}_r", weights(*shape) * np.float32(0.3))
        return b.node(op, [p, r, *more], name=name)

    peepholes = b.constant("peepholes", weights(2, 9))
    y = layer(Lstm(3, gates * 2, (False, True)), x, "lstm", "", "", peepholes)
    y = layer(Gru(4, gates[:2], clip=1.5), y, "gru")
    bias = b.constant("bias", weights(1, 4))
    y = layer(Gru(4, gates[:2], linear_before_reset=True), y, "keras", "", bias)
    return layer(Rnn(3, gates[1:2], (True,)), y, "rnn")


def steep(b: GraphBuilder) -> str:
    """Functions that grow, and those that need inputs away from 0, of inputs of any sign."""
    x = b.input("x", (2, 9))
    large = b.node(Affine(0.25, 6.5), [x], name="large")  # 1.5 and more, in all boxes
    parts = [
        b.node(Exp(), [b.node(Affine(0.5, 0.1), [x], name="half")], name="exp"),
        b.node(Log(), [large], name="log"), b.node(Sqrt(), [large], name="sqrt"),
        b.node(Div(), [x, large], name="div"), b.node(Reciprocal(), [large], name="inverse"),
        b.node(Square(), [x], name="square"), b.node(HardSigmoid(), [x], name="gate"),
        b.node(HardSwish(), [x], name="swish"),
    ]  # fmt: skip
    return b.node(Concat(1), parts, name="y")


def chosen(b: GraphBuilder) -> str:
    """Choices by comparisons of inputs."""
    x, z = b.input("x", (3, 8)), b.input("z", (3, 8))
    parts = []
    for k, op in enumerate((Less(), LessOrEqual(), Greater(), GreaterOrEqual(), Equal())):
        holds = b.node(op, [x, z], name=f"c{k}")
        parts.append(b.node(Where(), [holds, x, z], name=f"w{k}"))
    return b.node(Concat(1), parts, name="y")


def standard(b: GraphBuilder) -> str:
    """Layers that standardise, the second one what was computed."""
    x = b.input("x", (2, 6, 16))
    scale, bias = b.constant("s", weights(16)), b.constant("b", weights(16))
    y = b.node(LayerNormalization((2,), 1.0), [x, scale, bias], name="n")
    y = b.node(MatMul(), [y, b.constant("w", weights(16, 16))], name="p")
    y = b.node(GroupNormalization(4, 2, 4.0), [y, scale], name="g")
    return b.node(LayerNormalization((1, 2), 1.0), [y], name="y")


CASES = (convolved, smooth, attending, picked, remembering, steep, chosen, standard)


def network(make: Callable[[GraphBuilder], str]) -> Graph:
    b = GraphBuilder("net")
    b.output(make(b))
    return b.build()


def made(make: Callable[[GraphBuilder], str], target: str) -> Source:
    isa = need_toolchain(target).target.isa
    return make_net_source(run_passes(network(make)), isa, "net")


@pytest.mark.parametrize("box", [(-1.0, 1.0), (0.0, 3.0), (-20.0, -19.5)])
@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("target", ["generic", "native"])
def test_no_error_exceeds_its_bound(
    make: Callable[[GraphBuilder], str], box: tuple[float, float], target: str
) -> None:
    toolchain, source = need_toolchain(target), made(make, target)
    samples = box_samples(source.graph, 6, box)
    with network_program(source, output_files(source, "test"), toolchain, samples) as program:
        found = numbers_of(program, need_runner(toolchain), samples, box)
    (bound,) = found.errors
    assert bound.error is not None and bound.largest is not None, bound.reason
    assert 0 <= found.seen[0] <= bound.error
    assert found.broken == ()
    assert bound.error < bound.largest / 4 or bound.error < 1e-3


def test_a_sum_has_highams_bound() -> None:
    """gamma_65 times the magnitudes, nothing else."""
    w = weights(64, 3)

    def dense(b: GraphBuilder) -> str:
        return b.node(MatMul(), [b.input("x", (1, 64)), b.constant("w", w)], name="y")

    (bound,) = error_bounds(made(dense, "generic"), -2.0, 2.0)
    assert bound.error is not None
    expected = 2.0 * np.abs(w.astype(np.float64)).sum(axis=0).max() * 66 * 2.0**-24
    assert bound.error == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("tile", [Tile(F2, F2), Tile(F4, F4)])
def test_winograd_stays_within_its_bound(tile: Tile) -> None:
    """For weights and inputs of random signs, and for those that make everything large."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        w = rng.standard_normal((3, 3, 8, 4)).astype(np.float32)
        x = rng.choice([-1.0, 1.0], (1, 8, 8, 8)).astype(np.float32)
        exact = np.asarray(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)).reference(x, w)[0], np.float64)
        wrong = np.abs(tile.emulate(x, w) - exact).max(axis=(0, 1, 2))
        bound = _winograd(tile, np.abs(x).astype(np.float64), w.astype(np.float64), np.zeros(4))
        assert (wrong <= bound).all()
        assert (bound < 2000 * wrong.max()).all()


def test_layers_by_winograd_have_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With AVX2, 3x3 layers of 16 channels are computed by tiles."""
    source = make_net_source(run_passes(network(convolved)), parse_isa("avx2"), "net")
    assert any("winograd" in str(call.planned.choice) for call in source.calls)
    (bound,) = error_bounds(source, -1.0, 1.0)
    monkeypatch.setattr("cannery.execution.error_bounds._ways", lambda source: {})
    (direct,) = error_bounds(source, -1.0, 1.0)
    assert bound.error is not None and direct.error is not None
    assert bound.error > 2 * direct.error


def recurrent(op: Recurrent, steps: int, scale: float) -> Source:
    """One layer of which inputs are the projected ones."""

    def make(b: GraphBuilder) -> str:
        shape = (1, op.cells, op.gates * op.cells)
        r = b.constant("r", weights(*shape) * np.float32(scale))
        return b.node(op, [b.input("p", (1, steps, shape[2])), r], name="y")

    return make_net_source(network(make), parse_isa("generic"), "net")


def test_errors_of_recurrent_layers_end_at_what_is_possible() -> None:
    """Small at first, then as large as outputs between -1 and 1 can differ."""
    gates = (Sigmoid(),), (Tanh(),), (Tanh(),)
    for op in (Lstm(4, gates), Gru(4, gates[:2]), Rnn(4, gates[1:2])):
        (short,), (long,) = (error_bounds(recurrent(op, n, 9.0), -1.0, 1.0) for n in (1, 99))
        assert short.error is not None and long.error is not None
        assert 0.0 < short.error < 1e-5 < 1.9 < long.error < 2.01


def test_recurrent_layers_without_a_rule() -> None:
    gates = (Relu(),), (Tanh(),)
    for op, reason in (
        (Gru(4, gates), "gates leave 0 to 1"), (Rnn(4, ((Floor(),),)), "Floor in a recurrent"),
    ):  # fmt: skip
        (bound,) = error_bounds(recurrent(op, 2, 1.0), -1.0, 1.0)
        assert bound.error is None and reason in bound.reason


def test_sequences_that_begin_within_a_call_have_no_bound() -> None:
    """Also where it is certain which step is the first one."""

    def late(b: GraphBuilder) -> str:
        p, first = b.input("p", (1, 5, 3)), b.input("first", (1,))
        r = b.constant("r", weights(1, 3, 3))
        return b.node(Rnn(3, ((Tanh(),),)), [p, r, "", first], name="y")

    (bound,) = error_bounds(made(late, "generic"), 2.0, 2.0)
    assert bound.error is None and "begins within a call" in bound.reason


def test_what_has_no_rule_says_so() -> None:
    def rounded(b: GraphBuilder) -> str:
        x = b.input("x", (1, 4))
        return b.node(Relu(), [b.node(Floor(), [x], name="e")], name="y")

    (bound,) = error_bounds(made(rounded, "generic"), -1.0, 1.0)
    assert (bound.error, bound.largest) == (None, None)
    assert bound.reason.startswith("Floor ('e") and "has no rule" in bound.reason


@pytest.mark.parametrize(
    ("op", "box", "reason"),
    [
        (Exp(), (0.0, 88.5), "may overflow"),
        (Log(), (0.0, 1.0), "0 or less"),
        (Sqrt(), (-0.1, 1.0), "below 0"),
        (Reciprocal(), (-1.0, 1.0), "may be 0"),
        (LayerNormalization((1,), 0.0), (-1.0, 1.0), "may be 0 or overflow"),
        (LayerNormalization((1,), 0.1), (-1e17, 1e17), "may be 0 or overflow"),
    ],
)
def test_where_functions_have_no_bound(op: Op, box: tuple[float, float], reason: str) -> None:
    def single(b: GraphBuilder) -> str:
        return b.node(op, [b.input("x", (1, 4))], name="y")

    (bound,) = error_bounds(made(single, "generic"), *box)
    assert bound.error is None and reason in bound.reason


@pytest.mark.parametrize("op", [Exp(), Log(), Sqrt(), Div(), Reciprocal(), Square(), HardSwish()])
def test_errors_of_inputs_are_carried_on(op: Op) -> None:
    """Values at the ends of what their errors allow: results differ by no more than the bound."""
    (rule,) = (rule for kinds, rule in RULES if isinstance(op, kinds))
    rng = np.random.default_rng(0)
    exact = [rng.uniform(0.5, 4.0, 200) for _ in range(2 if isinstance(op, Div) else 1)]
    errors = [rng.uniform(0.0, 0.1, 200) for _ in exact]
    span = rule(op, [Span(x, x, e) for x, e in zip(exact, errors, strict=True)])
    (right,) = op.reference(*exact)
    for signs in np.ndindex(*[2] * len(exact)):
        moved = [x + (1 - 2 * s) * e for x, e, s in zip(exact, errors, signs, strict=True)]
        assert (np.abs(op.reference(*moved)[0] - right) <= span.error).all()


def test_errors_before_a_normalisation_are_carried_on() -> None:
    """Also where values hardly differ, so that they grow."""
    rng = np.random.default_rng(1)
    for spread in (1.0, 1e-3):
        x, error = spread * rng.standard_normal((20, 16)), spread * rng.uniform(0.0, 0.1, (20, 16))
        span = standardized(Span(x, x, error), (1,), 1e-6)
        moved = x + error * rng.choice([-1.0, 1.0], x.shape)
        op = LayerNormalization((1,), 1e-6)
        wrong = np.abs(op.reference(moved)[0] - op.reference(x)[0])
        assert (wrong <= span.error).all() and (wrong > 0.0).all()


def test_choices_that_may_turn_out_otherwise() -> None:
    """Where both results are possible, the error is how far they are apart; else it is theirs."""

    def choice(b: GraphBuilder) -> str:
        x, far = b.input("x", (1, 4)), b.constant("far", np.full((1, 4), 50.0, np.float32))
        computed = b.node(Affine(3.0, 0.1), [x], name="a")
        holds = b.node(
            Less(), [computed, b.constant("zero", np.zeros((1, 4), np.float32))], name="c"
        )
        return b.node(Where(), [holds, far, x], name="y")

    source = made(choice, "generic")
    (unsure,), (sure,) = error_bounds(source, -1.0, 1.0), error_bounds(source, 1.0, 2.0)
    assert unsure.error == pytest.approx(51.0) and unsure.largest == pytest.approx(101.0)
    assert sure.error == 0.0 and sure.largest == 2.0


def test_sums_of_integers_are_those_of_the_worst_input() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (1, 3, 3, 2), DType.INT8)
    w = np.array([[-128, 5], [7, 100]], np.int8).reshape(1, 1, 2, 2)
    start = b.constant("start", np.array([-1000, 3], np.int32))
    conv = QuantizedConv(dtype=DType.INT32, strides=(1, 1), pads=((0, 0), (0, 0)), dilations=(1, 1))
    y = b.node(conv, [x, b.constant("w", w), "", "", "", start], name="y")
    z = b.input("z", (1, 2), DType.INT16)
    large = b.constant("v", np.full((2, 1), 32767, np.int16))
    b.output(y)
    b.output(b.node(QuantizedMatMul(dtype=DType.INT32), [z, large], name="m"))
    sums = integer_sums(b.build())
    assert sums[0] == SumBound("y", (128 + 7) * 255 + 1000)
    assert sums[1].largest == 2 * 32767 * 2**15 and sums[1].fits
    assert not SumBound("z", 2**31).fits


def test_sums_of_recurrent_layers_end_at_their_bound() -> None:
    """Outputs of at most 100 units times the largest column of recurrent weights."""
    b = GraphBuilder("net")
    r = np.zeros((1, 2, 6), np.int8)
    r[0, :, 4] = -128, 3
    names = [b.input("p", (1, 3, 6)), b.constant("r", r)]
    scale = b.constant("s", np.ones((1, 6), np.float32))
    gru = QuantizedGru(2, ((Sigmoid(),), (Tanh(),)), 100, DType.INT8, linear_before_reset=True)
    b.output(b.node(gru, [*names, scale], name="y"))
    assert integer_sums(b.build()) == (SumBound("y", 131 * 100),)
