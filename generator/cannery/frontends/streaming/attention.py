"""Attention of each step to those around it, where a mask bounds how far a step sees.

In the whole sequence all queries meet all keys. A call has the new queries, and the keys and values
of as many steps before them as the mask leaves. What the mask adds must depend on the distance
between two steps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.lead import first, results
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.positions import Turned, check_distances, turn
from cannery.frontends.streaming.stream import Stream
from cannery.frontends.time_axis import Use, one_step
from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import Elementwise, RefArray
from cannery.ops.elementwise import Add
from cannery.ops.logic.compare import IsNaN, Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Transpose
from cannery.ops.softmax.op import Softmax

#: Scores that a mask lowers this far count for nothing: `exp` of them is 0.
_MASKED = -1e4

#: What is added to scores of steps that do not exist.
_NOTHING = -1e30


@dataclass(frozen=True)
class Attention:
    """`product` multiplies queries and keys, `result` shares and values; `between` is in order.

    The last node between them is the softmax; each of the others has one input that is computed.
    `guard` is what PyTorch writes after it: 0 in place of shares that are no numbers.
    """

    product: Node
    between: tuple[Node, ...]
    result: Node
    guard: tuple[Node, ...] = ()

    @property
    def scores(self) -> tuple[str, ...]:
        """The values that no other node reads."""
        return (self.product.output, *(node.output for node in (*self.between, *self.guard)))


def attentions(graph: Graph) -> Iterator[Attention]:
    """Those of a network, also where rows and columns are no steps."""
    for node in graph.nodes:
        if isinstance(node.op, Softmax) and node.op.axis == graph.types[node.output].rank - 1:
            guard = _guard(graph, node.output)
            shares = guard[-1].output if guard else node.output
            result = _only_reader(graph, shares)
            found = _up_to_product(graph, node)
            if found and result and _takes_shares(result, shares):
                yield Attention(found[0], tuple(found[1:]), result, guard)


def _guard(graph: Graph, shares: str) -> tuple[Node, ...]:
    """The nodes that put a constant in place of shares that are no numbers, if there are any."""
    for node in graph.consumers(shares):
        chosen = _only_reader(graph, node.output) if isinstance(node.op, IsNaN) else None
        if chosen and isinstance(chosen.op, Where) and chosen.inputs[0] == node.output:
            one, other = chosen.inputs[1:]
            if one in graph.constants and other == shares and len(graph.consumers(shares)) == 2:
                return node, chosen
    return ()


def _takes_shares(node: Node, shares: str) -> bool:
    op = node.op
    first = isinstance(op, MatMul) and not op.transpose_a and len(node.inputs) == 2
    return first and node.inputs[0] == shares != node.inputs[1]


def _only_reader(graph: Graph, value: str) -> Node | None:
    readers = graph.consumers(value)
    return readers[0] if len(readers) == 1 and value not in graph.outputs else None


def _up_to_product(graph: Graph, node: Node) -> list[Node] | None:
    """From the product of queries and keys to `node`."""
    found = [node]
    while not isinstance(found[0].op, MatMul):
        computed = [v for v in found[0].inputs if v not in graph.constants]
        before = graph.producer(computed[0]) if len(computed) == 1 else None
        known = before and isinstance(before.op, Elementwise | Where | MatMul)
        if before is None or not known or _only_reader(graph, computed[0]) is None:
            return None
        found.insert(0, before)
    return found if len(found[0].inputs) == 2 and len(found) > 1 else None


def of_steps(graph: Graph, a: Attention, streams: Mapping[str, Stream]) -> bool:
    """Whether queries and keys, and values if they are known, are steps."""
    q, k = a.product.inputs
    op = a.product.op
    assert isinstance(op, MatMul)
    rows = _along(graph, streams, q, 1 if op.transpose_a else 2)
    return rows and _along(graph, streams, k, 2 if op.transpose_b else 1)


def _along(graph: Graph, streams: Mapping[str, Stream], value: str, from_end: int) -> bool:
    stream = streams.get(value)
    return stream is not None and stream.time == graph.types[value].rank - from_end


def attend(
    b: Builder, a: Attention, streams: Mapping[str, Stream], turned: Mapping[str, Turned]
) -> Stream:
    """Append the attention of a call; its output's stream. `turned` has the queries and keys that
    depend on the number of their step.
    """
    (q, k), v = a.product.inputs, a.result.inputs[1]
    op = a.result.op
    assert isinstance(op, MatMul)
    if not _along(b.graph, streams, v, 1 if op.transpose_b else 2):
        raise UnsupportedError("it multiplies steps with each other")
    count = streams[q].count
    if len({(streams[each].count, streams[each].every) for each in (q, k, v)}) > 1:
        raise UnsupportedError("it joins values that come at different rates")
    behind, ahead = _sight(b.graph, a)
    late = max(_known(streams[k]), _known(streams[v]), _known(streams[q]) - ahead)
    lead = None
    is_turned = q in turned or k in turned
    if is_turned:
        check_distances(b.graph, a.product, turned, streams, behind + ahead + count)
    if late + ahead < 0 and b.folds and not is_turned:
        known = _Band(-late - ahead, behind, ahead, late)
        lead = _lead(b, a, [streams[each] for each in (q, k, v)], known)
    elif late + ahead < 0:
        late = -ahead
    query = _query(b, streams, turned[q].root if q in turned else q, late + ahead)
    reach = behind + ahead
    keys = _window(b, streams, turned[k].root if k in turned else k, late, reach)
    if is_turned:
        query = turn(b, turned[q], streams[turned[q].root], query, behind)
        keys = turn(b, turned[k], streams[turned[k].root], keys, 0)
    values = _window(b, streams, v, late, reach)
    scores = b.op(a.product.op, a.product.name, query, keys)
    shares = _shares(b, a, scores, _Band(count, behind, ahead, late), streams[q])
    b.add(replace(a.result, inputs=(shares, values)))
    time = b.graph.types[a.result.output].rank - 2
    return Stream(time, count, late + ahead, lead, streams[q].every)


def _query(b: Builder, streams: Mapping[str, Stream], value: str, late: int) -> str:
    """A value of a call, this late."""
    value, stream = b.begun(value, s) if (s := streams[value]).copies else (value, s)
    return b.delayed(value, stream, late)[0]


def _known(stream: Stream) -> int:
    """The delay of a value, element by element: copies of the first one come with that."""
    return max(0, stream.delay + stream.copies) if stream.copies else stream.delay


def _lead(b: Builder, a: Attention, leads: Sequence[Stream], band: _Band) -> Array:
    """The first results, where queries, keys and values of so many steps are known before the
    first call.
    """

    def known(stream: Stream, count: int) -> Array:
        assert stream.lead is not None and stream.time is not None
        return first(stream.lead, stream.time, count)

    query, key, value = leads
    keys = band.count + band.ahead
    (found,) = results(a.product.op, known(query, band.count), known(key, keys))
    for node in a.between:
        constants = {v: b.graph.constants[v] for v in node.inputs if v in b.graph.constants}
        moved = {v: band.moved(array) for v, array in constants.items()}
        cut = {v: array[..., -keys:] if _by_steps(array) else array for v, array in moved.items()}
        (found,) = results(node.op, *(cut.get(v, found) for v in node.inputs))
    return results(a.result.op, found, known(value, keys))[0]


@dataclass(frozen=True)
class _Band:
    """Rows are the queries of a call, columns the keys: `behind` the first query, and on.

    `late` is the delay of the keys; that of the queries is `ahead` more.
    """

    count: int
    behind: int
    ahead: int
    late: int

    @property
    def keys(self) -> int:
        return self.behind + self.ahead + self.count

    @property
    def distances(self) -> NDArray[np.int64]:
        """By how many steps the key comes before the query."""
        return np.arange(self.count)[:, None] - np.arange(self.keys)[None] + self.behind

    def mask(self) -> NDArray[np.float32]:
        """What is added, so that no query sees further than in the whole sequence."""
        seen = (self.distances >= -self.ahead) & (self.distances <= self.behind)
        return np.where(seen, 0.0, _NOTHING).astype(np.float32)

    def moved(self, array: Array) -> Array:
        """A constant of all steps by all steps, for these; others remain."""
        if not _by_steps(array):
            return array
        size = array.shape[-1]
        d = self.distances.clip(1 - size, size - 1)
        return array[..., d.clip(0), (-d).clip(0)]


def _shares(b: Builder, a: Attention, scores: str, band: _Band, queries: Stream) -> str:
    """From scores to shares; keys from before the first step are masked."""
    early = b.early(band.late + band.behind + band.ahead, queries, (band.keys,))
    nothing = b.scalar(_NOTHING)
    *steps, softmax = a.between
    added = band.mask()
    if steps and isinstance(steps[-1].op, Add):  # which adds the mask of this call instead
        (array,) = (b.graph.constants[v] for v in steps.pop().inputs if v in b.graph.constants)
        added = added + np.asarray(band.moved(array), np.float32)
    value = scores
    for node in steps:
        given = {v: band.moved(b.graph.constants[v]) for v in node.inputs if v in b.graph.constants}
        moved = {v: b.constant(f"{v}/steps", array) for v, array in given.items()}
        value = b.op(node.op, node.name, *(moved.get(v, value) for v in node.inputs))
    constant = b.constant(f"{softmax.name}/mask", added)
    seen = b.op(Where(), f"{softmax.name}/seen", early, nothing, constant)
    masked = b.op(Add(), f"{softmax.name}/masked", value, seen)
    found = {softmax.output: b.op(softmax.op, softmax.name, masked)}
    for node in a.guard:
        found[node.output] = b.op(node.op, node.name, *(found.get(v, v) for v in node.inputs))
    return found[a.scores[-1]]


def _window(b: Builder, streams: Mapping[str, Stream], value: str, late: int, reach: int) -> str:
    """A value with the `reach` elements before those of a call, which are `late`.

    The past is that of what transposes and reshapes read, so that it has steps as rows.
    """
    stream, node = streams[value], b.graph.producer(value)
    source = streams.get(node.inputs[0]) if node else None
    if (
        node
        and source
        and source.delay == stream.delay
        and isinstance(node.op, Transpose | Reshape)
    ):
        types = [b.graph.types[v] for v in (node.inputs[0], value)]
        assert source.time is not None
        steps = types[0].shape[source.time]
        wide = Use(node.op, [source.time], types[:1], types[1], steps, count=stream.count + reach)
        inner = _window(b, streams, node.inputs[0], late, reach)
        return b.op(one_step(wide)[1], f"{value}/window", inner)
    value, stream = b.begun(value, stream) if stream.copies else (value, stream)
    assert stream.time is not None
    value = b.masked(value, stream, 0.0)  # a share of 0 of what is no number would be none, either
    found = b.past(value, stream, reach + late - stream.delay, 0.0)
    return b.cut(found, stream.time, 0, reach + stream.count)


def _by_steps(array: Array) -> bool:
    return max(array.shape[-2:], default=1) > 1


def _sight(graph: Graph, a: Attention) -> tuple[int, int]:
    """How many steps before and after it a step sees.

    Raises UnsupportedError where that is not bounded, or not the same for all steps.
    """
    steps = graph.types[a.product.output].shape[-1]
    for node in a.between:
        for array in (graph.constants[v] for v in node.inputs if v in graph.constants):
            if _by_steps(array) and not _by_distance(array, steps):
                raise UnsupportedError("its mask is not the same for all steps")
    seen = _unmasked(graph, a.between[:-1], steps)
    behind, ahead = (int(np.flatnonzero(side).max(initial=-1)) for side in (seen[:, 0], seen[0]))
    if not seen[0, 0]:
        raise UnsupportedError("a step does not attend to itself")
    if ahead == steps - 1:
        raise UnsupportedError("each step attends to all later ones")
    return behind, ahead


def _by_distance(array: Array, steps: int) -> bool:
    fits = array.shape[-2:] == (steps, steps)
    return fits and bool(np.array_equal(array[..., 1:, 1:], array[..., :-1, :-1]))


def _unmasked(graph: Graph, nodes: Sequence[Node], steps: int) -> NDArray[np.bool_]:
    """bool[steps, steps]: which scores count, in any head."""
    value: RefArray = np.zeros((steps, steps))
    for node in nodes:
        inputs = [graph.constants.get(v, value) for v in node.inputs]
        with np.errstate(all="ignore"):
            (value,) = node.op.reference(*inputs)
    counts = np.asarray(value, np.float64) > _MASKED
    return np.asarray(counts.reshape(-1, steps, steps).any(0))
