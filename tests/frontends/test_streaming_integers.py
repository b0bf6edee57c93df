"""Quantised networks call by call: the past is kept as integers, and results have the same bits."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cannery.errors import CanneryError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.movement.op import Cast, Pad
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.quantized.elementwise import ByteTable
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.reduce.op import ReduceSum
from cannery.passes import run_passes
from frontends.causal_integers import IntegerMaker, IntegerRowMaker
from frontends.causal_nets import STEPS, Maker, call_by_call, wanted
from ops.cases import Net

BLOCKS = (1, 2, 12)
SEEDS = range(40)


def kept(calls: Graph) -> list[DType]:
    """The types of the states that are not a number of steps."""
    types = (calls.types[state.input] for state in calls.states)
    return [type_.dtype for type_ in types if type_.elements > 1]


def compare(graph: Graph, block: int, latency: int | str = 0) -> int:
    """Check that calls give the bits of the whole sequence; returns how many elements were
    compared.
    """
    calls = to_streaming(graph, block, latency, time_axis={"x": 1})
    assert set(kept(calls)) == {DType.INT8}
    x = np.random.default_rng(5).standard_normal(graph.types["x"].shape).astype(np.float32)
    whole, compared = run_passes(graph), 0
    made = call_by_call(run_passes(calls), x, block)
    for results, right in zip(made, wanted(whole, calls, x), strict=False):
        found, used = np.array(results), ~np.isnan(right)
        np.testing.assert_array_equal(found[used], right[used])
        compared += int(used.sum())
    return compared


@pytest.mark.parametrize("maker", [IntegerMaker, IntegerRowMaker])
@pytest.mark.parametrize("block", BLOCKS)
def test_random_networks(maker: type[Maker], block: int) -> None:
    """Also those that look ahead, and those whose strides take several calls."""
    right = 0
    for seed in SEEDS:
        try:
            graph = maker(seed, ahead=seed % 3 == 1, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue  # branches of different lengths
        assert compare(graph, block, AUTO) > 0
        right += 1
    assert right > 0.9 * len(SEEDS)


class Quantised(Net):
    """Steps as integers, of one scale and zero point, which operators on floats keep."""

    def parameters(self) -> tuple[str, str]:
        scale = self.constant("scale", np.array([0.05], np.float32))
        return scale, self.constant("zero", np.array([-128], np.int8))

    def stored(self, value: str) -> str:
        return self.node(QuantizeLinear(), [value, *self.parameters()])

    def floats(self, value: str) -> str:
        return self.node(DequantizeLinear(), [value, *self.parameters()])

    def integers(self, *shape: int) -> str:
        return self.constant("w", Random(3).choices(range(-90, 90), k=int(np.prod(shape))), shape)

    def constant(self, name: str, array: object, shape: tuple[int, ...] = ()) -> str:
        values = np.asarray(array, None if isinstance(array, np.ndarray) else np.int8)
        return super().constant(name, values.reshape(shape) if shape else values)


@pytest.mark.parametrize("scale", [0.0, 1e-38])
def test_scales_that_lose_everything(scale: float) -> None:
    b = Quantised()
    parts = [b.constant("s", np.float32([scale])), b.constant("z", np.zeros(1, np.int8))]
    y = b.node(DequantizeLinear(), [b.stored(b.input("x", (1, STEPS, 3))), *parts])
    op = Conv((1,), ((2, 0),), (1,))
    with np.errstate(all="raise", under="ignore"):
        calls = to_streaming(b.graph(b.node(op, [y, b.weight(3, 3, 3)])))
    assert kept(calls) == [DType.INT8]


def test_what_is_stored_twice_is_the_same() -> None:
    """Padding that is quantised as the value is: nothing is computed for it."""
    b = Quantised()
    x = b.stored(b.input("x", (1, STEPS, 3)))
    for _ in range(2):
        padded = b.node(Pad(((0, 0), (2, 0), (0, 0))), [b.floats(x)])
        weights = b.node(
            DequantizeLinear(), [b.integers(3, 3, 3), b.constant("s", np.float32([0.004])),
                                 b.constant("z", np.zeros(1, np.int8))],
        )  # fmt: skip
        x = b.stored(b.node(Conv((1,), ((0, 0),), (1,)), [b.floats(b.stored(padded)), weights]))
    graph = b.graph(b.floats(x))
    calls = run_passes(to_streaming(graph, 4))
    assert {node.op.kind for node in calls.nodes} <= {
        "QuantizeLinear", "Concat", "Slice", "Reshape", "QuantizedConv", "DequantizeLinear"
    }  # fmt: skip
    assert set(calls.states[0].initial) == {-128.0}
    assert compare(graph, 4) == STEPS * 3


def products(before: int, zero: int) -> Graph:
    """What files have that store products and sums of integers."""
    b = Quantised()
    scale, point = b.parameters()
    fine, none = b.constant("fine", np.float32([0.02])), b.constant("none", np.zeros(1, np.int8))
    x = b.stored(b.input("x", (1, STEPS, 3)))
    own = b.constant("own", np.array([zero], np.int8))
    sums = b.node(ConvInteger((1,), ((before, 0),), (1,), 1), [x, b.integers(3, 3, 3), own, none])
    y = b.node(Requantize(), [sums, fine, scale, scale, point])
    y = b.node(ByteTable(), [y, b.constant("table", np.arange(256).astype(np.int8))])
    y = b.node(MatMulInteger(), [y, b.integers(3, 2), point, none])
    return b.graph(b.node(Requantize(), [y, fine, scale, scale, point]))


@pytest.mark.parametrize("block", BLOCKS)
def test_products_of_integers(block: int) -> None:
    """A convolution of integers pads with its zero point."""
    assert compare(products(2, -128), block) == STEPS * 2
    assert compare(products(0, -128), block, AUTO) > 0


def test_a_computed_zero_point_cannot_be_the_past() -> None:
    b = Quantised()
    x = b.stored(b.input("x", (1, STEPS, 3)))
    zero = b.node(Cast(DType.INT8), [b.input("point", (1,))])
    none = b.constant("none", np.zeros(1, np.int8))
    conv = ConvInteger((1,), ((2, 0),), (1,), 1)
    graph = b.graph(b.node(conv, [x, b.integers(3, 3, 3), zero, none]))
    with pytest.raises(UnsupportedError, match="the zero point of its input is computed"):
        to_streaming(graph)


@pytest.mark.parametrize("block", BLOCKS)
def test_maxima_and_sums_of_integers(block: int) -> None:
    """Padding never wins; a sum of all steps keeps those that are left as bytes."""
    b = Quantised()
    x = b.stored(b.input("x", (1, STEPS, 2, 3)))
    y = b.node(QuantizedMaxPool((3, 1), (1, 1), ((2, 0), (0, 0)), (1, 1)), [x])
    whole = b.node(ReduceSum((1,), keepdims=True), [b.node(Cast(DType.INT32), [y])])
    assert compare(b.graph(y, whole), block) > STEPS


def test_sums_are_those_of_the_last_steps() -> None:
    """As with floats: what has not come yet counts as 0."""
    b = Quantised()
    y = b.node(Cast(DType.INT32), [b.stored(b.input("x", (1, 4, 3)))])
    graph = b.graph(b.node(ReduceSum((1,)), [y]))
    calls = to_streaming(graph)
    x = np.full((1, 8, 3), 1.0, np.float32)
    found = [int(np.asarray(each).reshape(-1)[0]) for each in call_by_call(calls, x, 1)[0]]
    each = int(evaluate(graph, {"x": x[:, :4]})[graph.outputs[0]].reshape(-1)[0]) // 4
    assert found == [each, 2 * each, 3 * each, *[4 * each] * 5]
