"""What reads several steps computes call by call what it does for the whole sequence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.parser import parse_graph
from cannery.ir.printer import write_graph
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Sigmoid, Sub, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import TopK
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from frontends.causal_nets import STEPS, Maker, call_by_call, compare, compare_mixed
from ops.cases import Net

BLOCKS = (1, 2, 12)
SEEDS = range(240)

#: Grows a network from its input.
Build = Callable[[Net, str], str]


def network(build: Build, steps: int = STEPS, channels: int = 3) -> Graph:
    b = Net()
    return b.graph(build(b, b.input("x", (1, steps, channels))))


def conv(before: int, after: int, taps: int = 3, stride: int = 1, dilation: int = 1) -> Build:
    """Of three channels to as many."""
    op = Conv((stride,), ((before, after),), (dilation,))
    return lambda b, x: b.node(op, [x, b.weight(taps, 3, 3)])


def chain(*builds: Build) -> Build:
    def build(b: Net, x: str) -> str:
        for each in builds:
            x = each(b, x)
        return x

    return build


def node(op: object) -> Build:
    return lambda b, x: b.node(op, [x])  # type: ignore[arg-type]


@pytest.mark.parametrize("block", BLOCKS)
def test_random_networks(block: int) -> None:
    """Also those that look ahead, and those whose strides take several calls."""
    right = 0
    for seed in SEEDS:
        ahead = seed % 2 == 1
        try:
            graph = Maker(seed, ahead=ahead, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue  # branches of different lengths
        assert compare(graph, block, AUTO if ahead else 0) > 0
        right += 1
    assert right > 0.9 * len(SEEDS)


@pytest.mark.parametrize("blocks", [(1, 3, 4), (1, 2), (4, 12), (12, 24, 48), (2, 6, 48)])
def test_calls_of_several_sizes(blocks: tuple[int, ...]) -> None:
    """In any order, with one state: also where a call brings more than readers look back."""
    outcomes: Counter[str] = Counter()
    for seed in range(24):
        ahead = seed % 2 == 1
        try:
            graph = Maker(seed, ahead=ahead, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue  # branches of different lengths
        try:
            compared = compare_mixed(graph, blocks, AUTO if ahead else 0, seed)
        except OptionError as error:
            assert "--block" in str(error), error
            outcomes["another block"] += 1
        else:
            outcomes["right"] += 1
            assert compared > 0
    assert outcomes["right"] > 12, outcomes


@pytest.mark.parametrize("blocks", [(1, 12), (1, 6, 12), (12, 1)])
def test_short_calls_of_strides_beside_long_ones(blocks: tuple[int, ...]) -> None:
    """A call that is less than a group of steps leaves them to later ones, of any size."""
    right = 0
    for seed in range(2, 60):
        ahead = seed % 2 == 1
        try:
            graph = Maker(seed, ahead=ahead).graph()
        except CanneryError:
            continue  # branches of different lengths
        try:
            few = to_streaming(graph, min(blocks), AUTO, blocks).calls
        except OptionError as error:
            assert re.search(
                r"multiples of (\d+), and at most one size that divides \1", str(error)
            )
            continue
        if few and few.every > 1:
            assert compare_mixed(graph, blocks, AUTO, seed) > 0
            right += 1
    assert right > 10


@pytest.mark.parametrize(
    ("build", "delay"),
    [
        (conv(2, 0), 0), (conv(1, 1), 1), (conv(0, 2), 2), (conv(0, 0), 2),
        (chain(conv(1, 1), conv(1, 1)), 2),
        (conv(4, 0, dilation=2), 0), (conv(2, 2, dilation=2), 2),
        (chain(node(Pad(((0, 0), (2, 0), (0, 0)))), conv(0, 0)), 0),
        (chain(node(Pad(((0, 0), (2, 0), (0, 0)))), node(Tanh()), conv(0, 0)), 0),
        (chain(conv(2, 2), node(Slice((0, 0, 0), (1, STEPS, 3), (1, 1, 1)))), 0),
        (chain(conv(1, 1), node(Slice((0, 1, 0), (1, STEPS, 3), (1, 1, 1)))), 2),
        (node(MaxPool((3,), (1,), ((1, 1),), (1,))), 1),
    ],
)  # fmt: skip
def test_latency_is_the_least(build: Build, delay: int) -> None:
    """And given without a reason, it is more."""
    graph = network(build)
    for latency in (AUTO, delay, delay + 3):
        calls = to_streaming(graph, 1, latency).calls
        assert calls and calls.latency == (delay if latency == AUTO else latency)
        assert compare(graph, 1, latency)
    if delay:
        with pytest.raises(OptionError, match=f"looks ahead.*--latency {delay} "):
            to_streaming(graph, 1, delay - 1)


def recurrent(kind: type[Recurrent]) -> Build:
    """Of three cells, which begin with a constant."""

    def build(b: Net, x: str) -> str:
        functions = [(Sigmoid(),)] * (kind is not Rnn) + [(Tanh(),)] * (1 + (kind is Lstm))
        p = b.node(MatMul(), [x, b.weight(3, 3 * kind.gates)])
        given = [b.weight(1, 3, 3 * kind.gates), *(b.weight(1, 3) for _ in range(kind.states))]
        layer = kind(3, tuple(functions), returns=("sequence",))
        return b.nodes(layer, [p, *given], name=b.unique("layer"))[0]

    return build


@pytest.mark.parametrize("kind", [Rnn, Gru, Lstm])
@pytest.mark.parametrize("ahead", [2, 5])
def test_recurrent_layers_begin_within_a_call(kind: type[Recurrent], ahead: int) -> None:
    """Behind what looks ahead, no later than that: a call brings some steps that do not exist."""
    graph = network(chain(conv(0, ahead, taps=ahead + 1), recurrent(kind), conv(2, 0)))
    for block in (1, 2, 4, 12):
        calls = to_streaming(graph, block, AUTO).calls
        assert calls and calls.latency == ahead
        assert compare(graph, block, AUTO) == STEPS - ahead
    for seed, blocks in enumerate(((1, 3, 4), (4, 12), (2, 5))):
        assert compare_mixed(graph, blocks, AUTO, seed) > STEPS


def test_one_past_for_all_readers() -> None:
    def branches(b: Net, x: str) -> str:
        return b.node(Add(), [conv(2, 0)(b, x), conv(8, 0, dilation=4)(b, x)])

    calls = to_streaming(network(branches))
    assert [calls.types[s.input].shape for s in calls.states] == [(1, 8, 3)]


def test_pads_of_readers_differ() -> None:
    """Zeros for a convolution, what never wins for a maximum: all inputs are below zero."""

    def branches(b: Net, x: str) -> str:
        below = b.node(Add(), [b.node(Tanh(), [x]), b.constant("low", np.full(3, -2.0))])
        return b.node(
            Add(), [conv(2, 0)(b, below), b.node(MaxPool((3,), (1,), ((2, 0),), (1,)), [below])]
        )

    assert compare(network(branches), 1, 0) == STEPS


def test_no_state_without_a_past() -> None:
    """So there would be no functions for a step."""
    with pytest.raises(UnsupportedError, match="none of its layers looks further back"):
        to_streaming(network(chain(conv(0, 0, taps=1), node(Tanh()))), 4)


def test_rates() -> None:
    """A call of four steps brings two elements, then one, then two again."""
    widen = node(Resize("nearest", (STEPS // 2,), "asymmetric", "floor"))
    graph = network(chain(conv(1, 0, 2, 2), node(MaxPool((2,), (2,), ((0, 0),), (1,))), widen))
    calls = to_streaming(graph, 4)
    assert calls.types[calls.outputs[0]].shape == (1, 2, 3)
    assert compare(graph, 4, 0) == STEPS // 2
    with pytest.raises(OptionError, match=r"conv.*2 calls of 3 steps make one.*multiples of 4"):
        to_streaming(graph, 3, 0, (3, 4))


def test_layers_with_strides_run_when_their_inputs_are_complete() -> None:
    """And not before: the first in every other call, the others in each fourth one."""
    widen = node(Resize("nearest", (STEPS // 2,), "asymmetric", "floor"))
    graph = network(chain(conv(2, 0), conv(1, 0, 2, 2), conv(3, 0, 4, 2), widen, conv(1, 0, 2)))
    calls = to_streaming(graph)
    assert calls.calls and (calls.calls.every, calls.calls.round) == (4, 4)
    periods = [calls.calls.periods.get(state.output, 1) for state in calls.states]
    assert sorted(set(periods)) == [1, 2, 4]
    assert compare(graph, 1, 0) == STEPS // 2
    assert compare(graph, 2, 0) == STEPS // 2
    assert parse_graph(write_graph(calls)).calls == calls.calls


def test_outputs_of_different_rates_come_together() -> None:
    """The one that has an element in each call waits for the other."""
    b = Net()
    x = b.input("x", (1, STEPS, 3))
    fast = conv(2, 0)(b, x)
    graph = b.graph(fast, conv(1, 0, 2, 2)(b, fast))
    calls = to_streaming(graph)
    assert calls.calls and calls.calls.every == 2
    assert [calls.types[v].shape[1] for v in graph.outputs] == [2, 1]
    assert compare(graph, 1, 0) == STEPS + STEPS // 2


def test_means_over_all_are_those_of_the_last_steps() -> None:
    """As many as the model has; before them there are zeros."""
    graph = network(node(ReduceMean((1,))), 4)
    x = np.random.default_rng(1).standard_normal((1, 10, 3))
    found = [call[0] for call in call_by_call(to_streaming(graph), x, 1)[0]]
    padded = np.concatenate([np.zeros((1, 3, 3)), x], 1)[0]
    right = [padded[t : t + 4].mean(0) for t in range(10)]
    np.testing.assert_allclose(found, right, atol=1e-6)


def test_what_takes_all_steps_takes_padding_before_them() -> None:
    """The padding is known from the first call on."""
    pad = node(Pad(((0, 0), (2, 0), (0, 0)), 0.5))
    for end in (
        node(ReduceMean((1,))),
        node(Slice((0, STEPS + 1, 0), (1, STEPS + 2, 3), (1, 1, 1))),
    ):
        for block in (1, 4):
            assert compare(network(chain(conv(2, 0), pad, node(Tanh()), end)), block, 0) > 0


def last_state(b: Net, x: str) -> str:
    """Of a GRU, after the whole sequence."""
    p = b.node(MatMul(), [x, b.weight(3, 6)])
    layer = Gru(2, ((Sigmoid(),), (Tanh(),)), (False,), returns=("hidden",))
    return b.nodes(layer, [p, b.weight(1, 2, 6), "", ""], name="gru")[0]


def last_step(b: Net, x: str) -> str:
    length = b.types[x].shape[1]
    return b.node(Slice((0, length - 1, 0), (1, length, 3), (1, 1, 1)), [x])


ENDS = (node(ReduceMean((1,))), last_step, last_state)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(Pad(((0, 0), (0, 2), (0, 0)))), "ends 2 elements after the last input"),
        (lambda b, x: b.node(ConvTranspose((2,), ((0, 0),), (1,), (0,)), [x, b.weight(3, 3, 3)]),
         "ends 1 elements after the last input"),
        (node(Slice((0, 0, 0), (1, STEPS - 3, 3), (1, 1, 1))), "ends 3 elements before the last"),
        (chain(conv(1, 1), node(Slice((0, 0, 0), (1, STEPS - 3, 3), (1, 1, 1)))),
         "ends 2 elements before the last"),
    ],
)  # fmt: skip
def test_sequences_that_do_not_end_with_the_input(build: Build, message: str, end: Build) -> None:
    """What is of all of them is not known when the last input comes, or was known before."""
    with pytest.raises(UnsupportedError, match=message):
        to_streaming(network(chain(conv(2, 0), build, end)), latency=AUTO)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "build", [conv(0, 0), node(Slice((0, 3, 0), (1, STEPS, 3), (1, 1, 1))), conv(0, 0, stride=2)]
)
def test_sequences_that_begin_later_end_with_the_input(build: Build, end: Build) -> None:
    """What is of all of them is not late, though the first steps have no elements."""
    assert compare(network(chain(conv(2, 0), build, end)), 1, 0) > 0


def test_integers_that_begin_late() -> None:
    """What stands for elements before the first one has their type."""

    def whole_numbers(b: Net, x: str) -> str:
        scale, zero = b.constant("s", np.float32([0.05])), b.constant("z", np.array([7], np.int8))
        q = b.node(QuantizeLinear(), [conv(1, 1)(b, x), scale, zero])
        q = b.node(Pad(((0, 0), (2, 0), (0, 0)), 3.0), [q])
        sums = b.node(CumSum(1), [b.node(Cast(DType.INT32), [q])])
        return b.node(Cast(DType.FLOAT32), [sums])

    assert compare(network(whole_numbers), 2, AUTO) > 0


@pytest.mark.parametrize(
    "build",
    [
        chain(node(Reshape((1, 12))), lambda b, x: b.node(MatMul(), [x, b.weight(12, 2)])),
        node(AveragePool((4,), (1,), ((0, 0),), (1,))),
        conv(0, 0, taps=4),
        node(Slice((0, 2, 0), (1, 4, 3), (1, 1, 1))),
    ],
)
def test_what_takes_all_steps_slides(build: Build) -> None:
    """After any call it is what the whole network makes of the last four steps."""
    graph = network(build, 4)
    x = np.random.default_rng(1).standard_normal((1, 8, 3))
    sees_less = graph.types[graph.outputs[0]].shape == (1, 2, 3)
    for block in (1,) if sees_less else (1, 2):
        found = call_by_call(to_streaming(graph, block), x, block)[0]
        for end in range(4, 9, block):
            whole = evaluate(graph, {"x": x[:, end - 4 : end]})[graph.outputs[0]]
            np.testing.assert_allclose(found[end // block - 1], whole, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(LayerNormalization((1,), 1e-3)), "mean and variance are those of all steps"),
        (node(LayerNormalization((1, 2), 1e-3)), "mean and variance are those of all"),
        (node(GroupNormalization(3, 2, 1e-3)), "mean and variance are those of all steps"),
        (node(CumProd(1)), "works along time"),
        (
            chain(
                node(Reshape((STEPS, 1, 3))),
                lambda b, x: b.node(MatMul(), [x, b.weight(STEPS, 3, 2)]),
            ),
            "each step with other weights",
        ),
        (node(Slice((0, STEPS - 1, 0), (1, -1, 3), (1, -1, 1))), "turns time around"),
        (node(Slice((0, 4, 0), (1, 9, 3), (1, 1, 1))), "some of the steps,"),
        (
            node(Slice((0, 4, 0), (1, 5, 3), (1, 1, 1))),
            "some of the steps: step 4 alone, as a loop",
        ),
        (node(Pad(((0, 0), (2, 0), (0, 0)), mode="reflect")), "values of later steps"),
        (node(CumSum(1, reverse=True)), "sums from the end"),
        (node(Resize("linear", (2 * STEPS,), "align_corners")), "between steps"),
        (node(Resize("linear", (STEPS * 2 // 3,), "half_pixel")), "between steps"),
        (node(Resize("nearest", (STEPS // 2,), "align_corners")), "between steps"),
    ],
)
def test_what_needs_the_whole_sequence(build: Build, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        to_streaming(network(chain(conv(2, 0), build)))
    assert caught.value.where.startswith("layer ")


def test_the_layer_that_is_to_blame_is_named() -> None:
    """Where channels could be time as well, but for the first layer."""
    b = Net()
    x = b.node(Transpose((0, 2, 1)), [b.input("x", (1, 3, STEPS))])
    y = b.node(CumProd(1), [conv(2, 0)(b, x)], name="mixes")
    with pytest.raises(UnsupportedError, match="layer 'mixes'"):
        to_streaming(b.graph(y))


def image(*, first: bool = False) -> Graph:
    """A window over rows and columns, either of which could be time; and numbers without steps."""
    b = Net()
    x, scale = b.input("x", (1, 4, 6, 3)), b.input("scale", (1, 4, 6, 3))
    x = b.node(Pad(((0, 0), (1, 0), (2, 0), (0, 0)), 0.0), [x])
    x = b.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, b.weight(2, 3, 3, 2)])
    graph = b.graph(x, b.node(Tanh(), [scale]))
    return replace(graph, channels_first=frozenset(("x", "scale"))) if first else graph


@pytest.mark.parametrize(("first", "axes"), [(False, (1, 2)), (True, (2, 3))])
def test_the_axis_of_time_may_be_named(first: bool, axes: tuple[int, int]) -> None:
    """In the order of the model."""
    graph = image(first=first)
    rows, columns = (to_streaming(graph, time_axis={"x": axis, "scale": axis}) for axis in axes)
    assert rows.types["x"].shape == (1, 1, 6, 3) and columns.types["x"].shape == (1, 4, 1, 3)
    assert to_streaming(graph).types["x"].shape == (1, 1, 6, 3), "what is found alone"
    alone = to_streaming(graph, time_axis={"x": axes[1], "scale": "none"})
    assert alone.types["scale"].shape == (1, 4, 6, 3)
    assert alone.types["x"].shape == (1, 4, 1, 3)


@pytest.mark.parametrize(
    ("time_axis", "message"),
    [
        ({"y": 1}, "--time-axis: 'y' is not an input .*x, scale"),
        ({"x": 4}, "--time-axis: 'x' has the shape 1x4x6x3: no axis 4"),
        ({"x": 0}, "axis 0 has one step"),
    ],
)
def test_what_is_no_axis_of_time(time_axis: dict[str, int | str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        to_streaming(image(), time_axis=time_axis)


def test_an_axis_that_cannot_be_time_is_an_error_of_the_layer() -> None:
    """No other axis is tried."""
    with pytest.raises(UnsupportedError, match="layer "):
        to_streaming(image(), time_axis={"x": 3})


@pytest.mark.parametrize("latency", [0, AUTO])
def test_an_axis_that_needs_no_later_steps_is_time(latency: int | str) -> None:
    """Channels before steps, and a convolution that is as wide on both sides of a channel."""

    def build(b: Net, x: str) -> str:
        planes = b.node(Reshape((1, 8, STEPS, 1)), [x])
        wide = b.node(Conv((1, 1), ((1, 1), (1, 0)), (1, 1)), [planes, b.weight(3, 2, 1, 1)])
        return b.node(Reshape((1, 8, STEPS)), [wide])

    b = Net()
    found = to_streaming(b.graph(build(b, b.input("x", (1, 8, STEPS)))), latency=latency)
    assert found.types["x"].shape == (1, 8, 1)
    assert found.calls is not None
    assert found.calls.latency == 0


def test_an_axis_whose_steps_reach_the_output_is_time() -> None:
    """Not that of channels, which a softmax mixes: an output is what it is after the last one."""
    b = Net()
    x = b.node(Softmax(1), [b.input("x", (1, 4, STEPS))])
    found = to_streaming(b.graph(b.node(CumSum(2), [x])))
    assert found.types["x"].shape == (1, 4, 1)


def test_errors_name_the_axis_that_was_time() -> None:
    """As the model counts axes; not if it is known."""
    turned = node(Slice((0, STEPS - 1, 0), (1, -1, 3), (1, -1, 1)))
    graph = network(chain(conv(2, 0), turned))
    with pytest.raises(UnsupportedError, match="turns time around, with axis 1 of 'x' as time; "):
        to_streaming(graph)
    first = replace(graph, channels_first=frozenset({"x"}))
    with pytest.raises(UnsupportedError, match="turns time around, with axis 2 of 'x' as time; "):
        to_streaming(first)
    with pytest.raises(UnsupportedError, match=r"turns time around \("):
        to_streaming(graph, time_axis={"x": 1})
    with pytest.raises(OptionError, match="looks ahead, by 1, with axis 1 of 'x' as time"):
        to_streaming(network(conv(1, 1)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(Pad(((0, 0), (2, 0), (0, 0)), mode="reflect")), "'pad' .*later steps"),
        (lambda b, x: b.node(Sub(), [x, b.node(ReduceMean((1,), keepdims=True), [x])]),
         "'sub' .*when the sequence ends"),
        (node(TopK(1, 4, largest=True)), "'topk' .*works along time"),
    ],
)  # fmt: skip
def test_errors_are_about_the_longest_axis(build: Build, message: str) -> None:
    """Which time most likely is, although channels fail later; why these are not is said, too."""
    graph = network(chain(build, conv(2, 0)))
    channels = "; with axis 2 of 'x' as time: layer 'conv' .Conv.: it works along time"
    with pytest.raises(UnsupportedError, match=f"{message}.*, with axis 1 of 'x'.*{channels}"):
        to_streaming(graph)


@pytest.mark.parametrize(
    ("build", "layer"),
    [
        (node(Softmax(1)), "softmax"),
        (chain(node(Softmax(1)), node(Tanh()), lambda b, x: b.node(MatMul(), [x, b.weight(3, 2)])),
         "softmax"),
        (chain(node(Reshape((1, 3 * STEPS))), node(Tanh())), "reshape"),
    ],
)  # fmt: skip
def test_outputs_are_no_windows_of_all_steps(build: Build, layer: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{layer}' .*it needs all steps; '.*window"):
        to_streaming(network(chain(conv(2, 0), build)), time_axis={"x": 1})


def apart() -> Graph:
    """Two inputs as long, each with an output of its own."""
    b = Net()
    x, y = b.input("x", (1, STEPS, 3)), b.input("y", (1, STEPS, 3))
    return b.graph(conv(0, 2)(b, x), conv(2, 0)(b, y))


def test_inputs_that_share_no_layer_all_have_steps() -> None:
    """None of them silently stays a whole sequence, because it would be late."""
    found = to_streaming(apart(), latency=AUTO)
    assert found.types["x"].shape == found.types["y"].shape == (1, 1, 3)
    assert found.calls and found.calls.latency == 2
    with pytest.raises(OptionError, match=r"later steps; layer 'conv' .*--latency 2"):
        to_streaming(apart())
    kept = to_streaming(apart(), time_axis={"x": "none"})
    assert kept.types["x"].shape == (1, STEPS, 3)


def test_an_input_that_cannot_have_steps_is_named() -> None:
    b = Net()
    x, y = b.input("x", (1, STEPS, 3)), b.input("y", (1, STEPS, 3))
    graph = b.graph(b.node(CumProd(1), [b.node(MatMul(), [x, b.weight(3, 3)])]), conv(2, 0)(b, y))
    with pytest.raises(UnsupportedError, match=r"CumProd.*works along time"):
        to_streaming(graph)


def test_a_note_says_which_axis_is_time() -> None:
    notes = to_streaming(network(conv(2, 0))).notes
    assert notes == (f"time is the axis of {STEPS} steps of 'x'",)


def test_the_past_of_integers_is_bytes() -> None:
    """Also that of a maximum, whose padding never wins; zero stands for its integer."""

    def stored(b: Net, x: str) -> str:
        scale = b.constant("scale", np.array([0.05], np.float32))
        zero = b.constant("zero", np.array([7], np.int8))
        q = b.node(QuantizeLinear(), [x, scale, zero])
        floats = b.node(DequantizeLinear(), [q, scale, zero])
        return b.node(MaxPool((3,), (1,), ((2, 0),), (1,)), [conv(2, 0)(b, floats)])

    graph = network(stored)
    calls = to_streaming(graph)
    (past, _) = (calls.types[s.input] for s in calls.states)
    assert (past.dtype, past.shape) == (DType.INT8, (1, 2, 3))
    assert set(calls.states[0].initial) == {7.0}
    assert compare(graph, 2, 0) == STEPS


@pytest.mark.parametrize("block", BLOCKS)
def test_padding_that_is_quantised_stays_padding(block: int) -> None:
    """As ONNX Runtime's tool writes it, a value that is padded and a convolution without pads."""

    def stored(b: Net, x: str) -> str:
        scale = b.constant("scale", np.array([0.05], np.float32))
        zero = b.constant("zero", np.array([7], np.int8))
        for _ in range(2):
            q = b.node(QuantizeLinear(), [x, scale, zero])
            padded = b.node(Pad(((0, 0), (2, 0), (0, 0)), 0.3), [deq(b, q, scale, zero)])
            q = b.node(QuantizeLinear(), [padded, scale, zero])
            x = conv(0, 0)(b, deq(b, q, scale, zero))
        return x

    def deq(b: Net, q: str, scale: str, zero: str) -> str:
        return b.node(DequantizeLinear(), [q, scale, zero])

    assert compare(network(stored), block, 0) == STEPS


@pytest.mark.parametrize("by", [2, 3])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("places", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("block", BLOCKS)
def test_fewer_steps(by: int, mode: str, places: str, block: int) -> None:
    """Those in the middle of each group, or its first ones."""
    fewer = node(Resize(mode, (STEPS // by,), places))
    graph = network(chain(conv(2, 0), fewer, conv(2, 0)))
    assert compare(graph, block, 0) == STEPS // by


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("ahead", [0, 1])
def test_steps_that_become_one_and_back(block: int, ahead: int) -> None:
    """Pairs of steps side by side, then each in three."""
    pairs, thirds = node(Reshape((1, STEPS // 2, 6))), node(Reshape((1, STEPS * 3 // 2, 2)))
    graph = network(chain(conv(2 - ahead, ahead), pairs, node(Tanh()), thirds))
    assert compare(graph, block, AUTO) > STEPS
    padded = chain(node(Pad(((0, 0), (2, 0), (0, 0)), 0.5)), node(Reshape((1, STEPS // 2 + 1, 6))))
    assert compare(network(chain(conv(2, 0), padded)), block, 0) >= STEPS // 2


def test_rows_of_an_image() -> None:
    """A line at a time: time is where the user's lines come from, the columns stay."""
    b = Net()
    x = b.input("x", (1, 12, 5, 2))
    y = b.node(Conv((1, 1), ((2, 0), (1, 1)), (1, 1)), [x, b.weight(3, 3, 2, 4)])
    graph = b.graph(b.node(MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)), [y]))
    calls = to_streaming(graph, 2)
    assert calls.types["x"].shape == (1, 2, 5, 2)
    image = np.random.default_rng(3).standard_normal((1, 12, 5, 2))
    found = np.concatenate(call_by_call(calls, image, 2)[0], 1)
    np.testing.assert_allclose(found, evaluate(graph, {"x": image})[graph.outputs[0]], atol=1e-6)


def test_the_text_form_keeps_calls() -> None:
    calls = to_streaming(network(conv(1, 1)), 2, AUTO)
    assert parse_graph(write_graph(calls)).calls == calls.calls
