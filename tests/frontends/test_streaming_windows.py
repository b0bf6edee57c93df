"""What reads several steps computes call by call what it does for the whole sequence."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.parser import parse_graph
from cannery.ir.printer import write_graph
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.resize.op import Resize
from cannery.passes.repeats_to_resize import repeats_to_resize
from frontends.causal_builds import Build, chain, conv, network, node
from frontends.causal_nets import STEPS, Maker, call_by_call, compare, compare_mixed
from ops.cases import Net

BLOCKS = (1, 2, 12)
SEEDS = range(240)


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


@pytest.mark.parametrize("blocks", [(1,), (2,), (3,), (1, 4)])
def test_branches_of_different_rates_are_added(blocks: tuple[int, ...]) -> None:
    """One has stride 2 and is upsampled again."""
    b = Net()
    x = b.input("x", (1, STEPS, 3))
    slow = b.node(Resize("nearest", (STEPS,), "asymmetric", "floor"), [conv(2, 0, 3, 2)(b, x)])
    graph = b.graph(b.node(Add(), [x, b.node(Tanh(), [conv(2, 0)(b, slow)])]))
    calls = [to_streaming(graph, block, 0, blocks) for block in blocks]
    assert calls[0].calls and calls[0].calls.every == (1 if blocks[0] % 2 == 0 else 2)
    if len(blocks) == 1:
        assert compare(graph, blocks[0], 0) == STEPS
    else:
        assert compare_mixed(graph, blocks, 0, seed=1) > 0


@pytest.mark.parametrize("blocks", [(1,), (1, 4), (1, 8)])
def test_calls_of_whole_groups_need_no_past(blocks: tuple[int, ...]) -> None:
    """Where windows of four steps begin at each fourth one; calls of one step do."""
    b = Net()
    x = b.input("x", (1, STEPS, 3))
    slow = b.node(Conv((4,), ((0, 0),), (1,)), [x, b.weight(4, 3, 3)])
    again = b.node(Resize("nearest", (STEPS,), "asymmetric", "floor"), [slow])
    graph = b.graph(b.node(Add(), [x, b.node(Tanh(), [again])]))
    assert compare_mixed(graph, blocks, 0, seed=1) > 0


def test_steps_that_are_repeated_are_an_upsampling() -> None:
    """As PyTorch exports repeat_interleave, before or after channels."""
    b = Net()
    x, s = b.input("x", (1, 6, STEPS)), b.input("s", (1, STEPS, 6))
    first = b.node(Expand((1, 6, STEPS, 2)), [b.node(Reshape((1, 6, STEPS, 1)), [x])])
    last = b.node(Expand((1, 1, STEPS, 6, 2)), [b.node(Reshape((1, 1, STEPS, 6, 1)), [s])])
    last = b.node(Transpose((0, 1, 2, 4, 3)), [last])
    outputs = [(first, (1, 6, 2 * STEPS)), (last, (1, 2 * STEPS, 6))]
    graph = b.graph(*(b.node(Reshape(shape), [value]) for value, shape in outputs))
    found = repeats_to_resize(graph, anywhere=True)
    assert sum(isinstance(node.op, Resize) for node in found.nodes) == 2
    assert not any(isinstance(node.op, Expand) for node in found.nodes)
    rng = np.random.default_rng(2)
    given = {v: rng.random(graph.types[v].shape, np.float32) for v in graph.inputs}
    for y, z in zip(evaluate(graph, given).values(), evaluate(found, given).values(), strict=True):
        np.testing.assert_array_equal(y, z)


def test_integers_that_begin_late() -> None:
    """What stands for elements before the first one has their type."""

    def whole_numbers(b: Net, x: str) -> str:
        scale, zero = b.constant("s", np.float32([0.05])), b.constant("z", np.array([7], np.int8))
        q = b.node(QuantizeLinear(), [conv(1, 1)(b, x), scale, zero])
        q = b.node(Pad(((0, 0), (2, 0), (0, 0)), 3.0), [q])
        sums = b.node(CumSum(1), [b.node(Cast(DType.INT32), [q])])
        return b.node(Cast(DType.FLOAT32), [sums])

    assert compare(network(whole_numbers), 2, AUTO) > 0


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
