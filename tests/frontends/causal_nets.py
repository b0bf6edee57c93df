"""Random networks along time, and what they compute call by call, compared with the whole
sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod, sqrt
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.frontends.streaming import side_by_side, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Div, Mul, Neg, Relu, Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from ops.cases import Net

Array = NDArray[Any]

#: Steps of the whole sequence, and the least common multiple of all blocks.
STEPS, BLOCK = 48, 12


class Tame(Net):
    """Sums are about as large as their terms: what is wrong shows, and rounding stays small."""

    def weight(self, *shape: int, positive: bool = False) -> str:
        values = self.rng.standard_normal(shape) / sqrt(prod(shape[:-1]))
        return self.constant("w", np.abs(values) + 0.1 if positive else values)


class Maker:
    """Grows a network from layers that a number chooses; `ahead`: some may need later steps."""

    #: Sequences at once.
    batch = 1

    def __init__(self, seed: int, *, ahead: bool, rates: bool = True) -> None:
        self.random = Random(seed)
        self.b = Tame(seed)
        self.ahead = ahead
        self.ends = not ahead and self.random.random() < 0.3
        self.rates = rates
        self.rotates = seed % 3 == 0

    def graph(self) -> Graph:
        """A chain of layers with branches, whose ends are outputs; the first one looks back."""
        x = self.b.input("x", (self.batch, STEPS, 3))
        value = self.b.node(Conv((1,), ((1, 0),), (1,)), [x, self.b.weight(2, 3, 3)])
        for _ in range(self.random.randint(2, 6)):
            value = self.random.choice(self.layers())(value)
            if self.random.random() < 0.2:
                self.b.output(self.b.node(Tanh(), [value]))
        if self.ends:
            value = self.random.choice((self.mean, self.maximum, self.pooled))(value)
        self.b.output(self.b.node(Tanh(), [value]))
        return self.b.build()

    def layers(self) -> list[Callable[[str], str]]:
        steady = [self.conv, self.grouped, self.pool, self.branches, self.pointwise, self.joined,
                  self.recurrent, self.padded, self.cut, self.cumulative, self.mean_so_far,
                  self.attention]  # fmt: skip
        rates = [self.strided, self.widened, self.repeated, *([self.between] * self.ahead)]
        return [*steady, *rates] if self.rates else steady

    def mean(self, value: str) -> str:
        return self.b.node(ReduceMean((1,)), [value])

    def maximum(self, value: str) -> str:
        return self.b.node(ReduceMax((1,)), [value])

    def pooled(self, value: str) -> str:
        """A mean with weights that come from the values themselves."""
        _, channels = self.size(value)
        scores = self.b.node(MatMul(), [value, self.b.weight(channels, 1)])
        shares = self.b.node(Softmax(1), [scores])
        if self.random.random() < 0.5:
            return self.b.node(ReduceSum((1,)), [self.b.node(Mul(), [value, shares])])
        return self.b.node(MatMul(transpose_a=True), [shares, value])

    def size(self, value: str) -> tuple[int, int]:
        """Elements along time, and channels."""
        _, length, channels = self.b.types[value].shape
        return length, channels

    def pads(self, span: int) -> tuple[int, int]:
        """Pads of a window: all before it, or also after it, or none at all."""
        if not self.ahead or self.random.random() < 0.6:
            more = 0 if self.ends else self.random.choice((0, 0, 0, 2))
            return span - 1 + more, 0
        before = self.random.randint(0, span - 1)
        return before, self.random.choice((0, span - 1 - before))

    def window(self, value: str, stride: int = 1) -> tuple[int, int, tuple[int, int]]:
        """Taps, dilation and pads that fit."""
        length, _ = self.size(value)
        taps, dilation = self.random.choice(((1, 1), (2, 1), (3, 1), (3, 2), (2, 4)))
        span = (taps - 1) * dilation + 1
        if span > length // 2:
            taps, dilation, span = 1, 1, 1
        return taps, dilation, self.pads(span)

    def conv(self, value: str, stride: int = 1) -> str:
        taps, dilation, pads = self.window(value, stride)
        _, channels = self.size(value)
        out = self.random.choice((2, 4))
        op = Conv((stride,), (pads,), (dilation,))
        return self.b.node(op, [value, self.b.weight(taps, channels, out), self.b.weight(out)])

    def strided(self, value: str) -> str:
        stride = self.random.choice((2, 3))
        if self.size(value)[0] % (stride * 4):
            return self.conv(value)
        return self.random.choice((self.conv, self.pool))(value, stride)

    def grouped(self, value: str) -> str:
        taps, dilation, pads = self.window(value)
        _, channels = self.size(value)
        op = Conv((1,), (pads,), (dilation,), group=channels)
        return self.b.node(op, [value, self.b.weight(taps, 1, channels)])

    def pool(self, value: str, stride: int = 1) -> str:
        taps, dilation, pads = self.window(value, stride)
        span = (taps - 1) * dilation + 1
        if pads[0] >= span:
            pads = (span - 1, pads[1])
        if taps == 1:
            pads = (0, 0)
        kind = self.random.choice(("max", "mean", "counted"))
        place = (taps,), (stride,), (pads,), (dilation,)
        if kind == "max":
            return self.b.node(MaxPool(*place), [value])
        return self.b.node(AveragePool(*place, count_include_pad=kind == "counted"), [value])

    def branches(self, value: str) -> str:
        """The sum or the product of two convolutions with different pasts."""
        _, channels = self.size(value)
        ends = []
        for _ in range(2):
            taps, dilation, (before, after) = self.window(value)
            after = (taps - 1) * dilation - before if before <= (taps - 1) * dilation else 0
            if not self.ahead:
                before, after = (taps - 1) * dilation, 0
            op = Conv((1,), ((before, after),), (dilation,))
            ends.append(self.b.node(op, [value, self.b.weight(taps, channels, 3)]))
        return self.b.node(self.random.choice((Add, Mul))(), ends)

    def joined(self, value: str) -> str:
        taps, dilation = 3, self.random.choice((1, 2))
        _, channels = self.size(value)
        op = Conv((1,), ((2 * dilation, 0),), (dilation,))
        other = self.b.node(op, [value, self.b.weight(taps, channels, 2)])
        return self.b.node(Concat(2), [value, other])

    def pointwise(self, value: str) -> str:
        _, channels = self.size(value)
        kind = self.random.randrange(4)
        if kind == 0:
            return self.b.node(Relu(), [value])
        if kind == 1:
            return self.b.node(MatMul(), [value, self.b.weight(channels, 4)])
        if kind == 2:
            return self.b.node(LayerNormalization((2,), 1e-3), [value])
        turned = self.b.node(Transpose((0, 2, 1)), [value])
        return self.b.node(Transpose((0, 2, 1)), [self.b.node(Tanh(), [turned])])

    def recurrent(self, value: str) -> str:
        _, channels = self.size(value)
        kind = self.random.choice((Rnn, Gru, Lstm))
        functions = [(Sigmoid(),)] * (kind is not Rnn) + [(Tanh(),)] * (1 + (kind is Lstm))
        p = self.b.node(MatMul(), [value, self.b.weight(channels, 3 * kind.gates)])
        layer = kind(3, tuple(functions), (False,), returns=("sequence",))
        weights = [self.b.weight(1, 3, 3 * kind.gates), *[""] * (layer.states + layer.others)]
        (found,) = self.b.nodes(layer, [p, *weights], name=self.b.unique("recurrent"))
        return found

    def padded(self, value: str) -> str:
        """Pad, then a window that takes it all: a causal convolution in two nodes."""
        taps, dilation, (before, after) = self.window(value)
        _, channels = self.size(value)
        op = Pad(((0, 0), (before, after), (0, 0)), self.random.choice((0.0, 0.5)))
        if self.random.random() < 0.3 and before <= (taps - 1) * dilation:
            op = replace(op, value=0.0, mode="edge")
        found = self.b.node(op, [value])
        if self.random.random() < 0.3:
            found = self.b.node(Tanh(), [found])
        conv = Conv((1,), ((0, 0),), (dilation,))
        return self.b.node(conv, [found, self.b.weight(taps, channels, 3)])

    def cut(self, value: str) -> str:
        """Padded on both sides; the excess at the end is cut off."""
        length, channels = self.size(value)
        op = Conv((1,), ((2, 2),), (1,))
        found = self.b.node(op, [value, self.b.weight(3, channels, 2)])
        return self.b.node(Slice((0, 0, 0), (self.batch, length, 2), (1, 1, 1)), [found])

    def cumulative(self, value: str) -> str:
        return self.b.node(Tanh(), [self.b.node(CumSum(1), [value])])

    def mean_so_far(self, value: str) -> str:
        """The sum of all elements up to each, divided by how many they are."""
        length, _ = self.size(value)
        sums = self.b.node(CumSum(1), [value])
        count = np.arange(1, length + 1, dtype=np.float32).reshape(length, 1)
        if self.random.random() < 0.5:
            return self.b.node(Div(), [sums, self.b.constant("count", count)])
        return self.b.node(Mul(), [sums, self.b.constant("share", 1 / count)])

    def attention(self, value: str) -> str:
        """Of two heads, to a few elements before each one, weighted by their distance; queries and
        keys may be turned by the number of their element.
        """
        length, channels = self.size(value)
        behind = self.random.choice((0, 1, 5, length - 1))
        ahead = self.random.choice((0, 2)) if self.ahead else 0
        heads = [
            self.b.node(Reshape((self.batch, length, 2, 2)), [
                self.b.node(MatMul(), [value, self.b.weight(channels, 4)])
            ]) for _ in range(3)
        ]  # fmt: skip
        if self.rotates:
            heads = [*map(self.rotated, heads[:2]), heads[2]]
        orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (self.b.node(Transpose(o), [h]) for o, h in zip(orders, heads, strict=True))
        d = np.arange(length)[:, None] - np.arange(length)[None]
        mask = np.where((d <= behind) & (d >= -ahead), -0.1 * np.abs(d), -np.inf)
        scores = self.b.node(MatMul(), [q, k])
        if self.random.random() < 0.5:
            scores = self.b.node(Mul(), [scores, self.b.constant("scale", np.float32([0.7]))])
        scores = self.b.node(Add(), [scores, self.b.constant("mask", mask)])
        mixed = self.b.node(MatMul(), [self.b.node(Softmax(3), [scores]), v])
        mixed = self.b.node(Transpose((0, 2, 1, 3)), [mixed])
        return self.b.node(Reshape((self.batch, length, 4)), [mixed])

    def rotated(self, value: str) -> str:
        """Pairs of features, as complex numbers that are turned by an angle for each element."""
        _, length, _, _ = self.b.types[value].shape
        angles = np.arange(length).reshape(-1, 1, 1) * np.array([[0.3], [0.02]])
        real, imaginary = (
            self.b.node(Slice((0, 0, 0, k), (self.batch, length, 2, k + 1), (1, 1, 1, 1)), [value])
            for k in range(2)
        )
        crossed = self.b.node(Concat(3), [self.b.node(Neg(), [imaginary]), real])
        parts = [
            self.b.node(Mul(), [each, self.b.constant("wave", wave(angles))])
            for each, wave in ((value, np.cos), (crossed, np.sin))
        ]
        return self.b.node(Add(), parts)

    def between(self, value: str) -> str:
        """Twice or three times as many elements, on lines between neighbours."""
        length, _ = self.size(value)
        if length > STEPS:
            return self.conv(value)
        places = self.random.choice(("half_pixel", "asymmetric"))
        op = Resize("linear", (self.random.choice((2, 3)) * length,), places)
        return self.b.node(op, [value])

    def widened(self, value: str) -> str:
        length, channels = self.size(value)
        if length > STEPS:
            return self.conv(value)
        stride, taps = self.random.choice(((2, 2), (2, 3), (2, 1), (3, 5)))
        span = taps
        extra = max(0, stride - span)
        whole = (length - 1) * stride + span + extra
        op = ConvTranspose((stride,), ((0, whole - length * stride),), (1,), (extra,))
        return self.b.node(op, [value, self.b.weight(taps, 2, channels), self.b.weight(2)])

    def repeated(self, value: str) -> str:
        length, _ = self.size(value)
        op = Resize("nearest", (2 * length,), "asymmetric", "floor")
        return self.b.node(op, [value]) if length <= STEPS else self.conv(value)


class VoiceMaker(Maker):
    """Three sequences, side by side where windows are."""

    batch = 3

    def graph(self) -> Graph:
        return side_by_side(super().graph())


def call_by_call(graph: Graph, x: Array, block: int) -> list[list[Array]]:
    """The outputs of all calls, from the states' first values on."""
    return in_calls({block: graph}, x, [block] * (x.shape[1] // block))


def in_calls(graphs: Mapping[int, Graph], x: Array, cuts: Sequence[int]) -> list[list[Array]]:
    """The same for calls of several sizes."""
    state, start = {}, 0
    for s in (graph := graphs[cuts[0]]).states:
        type_ = graph.types[s.input]
        first = np.array(s.initial) if s.initial else np.zeros(type_.elements)
        state[s.input] = first.reshape(type_.shape).astype(type_.dtype.numpy)
    found: list[list[Array]] = [[] for _ in graph.outputs]
    for number, block in enumerate(cuts):
        graph, done = graphs[block], cuts[: number + 1].count(block)
        values = evaluate(graph, {**state, "x": x[:, start : start + block]})
        start += block
        assert graph.calls is not None
        due = {s for s in graph.states if graph.calls.changes(s.output, done)}
        state |= {s.input: np.asarray(values[s.output]) for s in due}
        for results, name in zip(found, graph.outputs, strict=True):
            results.append(np.asarray(values[name]))
    return found


def sequence(graph: Graph, seed: int = 5) -> Array:
    """An input of the network for whole sequences."""
    x = np.random.default_rng(seed).standard_normal(graph.types["x"].shape)
    return x.astype(np.float32)


def wanted(graph: Graph, calls: Graph, x: Array) -> list[Array]:
    """What each call has to give, one after the other along the first axis, by output."""
    steps = calls.steps_of_call
    cuts = [steps] * (x.shape[1] // steps)
    return [np.stack(parts) for parts in wanted_in(graph, {steps: calls}, cuts, x)]


def wanted_in(
    graph: Graph, graphs: Mapping[int, Graph], cuts: Sequence[int], x: Array
) -> list[list[Array]]:
    """By output, what each call has to give where calls have these sizes.

    NaN is what nobody may use: elements before the first one, what would be if the sequence ended
    before it does, and calls without outputs.
    """
    calls = graphs[cuts[0]].calls
    assert calls is not None
    whole, late, every = evaluate(graph, {"x": x}), calls.latency, calls.every
    due = range(calls.first_output - 1, len(cuts), every)
    found = []
    for name in graph.outputs:
        right = np.asarray(whole[name])
        shapes = [graphs[cut].types[name].shape for cut in cuts]
        parts = [np.full(shape, np.nan) for shape in shapes]
        if len(shapes[0]) < 3 or right.shape[1] == 1:  # of the whole sequence
            if not late and sum(cuts) == x.shape[1] and len(cuts) % every == 0:
                parts[-1] = right
        elif due:
            ends = np.cumsum([shapes[k][1] for k in due])
            made = np.full((len(right), ends[-1], *right.shape[2:]), np.nan)
            later = (late + calls.phase * cuts[0]) * shapes[0][1] // (cuts[0] * every)
            length = min(right.shape[1], made.shape[1] - later)
            made[:, later : later + length] = right[:, :length]
            for k, part in zip(due, np.split(made, ends[:-1], 1), strict=True):
                parts[k] = part
        found.append(parts)
    return found


def compare(graph: Graph, block: int, latency: int | str) -> int:
    """Check that calls give the whole sequence; returns how many of its elements were compared."""
    calls = to_streaming(graph, block, latency)
    x, compared = sequence(graph), 0
    for results, right in zip(
        call_by_call(calls, x, block), wanted(graph, calls, x), strict=False
    ):  # fmt: skip
        made, used = np.array(results), ~np.isnan(right)
        np.testing.assert_allclose(made[used], right[used], atol=1e-6, rtol=1e-6)
        compared += int(used.sum()) // prod(right.shape[3:])
    return compared


def compare_mixed(graph: Graph, blocks: Sequence[int], latency: int | str, seed: int) -> int:
    """Check that calls of these sizes in a random order give what those of the first one give;
    returns how many elements were compared.

    Calls of one size may have outputs once in some: after a `group` of steps.
    """
    graphs = {block: to_streaming(graph, block, latency, blocks) for block in blocks}
    assert len({graph.states for graph in graphs.values()}) == 1
    first = graphs[blocks[0]]
    late, random = first.calls.latency if first.calls else 0, Random(seed)
    x = np.random.default_rng(5).standard_normal((1, 3 * STEPS, 3)).astype(np.float32)
    cuts: list[int] = []
    while sum(cuts) <= x.shape[1] - max(blocks):
        cuts.append(random.choice(blocks))
    same = [blocks[0]] * (x.shape[1] // blocks[0])
    alike, compared, unit = in_calls(graphs, x, same), 0, blocks[0] * _every(first)
    group = max(size * _every(g) if _every(g) > 1 else 1 for size, g in graphs.items())
    ends = np.cumsum(cuts)[_due(graphs, cuts)] // group * group
    for name, all_, mixed_ in zip(graph.outputs, alike, in_calls(graphs, x, cuts), strict=False):
        one = [all_[k] for k in _due(graphs, same)]
        mixed = [mixed_[k] for k in _due(graphs, cuts)]
        shape = graph.types[name].shape
        if len(shape) < 3 or shape[1] == 1:  # of all steps so far
            for end, value in zip(ends, mixed, strict=True):
                if end % unit == 0 and end > late:
                    np.testing.assert_allclose(value, one[end // unit - 1], atol=1e-6)
                    compared += 1
            continue
        skipped = late * one[0].shape[1] // unit
        right, made = np.concatenate(one, 1), np.concatenate(mixed, 1)
        length = min(right.shape[1], made.shape[1])
        np.testing.assert_allclose(made[:, skipped:length], right[:, skipped:length], atol=1e-6)
        compared += length - skipped
    return compared


def _every(graph: Graph) -> int:
    return graph.calls.every if graph.calls else 1


def _due(graphs: Mapping[int, Graph], cuts: Sequence[int]) -> list[int]:
    """The calls that have outputs: of those of a size, each, or the last one of so many."""
    return [k for k, cut in enumerate(cuts) if cuts[: k + 1].count(cut) % _every(graphs[cut]) == 0]


def twice(graph: Graph, x: Array) -> Array:
    """What a model of STEPS steps with states makes of a sequence of two times as many."""
    given = {s.input: np.zeros(graph.types[s.input].shape, np.float32) for s in graph.states}
    made = []
    for part in np.split(x, 2, 1):
        found = evaluate(graph, {"x": part, **given})
        made.append(found[graph.outputs[0]])
        given = {s.input: found[s.output].astype(np.float32) for s in graph.states}
    return np.concatenate(made, 1)
