"""Padding far from the windows that need it: what counts is how far the whole path looks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.streaming import AUTO, calls, declare_states, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Mul, Sigmoid, Tanh
from cannery.ops.indexing.gather import Gather
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.recurrent.op import Gru
from cannery.ops.reduce.op import ReduceSum
from frontends.causal_integers import IntegerMaker
from frontends.causal_nets import STEPS, Maker, Tame, call_by_call, compare, compare_mixed, twice

#: Channels of all values.
C = 3


class Path:
    """Layers along time, and by how many steps the last one is late: what its windows read, less
    the padding before them.
    """

    def __init__(self, seed: int = 0) -> None:
        self.b = Tame(seed)
        self.value = self.b.input("x", (1, STEPS, C))

    def add(self, op: object, *inputs: str) -> Path:
        self.value = self.b.node(op, [self.value, *inputs])  # type: ignore[arg-type]
        return self

    def pad(self, before: int, value: float = 0.5, mode: str = "constant") -> Path:
        return self.add(Pad(((0, 0), (before, 0), (0, 0)), value, mode))

    def conv(self, taps: int, before: int = 0, dilation: int = 1, stride: int = 1) -> Path:
        op = Conv((stride,), ((before, 0),), (dilation,))
        return self.add(op, self.b.weight(taps, C, C), self.b.weight(C))

    def graph(self) -> Graph:
        return self.b.graph(self.value)


def turned(p: Path) -> Path:
    return p.add(Transpose((0, 2, 1))).add(Tanh()).add(Transpose((0, 2, 1)))


def recurrent(p: Path) -> Path:
    p.add(MatMul(), p.b.weight(C, 9))
    gru = Gru(3, ((Sigmoid(),), (Tanh(),)), (False,), returns=("sequence",))
    (p.value,) = p.b.nodes(gru, [p.value, p.b.weight(1, 3, 9), "", ""], name="gru")
    return p


def per_step(p: Path) -> Path:
    """Times constants that grow from step to step."""
    length = p.b.types[p.value].shape[1]
    return p.add(Mul(), p.b.constant("ramp", np.linspace(0, 1, length).reshape(length, 1)))


def branches(p: Path) -> Path:
    """Two windows in a row and one as long, both without padding."""
    start = p.value
    long, p.value = p.conv(3).conv(3).value, start
    return p.conv(5).add(Add(), long)


def joined(p: Path) -> Path:
    """The same side by side."""
    start = p.value
    long, p.value = p.conv(3).conv(3).value, start
    short = p.conv(5).value
    p.value = p.b.node(Concat(2), [long, short])
    return p.add(MatMul(), p.b.weight(2 * C, C))


def widened(p: Path) -> Path:
    """Two elements for each, then a window over them."""
    op = ConvTranspose((2,), ((0, 1),), (1,), (0,))
    return p.add(op, p.b.weight(3, C, C)).conv(5)


def of_pairs(p: Path) -> Path:
    """Every other element of windows over two, and one after these."""
    p.conv(2)
    length = p.b.types[p.value].shape[1]
    return p.add(Slice((0, 0, 0), (1, length, C), (1, 2, 1))).conv(2)


NETWORKS = {
    "two windows": (lambda p: p.pad(6).conv(3).conv(5), 0),
    "a pad of the layer": (lambda p: p.conv(3, before=6).conv(5), 0),
    "two layers between": (lambda p: turned(p.pad(4).conv(3)).conv(3), 0),
    "normalised": (lambda p: p.pad(4).conv(3).add(LayerNormalization((2,), 1e-3)).conv(3), 0),
    "pools": (lambda p: p.pad(4).add(MaxPool((3,), (1,), ((0, 0),), (1,)))
              .add(AveragePool((3,), (1,), ((0, 0),), (1,))), 0),
    "copies": (lambda p: p.pad(6, 0.0, "edge").conv(3).conv(5), 0),
    "a delay": (lambda p: p.pad(8).conv(3).conv(5), 0),
    "not enough": (lambda p: p.pad(4).conv(3).conv(5), 2),
    "before and between": (lambda p: p.pad(5).conv(3).pad(1).conv(5), 0),
    "after": (lambda p: p.conv(3).conv(5).pad(6), 0),
    "dilated": (lambda p: p.pad(14).conv(3, dilation=4).conv(4, dilation=2), 0),
    "branches": (lambda p: branches(p.pad(8)).conv(5), 0),
    "joined": (lambda p: joined(p.pad(8)).conv(5), 0),
    "recurrent": (lambda p: recurrent(p.pad(4)).conv(5), 0),
    "running sums": (lambda p: p.pad(4).add(CumSum(1)).add(Tanh()).conv(5), 0),
    "constants of steps": (lambda p: per_step(p.pad(4).conv(3)).conv(3), 0),
    "transposed": (lambda p: widened(p.pad(2)), 0),
    "halved": (lambda p: of_pairs(p.pad(3)), 0),
    "steps of two": (lambda p: p.pad(2).add(Reshape((1, STEPS // 2 + 1, 2 * C)))
                     .add(MatMul(), p.b.weight(2 * C, C)).conv(2), 0),
    "padded channels": (lambda p: p.pad(2).add(Pad(((0, 0), (2, 0), (1, 0)), 0.25))
                        .add(MatMul(), p.b.weight(C + 1, C)).conv(3).conv(3), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_a_pad_serves_all_windows_after_it(name: str) -> None:
    build, late = NETWORKS[name]
    graph = build(Path()).graph()
    for block in (2, 4):
        found = to_streaming(graph, block, AUTO).calls
        assert found
        assert found.latency == late
        assert compare(graph, block, late) > 0
    if late:
        with pytest.raises(OptionError, match=f"--latency {late} "):
            to_streaming(graph, 1, 0)


@pytest.mark.parametrize("name", ["two windows", "branches", "recurrent", "running sums"])
def test_calls_of_several_sizes(name: str) -> None:
    assert compare_mixed(NETWORKS[name][0](Path()).graph(), (1, 4, 12), 0, 3) > 0


def random_path(seed: int) -> tuple[Graph, int]:
    """A chain of windows and pads in a random order, and by how many steps it is late."""
    random, p, late = Random(seed), Path(seed), 0
    for _ in range(random.randint(2, 5)):
        taps, dilation = random.choice((2, 3, 4)), random.choice((1, 2))
        span = (taps - 1) * dilation
        kind = random.randrange(4)
        if kind == 0:
            p, span = p.pad(random.randint(1, 6)), 0
        elif kind == 1:
            p.add(MaxPool((taps,), (1,), ((0, 0),), (dilation,)))
        elif kind == 2:
            p = turned(p).conv(taps, random.choice((0, span)), dilation)
        else:
            p = p.conv(taps, random.randint(0, 5), dilation)
    late = STEPS - p.b.types[p.value].shape[1]  # shorter by what is missing before it
    return p.conv(2, 1).graph(), max(0, late)


class PathMaker(Maker):
    """Such chains, for tests that compile random networks."""

    def graph(self) -> Graph:
        return random_path(self.random.randrange(10**6))[0]


def test_latency_is_the_least_wherever_pads_are() -> None:
    for seed in range(60):
        graph, late = random_path(seed)
        found = to_streaming(graph, 1, AUTO).calls
        assert found and found.latency == late, seed
        assert compare(graph, 1 + seed % 3, AUTO) > 0


@pytest.mark.parametrize("maker", [Maker, IntegerMaker])
def test_random_networks_with_what_is_known(
    maker: type[Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need not know what layers make of padding work as well if they do."""
    plain = calls._rewritten
    monkeypatch.setattr(calls, "_rewritten", lambda *given, folds: plain(*given, folds=True))
    right = 0
    for seed in range(40):
        ahead = seed % 2 == 1
        try:
            graph = maker(seed, ahead=ahead, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue  # branches of different lengths
        assert compare(graph, (1, 2, 12)[seed % 3], AUTO if ahead else 0) > 0
        right += 1
    assert right > 30


def test_what_is_nearly_between_two_integers_is_computed_in_calls() -> None:
    """Kernels might round it to the other one."""

    def graph(offset: float) -> Graph:
        p = Path()
        op = Conv((1,), ((0, 0),), (1,))
        p.pad(4, 1.0).add(op, p.b.constant("w", np.full((3, C, C), (0.5 + offset) * 0.1 / (3 * C))))
        scale, zero = (
            p.b.constant("s", np.float32([0.1])),
            p.b.constant("z", np.array([7], np.int8)),
        )
        p.add(QuantizeLinear(), scale, zero).add(DequantizeLinear(), scale, zero)
        return p.conv(3).graph()

    for offset, late in ((0.2, 0), (1e-5, 2)):
        found = to_streaming(graph(offset), 1, AUTO).calls
        assert found and found.latency == late


def constant(p: Path, steps: int, number: float = 0.0) -> str:
    return p.b.constant("c", np.full((1, steps, C), number, np.float32))


def joined_to(p: Path, before: str, after: str = "") -> Path:
    p.value = p.b.node(Concat(1), [before, p.value, *([after] if after else [])])
    return p


def delayed(p: Path) -> Path:
    """A sum with the steps five before."""
    start = p.value
    p.add(Slice((0, 0, 0), (1, STEPS - 5, C), (1, 1, 1)))
    return joined_to(p, constant(p, 5)).add(Add(), start)


@pytest.mark.parametrize(
    "build",
    [
        lambda p: joined_to(p, constant(p, 2)).conv(3),
        lambda p: joined_to(p, constant(p, 6, 0.5)).conv(3).conv(5),
        lambda p: joined_to(p, constant(p, 2), constant(p, 1)).conv(3),
        delayed,
    ],
)
def test_constants_before_the_first_step_are_padding(build: Callable[[Path], Path]) -> None:
    """As `torch.cat([torch.zeros(...), x])` makes them."""
    for block in (1, 4):
        assert compare(build(Path()).graph(), block, 0) > 0


def test_constants_that_differ_are_no_padding() -> None:
    p = Path()
    values = np.arange(2 * C, dtype=np.float32).reshape(1, 2, C)
    with pytest.raises(UnsupportedError, match="it joins steps with what has none"):
        to_streaming(joined_to(p, p.b.constant("c", values)).conv(3).graph())


def cached(kept: int = 3, axis: int = 1) -> Graph:
    """Two windows over four steps, of a cache of three and what comes; the next cache begins `kept`
    before the end.
    """
    p, following = Path(), list[str]()
    for name in ("c", "d"):
        shape = [1, STEPS, C]
        shape[axis] = 3
        p.value = p.b.node(Concat(axis), [p.b.input(name, tuple(shape)), p.value])
        shape = list(p.b.types[p.value].shape)
        start = [0, 0, 0]
        start[axis], shape[axis] = shape[axis] - kept, shape[axis] - kept + 3
        following.append(p.b.node(Slice(tuple(start), tuple(shape), (1, 1, 1)), [p.value]))
        p.add(MatMul(), p.b.weight(p.b.types[p.value].shape[2], C)).add(Tanh())
        p.conv(4, 0 if axis == 1 else 3)
    for value in (p.value, *following):
        p.b.output(value)
    return declare_states(p.b.build(), dict(zip(("c", "d"), following, strict=True)))


@pytest.mark.parametrize("block", [1, 4])
def test_caches_of_the_model_are_its_past(block: int) -> None:
    graph = cached()
    calls = to_streaming(graph, block, 0, (1, 4))
    x = np.random.default_rng(1).standard_normal((1, STEPS, C)).astype(np.float32)
    zeros = np.zeros((1, 3, C), np.float32)
    whole = evaluate(graph, {"x": x, "c": zeros, "d": zeros})[graph.outputs[0]]
    made, *_ = call_by_call(calls, x, block)
    np.testing.assert_allclose(np.concatenate(made, 1), whole, atol=1e-6)


def test_what_is_not_the_next_cache() -> None:
    """Steps before the last ones, and features."""
    with pytest.raises(UnsupportedError, match="it joins steps with what has none"):
        to_streaming(cached(kept=4))
    with pytest.raises(UnsupportedError, match="is not along the axis of time"):
        to_streaming(cached(axis=2), time_axis={"x": 1})


#: Between channels first, as in PyTorch, and channels last.
TURN = Transpose((0, 2, 1))


def cut(b: Tame, value: str, axis: int, kept: int) -> str:
    """The last `kept` elements along an axis."""
    ends = b.types[value].shape
    starts = [ends[k] - kept if k == axis else 0 for k in range(len(ends))]
    return b.node(Slice(tuple(starts), ends, (1,) * len(ends)), [value])


def cut_and_turned(b: Tame, joined: str, kept: int) -> str:
    return b.node(TURN, [cut(b, joined, 1, kept)])


def turned_and_cut(b: Tame, joined: str, kept: int) -> str:
    return cut(b, b.node(TURN, [joined]), 2, kept)


def spelled_by_reshapes(b: Tame, joined: str, kept: int) -> str:
    wide = b.node(Reshape((1, 1, *b.types[joined].shape[1:])), [joined])
    turned = b.node(Transpose((1, 0, 3, 2)), [cut(b, wide, 2, kept)])
    return b.node(Reshape((1, C, kept)), [turned])


def cached_convs(
    following: Callable[[Tame, str, int], str], dilations: tuple[int, ...] = (1, 2, 4),
    stride: int = 1,
) -> Graph:  # fmt: skip
    """Convolutions of three taps with caches that have channels first, behind another one."""
    p, ends = Path().conv(1).add(Tanh()), dict[str, str]()
    for k, dilation in enumerate(dilations):
        cache = p.b.node(TURN, [p.b.input(f"c{k}", (1, C, 2 * dilation))])
        p.value = p.b.node(Concat(1), [cache, p.value])
        ends[f"c{k}"] = following(p.b, p.value, 2 * dilation)
        p.conv(3, 0, dilation, stride if k == 0 else 1).add(Tanh())
    for value in (p.value, *ends.values()):
        p.b.output(value)
    return declare_states(p.b.build(), ends)


@pytest.mark.parametrize(
    ("following", "stride"),
    [(cut_and_turned, 1), (turned_and_cut, 1), (spelled_by_reshapes, 1), (cut_and_turned, 2)],
)
def test_caches_that_are_transposed_on_their_way(
    following: Callable[[Tame, str, int], str], stride: int
) -> None:
    graph = cached_convs(following, stride=stride)
    x = np.random.default_rng(2).standard_normal((1, 2 * STEPS, C)).astype(np.float32)
    for block in (2, 4):
        made, *_ = call_by_call(to_streaming(graph, block, 0, (2, 4)), x, block)
        np.testing.assert_allclose(np.concatenate(made, 1), twice(graph, x), atol=1e-6)


def test_a_cache_that_comes_back_in_another_order() -> None:
    """Its shape fits, as there are as many channels as steps, but they are swapped."""
    p = Path().conv(1)
    cache = p.b.node(TURN, [p.b.input("c", (1, C, C))])
    p.value = p.b.node(Concat(1), [cache, p.value])
    end = cut(p.b, p.value, 1, C)
    p.conv(C + 1)
    for value in (p.value, end):
        p.b.output(value)
    with pytest.raises(UnsupportedError, match="it joins steps with what has none"):
        to_streaming(declare_states(p.b.build(), {"c": end}))


@pytest.mark.parametrize("windows_first", [False, True])
@pytest.mark.parametrize(("dilation", "stride"), [(1, 1), (3, 1), (1, 2)])
def test_windows_side_by_side(windows_first: bool, dilation: int, stride: int) -> None:
    """As `unfold` makes them, which then are added up with weights."""
    p = Path()
    p.pad(4 * dilation)
    places = dilation * np.arange(5)[:, None] + stride * np.arange(STEPS // stride)
    places = places.T if windows_first else places
    p.value = p.b.node(Gather(1), [p.value, p.b.constant("places", places.astype(np.int64))])
    weights = p.b.weight(1, 5, 1) if windows_first else p.b.weight(5, 1, 1)
    p.add(Mul(), weights).add(ReduceSum((2 if windows_first else 1,)))
    assert compare(p.graph(), 2, 0) > 0


@pytest.mark.parametrize("places", [[[0, 1, 2], [1, 2, 4]], [[5, 4, 3], [4, 3, 2]]])
def test_windows_that_are_no_slices(places: list[list[int]]) -> None:
    p = Path()
    p.value = p.b.node(Gather(1), [p.value, p.b.constant("places", np.array(places))])
    with pytest.raises(UnsupportedError, match=r"'gather' .*it takes some of the steps"):
        to_streaming(p.add(ReduceSum((1,))).graph(), time_axis={"x": 1})


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("ahead", [0, 2])
def test_a_beginning_that_is_joined_with_the_rest(size: int, ahead: int, block: int) -> None:
    """Pre-emphasis: the first steps as they are, then differences; also behind what looks ahead."""
    p = Path()
    op = Conv((1,), ((2, ahead),), (1,))
    x = p.b.node(op, [p.value, p.b.weight(3 + ahead, C, C), p.b.weight(C)])

    def part(start: int, end: int) -> str:
        return p.b.node(Slice((0, start, 0), (1, end, C), (1, 1, 1)), [x])

    before = p.b.node(Mul(), [part(0, STEPS - size), p.b.constant("share", np.full(1, -0.97))])
    rest = p.b.node(Add(), [part(size, STEPS), before])
    p.value = p.b.node(Concat(1), [part(0, size), rest])
    graph = p.conv(3, before=2).graph()
    assert compare(graph, block, AUTO) == STEPS - ahead
    calls = to_streaming(graph, block, AUTO).calls
    assert calls and calls.latency == ahead


@pytest.mark.parametrize("features", [slice(0, C, 1), slice(0, 1, 1), slice(C - 1, -1, -1)])
def test_a_beginning_of_some_features(features: slice) -> None:
    """They may be some of the features, or all in another order."""
    p = Path()
    start, end, step = features.start, features.stop, features.step

    def part(first: int, last: int) -> str:
        return p.b.node(Slice((0, first, start), (1, last, end), (1, 1, step)), [p.value])

    rest = p.b.node(Tanh(), [part(1, STEPS)])
    p.value = p.b.node(Concat(1), [part(0, 1), rest])
    p.add(Conv((1,), ((2, 0),), (1,)), p.b.weight(3, p.b.types[p.value].shape[-1], C))
    assert compare(p.graph(), 4, AUTO) == STEPS


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("same", [True, False])
def test_constants_beside_the_steps(same: bool, block: int) -> None:
    """As a speaker's features, the same for all steps, or the number of the step."""
    p = Path()
    p.add(Conv((1,), ((1, 1),), (1,)), p.b.weight(3, C, C))
    numbers = np.ones(STEPS) if same else 0.1 * np.arange(STEPS)
    beside = p.b.constant("beside", np.outer(numbers, [0.5, -1.0])[None])
    p.add(Concat(2), beside)
    p.add(Conv((1,), ((2, 0),), (1,)), p.b.weight(3, C + 2, C))
    assert compare(p.graph(), block, AUTO) == STEPS - 1


def test_other_constants_beside_the_steps() -> None:
    p = Path()
    p.add(Concat(2), p.b.constant("beside", np.random.default_rng(0).random((1, STEPS, 2))))
    p.add(Conv((1,), ((2, 0),), (1,)), p.b.weight(3, C + 2, C))
    with pytest.raises(UnsupportedError, match=r"concat.*constant for each step, not evenly"):
        to_streaming(p.graph(), time_axis={"x": 1})


def test_a_beginning_of_something_else() -> None:
    p = Path()
    first = p.b.node(Slice((0, 0, 0), (1, 1, C), (1, 1, 1)), [p.value])
    first = p.b.node(Tanh(), [first])
    p.value = p.b.node(Concat(1), [first, p.value])
    with pytest.raises(UnsupportedError, match=r"slice.*must be joined with the rest at once"):
        to_streaming(p.conv(3).graph())
