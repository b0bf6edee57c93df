"""Attention among steps, and what else meets several steps by way of a constant or a softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.frontends.streaming.spelled import spell_out_attention
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.verify import verify
from cannery.ops.attention.op import Attention as OneAttention
from cannery.ops.attention.op import HeadChannels
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Div, Mul, Sub, Tanh
from cannery.ops.logic.compare import IsNaN, Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.reduce.op import ReduceMean, ReduceSum
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from frontends.causal_nets import STEPS, Tame, call_by_call, compare, sequence

Array = NDArray[np.float32]

#: Adds to scores whatever a mask does.
Masks = Callable[[Tame, str], str]

DISTANCE = np.arange(STEPS)[:, None] - np.arange(STEPS)[None]


def band(behind: int, ahead: int = 0) -> NDArray[np.bool_]:
    return np.asarray(DISTANCE.clip(-ahead, behind) == DISTANCE)


def attending(masks: Masks, taps: int = 3) -> Graph:
    """A convolution, attention of one head, and what it adds to its input."""
    b = Tame(3)
    x = b.input("x", (1, STEPS, 3))
    x = b.node(Conv((1,), ((taps - 1, 0),), (1,)), [x, b.weight(taps, 3, 4)])
    q, k, v = (b.node(MatMul(), [x, b.weight(4, 4)]) for _ in range(3))
    scores = b.node(MatMul(transpose_b=True), [q, k], name="scores")
    shares = b.node(Softmax(2), [masks(b, scores)])
    return b.graph(b.node(Add(), [x, b.node(MatMul(), [shares, v])]))


@pytest.mark.parametrize("zero_first", [True, False])
def test_shares_that_are_no_numbers_become_zeros(zero_first: bool) -> None:
    """As in PyTorch's scaled_dot_product_attention: nothing changes where each step sees itself."""
    b = Tame(3)
    x = b.input("x", (1, STEPS, 3))
    q, k, v = (b.node(MatMul(), [x, b.weight(3, 4)]) for _ in range(3))
    scores = b.node(MatMul(transpose_b=True), [q, k])
    mask = b.constant("mask", np.where(band(5), 0.0, -np.inf))
    shares = b.node(Softmax(2), [b.node(Add(), [scores, mask])])
    zero, no_number = b.constant("zero", np.zeros(1)), b.node(IsNaN(), [shares])
    chosen = [zero, shares] if zero_first else [shares, zero]
    graph = b.graph(b.node(MatMul(), [b.node(Where(), [no_number, *chosen]), v]))
    if zero_first:
        assert compare(graph, 4, 0) > 0
    else:
        with pytest.raises(UnsupportedError, match="it multiplies steps with each other"):
            to_streaming(graph)


@pytest.mark.parametrize(("behind", "ahead"), [(0, 0), (4, 0), (STEPS, 0), (3, 2)])
@pytest.mark.parametrize(("batch", "softcap"), [(1, 0.0), (2, 0.0), (1, 2.0)])
def test_attention_as_one_operator(behind: int, ahead: int, batch: int, softcap: float) -> None:
    """As frontends make it of the layer of Keras."""
    b = Tame(7)
    x = b.input("x", (batch, STEPS, 6))
    q, k, v = (b.node(MatMul(), [x, b.weight(6, 2 * size)]) for size in (3, 3, 5))
    mask = b.constant("mask", np.where(band(behind, ahead), 0.0, -1e9))
    parts = [HeadChannels(0, size, size) for size in (3, 3, 5)]
    y = b.node(OneAttention(2, 0.5, *parts, softcap=softcap), [q, k, v, mask])
    graph = b.graph(b.node(Tanh(), [y]))
    assert compare(graph, 4, ahead) > 0
    (node,) = (n for n in graph.nodes if isinstance(n.op, OneAttention))
    spelled = spell_out_attention(graph)
    verify(spelled, after="spell_out_attention")
    x_ = np.random.default_rng(1).standard_normal((batch, STEPS, 6))
    for one, other in zip(
        *(evaluate(g, {"x": x_}).values() for g in (graph, spelled)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert node.name in {n.name for n in spelled.nodes}


def test_attention_without_a_mask_is_an_error_of_its_layer() -> None:
    b = Tame(7)
    x = b.input("x", (1, STEPS, 5))
    x, heads = b.node(MatMul(), [x, b.weight(5, 6)]), HeadChannels(0, 3, 3)
    y = b.node(OneAttention(2, 0.5, heads, heads, heads), [x, x, x], name="looks")
    with pytest.raises(UnsupportedError, match="looks"):
        to_streaming(b.graph(y))


def added(mask: NDArray[np.floating]) -> Masks:
    return lambda b, scores: b.node(Add(), [scores, b.constant("mask", mask)])


def where(mask: NDArray[np.bool_]) -> Masks:
    def masked(b: Tame, scores: str) -> str:
        low = b.constant("low", np.float32([-1e9]))
        return b.node(Where(), [b.constant("mask", mask), scores, low])

    return masked


def scaled_after(mask: NDArray[np.floating]) -> Masks:
    """The mask is added before scores are divided."""
    return lambda b, scores: b.node(
        Div(), [added(mask)(b, scores), b.constant("size", np.float32([2.0]))]
    )


MASKS = {
    "infinite": added(np.where(band(5), 0.0, -np.inf)),
    "large": added(np.where(band(5), 0.0, -1e9)),
    "slopes": added(np.where(band(5), -0.2 * DISTANCE, -1e9)),
    "where": where(band(5)),
    "later": scaled_after(np.where(band(5), 0.0, -1e9)),
    "rank 3": added(np.where(band(5), 0.0, -1e9)[None]),
    "all before": where(band(STEPS)),
}


@pytest.mark.parametrize("block", [1, 3, 16, 48])
@pytest.mark.parametrize("name", MASKS)
def test_attention_to_steps_before(name: str, block: int) -> None:
    graph = attending(MASKS[name])
    assert compare(graph, block, 0) == STEPS
    steps = STEPS - 1 if name == "all before" else 5
    pasts = {to_streaming(graph, block).types[s.input].shape for s in to_streaming(graph).states}
    assert pasts == {(1, 2, 3), (1, steps, 4), (1,)}


@pytest.mark.parametrize("block", [1, 4])
def test_attention_to_a_few_later_steps(block: int) -> None:
    graph = attending(where(band(4, 3)))
    calls = to_streaming(graph, block, AUTO).calls
    assert calls and calls.latency == 3
    assert compare(graph, block, AUTO) == STEPS - 3


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("back", [2, 3, 6])
@pytest.mark.parametrize("taps", [0, 3])
def test_what_comes_before_attention_may_delay_it(back: int, taps: int, block: int) -> None:
    """It then looks ahead at steps that have come, and so may what follows it. The whole sequence
    has none of those at its end.
    """
    b = Tame(3)
    x = b.node(Pad(((0, 0), (back, 0), (0, 0)), 0.5), [b.input("x", (1, STEPS, 3))])
    x = b.node(Slice((0, 0, 0), (1, STEPS, 3), (1, 1, 1)), [x])
    number = b.constant("number", 0.1 * np.arange(STEPS)[:, None])  # padding, too, differs then
    x = b.node(Add(), [x, number])
    mask = np.where(band(3, 2), -0.2 * np.abs(DISTANCE), -np.inf)
    scores = b.node(MatMul(transpose_b=True), [b.node(MatMul(), [x, b.weight(3, 3)]), x])
    scaled = b.node(Mul(), [scores, b.constant("scale", np.full((), 0.7))])
    mixed = b.node(MatMul(), [b.node(Softmax(2), [added(mask)(b, scaled)]), x])
    if taps:
        mixed = b.node(Conv((1,), ((0, taps - 1),), (1,)), [mixed, b.weight(taps, 3, 3)])
    graph, ahead = b.graph(mixed), 2 + max(taps - 1, 0)
    calls, x_ = to_streaming(graph, block, AUTO), sequence(graph)
    late = max(0, ahead - back)
    assert calls.calls and calls.calls.latency == late
    made = np.concatenate(call_by_call(calls, x_, block)[0], 1)[:, late:]
    whole = np.asarray(evaluate(graph, {"x": x_})[graph.outputs[0]])
    sure = STEPS - max(late, ahead)
    np.testing.assert_allclose(made[:, :sure], whole[:, :sure], atol=1e-6)


def test_what_is_no_number_before_the_first_step_has_no_share() -> None:
    """A mean of no steps: the sum of what is late, divided by how many steps there are."""
    b = Tame(3)
    x = b.node(Conv((1,), ((1, 1),), (1,)), [b.input("x", (1, STEPS, 3)), b.weight(3, 3, 4)])
    count = b.constant("count", np.arange(1, STEPS + 1, dtype=np.float32).reshape(STEPS, 1))
    mean = b.node(Div(), [b.node(CumSum(1), [x]), count])
    scores = MASKS["infinite"](b, b.node(MatMul(transpose_b=True), [mean, mean]))
    graph = b.graph(b.node(MatMul(), [b.node(Softmax(2), [scores]), mean]))
    assert compare(graph, 1, AUTO) == STEPS - 1


@pytest.mark.parametrize("block", [1, 4])
def test_after_many_steps_attention_is_to_the_last_ones(block: int) -> None:
    """As many as the model has, if its mask takes all that are before."""
    graph = attending(where(band(STEPS)), taps=1)
    x = np.random.default_rng(2).standard_normal((1, 2 * STEPS, 3))
    *_, last = call_by_call(to_streaming(graph, block), x, block)[0]
    whole = np.asarray(evaluate(graph, {"x": x[:, STEPS:]})[graph.outputs[0]])
    np.testing.assert_allclose(last[:, -1:], whole[:, -1:], atol=1e-6)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (lambda b, s: b.node(Tanh(), [s]), "attends to all later ones"),
        (where(band(STEPS, STEPS)), "attends to all later ones"),
        (added(np.tril(np.random.default_rng(0).random((STEPS, STEPS)))), "not the same for all"),
        (added(np.where(band(5), 0.0, -1e9)[:1]), "not the same for all"),
        (where(band(5) & (DISTANCE != 0)), "does not attend to itself"),
    ],
)
def test_masks_that_bound_nothing(masks: Masks, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        to_streaming(attending(masks))
    assert "'scores'" in str(caught.value) or "'matmul" in str(caught.value)


def along(build: Callable[[Tame, str], str]) -> Graph:
    b = Tame(4)
    x = b.input("x", (1, STEPS, 3))
    x = b.node(Conv((1,), ((1, 0),), (1,)), [x, b.weight(2, 3, 3)])
    return b.graph(build(b, x))


def times(values: NDArray[np.floating]) -> Callable[[Tame, str], str]:
    """Each step by its own constant."""
    column = values.reshape(STEPS, 1)
    return lambda b, x: b.node(Mul(), [x, b.constant("factor", column)])


COUNT = np.arange(1.0, STEPS + 1)


@pytest.mark.parametrize("block", [1, 2, 12])
@pytest.mark.parametrize(
    "values",
    [COUNT, 1 / COUNT, 0.5 - 3 * COUNT, np.minimum(COUNT, 7), 1 / np.minimum(COUNT, 20),
     np.full(STEPS, 2.0)],
)  # fmt: skip
def test_constants_that_grow_by_the_step(values: NDArray[np.floating], block: int) -> None:
    assert compare(along(times(values)), block, 0) == STEPS


def test_constants_by_step_and_channel() -> None:
    grid = COUNT[:, None] * np.array([1.0, -2.0, 0.0]) + np.array([0.0, 1.0, 5.0])
    graph = along(lambda b, x: b.node(Add(), [x, b.constant("grid", grid)]))
    assert compare(graph, 3, 0) == STEPS


def test_one_channel_does_not_hide_the_others() -> None:
    """Large numbers on a line beside small ones that are on none."""
    grid = np.stack([1e30 * COUNT, np.sin(COUNT), np.cos(COUNT)], 1)
    with pytest.raises(UnsupportedError, match="constant for each step"):
        to_streaming(along(lambda b, x: b.node(Add(), [x, b.constant("grid", grid)])))


@pytest.mark.parametrize(
    "values",
    [COUNT**2, np.sin(COUNT), np.maximum(COUNT, 7), np.where(COUNT < 9, COUNT, np.nan),
     np.where(COUNT < 9, COUNT, np.inf)],
)  # fmt: skip
def test_other_constants_for_each_step(values: NDArray[np.floating]) -> None:
    """Positions that are learned, for example."""
    with pytest.raises(UnsupportedError, match=r"mul.*constant for each step"):
        to_streaming(along(times(values)))


def stacked(b: Tame, x: str) -> str:
    """The last three steps on an axis of their own, and their mean."""
    padded = b.node(Pad(((0, 0), (2, 0), (0, 0))), [x])
    parts = [
        b.node(Reshape((1, STEPS, 1, 3)), [
            b.node(Slice((0, at, 0), (1, at + STEPS, 3), (1, 1, 1)), [padded])
        ]) for at in range(3)
    ]  # fmt: skip
    return b.node(ReduceMean((2,)), [b.node(Concat(2), parts)])


def pooled(b: Tame, x: str) -> str:
    padded = b.node(Pad(((0, 0), (2, 0), (0, 0))), [x])
    return b.node(AveragePool((3,), (1,), ((0, 0),), (1,)), [padded])


def convolved(b: Tame, x: str) -> str:
    third = np.full((3, 1, 3), 1 / 3, np.float32)
    op = Conv((1,), ((2, 0),), (1,), group=3)
    return b.node(op, [x, b.constant("third", third)])


def running(b: Tame, x: str) -> str:
    """The running sum less what it was three steps before."""
    sums = b.node(CumSum(1), [x])
    padded = b.node(Pad(((0, 0), (3, 0), (0, 0))), [sums])
    before = b.node(Slice((0, 0, 0), (1, STEPS, 3), (1, 1, 1)), [padded])
    return b.node(Mul(), [b.node(Sub(), [sums, before]), b.constant("third", np.array([1 / 3]))])


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("spelling", [stacked, pooled, convolved, running])
def test_means_over_windows(spelling: Callable[[Tame, str], str], block: int) -> None:
    """However they are written, they are the same."""
    graph = along(spelling)
    assert compare(graph, block, 0) == STEPS
    x = np.random.default_rng(1).standard_normal((1, STEPS, 3))
    found, right = (evaluate(each, {"x": x})[each.outputs[0]] for each in (graph, along(convolved)))
    np.testing.assert_allclose(found, right, atol=1e-5)


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("places", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("times", [2, 3])
def test_lines_between_steps(places: str, times: int, block: int) -> None:
    """The next step is needed: outputs are one late."""
    op = Resize("linear", (times * STEPS,), places)
    graph = along(lambda b, x: b.node(op, [x]))
    calls = to_streaming(graph, block, AUTO).calls
    assert calls and calls.latency == 1
    assert compare(graph, block, AUTO) == times * (STEPS - 1)


def weighted(b: Tame, x: str) -> str:
    shares = b.node(Softmax(1), [b.node(MatMul(), [x, b.weight(3, 1)])])
    return b.node(ReduceSum((1,)), [b.node(Mul(), [x, shares])])


def test_shares_of_the_last_steps() -> None:
    """A mean whose weights come from the steps slides as other means do."""
    graph = along(weighted)
    x = np.random.default_rng(2).standard_normal((1, STEPS + 9, 3))
    found = call_by_call(to_streaming(graph), x, 1)[0]
    assert compare(graph, 4, 0) > 0
    assert found[-1].shape == (1, 3)
    b = Tame(4)
    y = b.input("x", (1, STEPS + 9, 3))
    y = b.node(Conv((1,), ((1, 0),), (1,)), [y, b.weight(2, 3, 3)])
    y = b.node(Slice((0, 9, 0), (1, STEPS + 9, 3), (1, 1, 1)), [y])
    later = b.graph(weighted(b, y))
    right = evaluate(later, {"x": x})[later.outputs[0]]
    np.testing.assert_allclose(found[-1], right, atol=1e-6)


def test_what_is_known_at_the_end_does_not_meet_steps() -> None:
    """A mean of all steps, or with shares, is none of the steps."""

    def excited(b: Tame, x: str) -> str:
        return b.node(Mul(), [x, b.node(Reshape((1, 1, 3)), [weighted(b, x)])])

    with pytest.raises(CanneryError, match="known when the sequence ends"):
        to_streaming(along(excited))
