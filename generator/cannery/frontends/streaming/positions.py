"""Queries and keys that are turned by the number of their step, as rotary embeddings do.

Scores must depend on the distance between two steps alone. Then it does not matter from where steps
are counted, and each call counts them from the first key that it reads: keys are kept as they were
before, and turned again in each call. (J. Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.stream import Stream
from cannery.frontends.time_axis import FINAL, Time, Use, one_step
from cannery.ir.evaluate import widen
from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import Elementwise, RefArray
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Expand, Identity, Reshape, Slice, Transpose
from cannery.ops.scalar.base import Pointwise

#: What turns steps, one by one.
_TURNS = (Elementwise, Pointwise, Concat, Expand, Identity, Reshape, Slice, Transpose)

#: How far scores of the same distance may be apart, relative to the largest.
_ALIKE = 1e-5


@dataclass(frozen=True)
class Turned:
    """A query or key, `value`, that `nodes` make of `root`; constants for each step are in these
    alone.
    """

    value: str
    root: str
    nodes: tuple[Node, ...]


def constants_by_step(
    graph: Graph, node: Node, times: Sequence[Time]
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """Which inputs of a node are constants with an element for each step, along which axis; `times`
    are those of its inputs.
    """
    if not isinstance(node.op, Elementwise | Pointwise | Concat):
        return
    ranks = [graph.types[v].rank for v in node.inputs]
    place, own = next((k, t) for k, t in enumerate(times) if t is not None and t != FINAL)
    time = own - ranks[place]  # from the end
    steps = graph.types[node.inputs[place]].shape[own]
    for k, value in enumerate(node.inputs):
        array, axis = graph.constants.get(value), ranks[k] + time
        joined = isinstance(node.op, Concat) and node.op.axis == axis
        if array is not None and axis >= 0 and array.shape[axis] == steps > 1 and not joined:
            yield k, axis


def turned_by(
    graph: Graph, node: Node, products: Collection[str]
) -> tuple[list[Turned], Collection[str]]:  # fmt: skip
    """The queries and keys to which a node with constants for each step leads, and what is made on
    the way. `products` are the scores of all attentions; empty where something else reads what is
    made.
    """
    made = {node.output: None}  # in order
    for other in graph.nodes:
        if other.outputs[0] in products or made.keys().isdisjoint(other.inputs):
            continue
        if not isinstance(other.op, _TURNS):
            return [], ()
        made[other.output] = None
    if not made.keys().isdisjoint(graph.outputs):
        return [], ()
    ends = [v for v in made if any(r.outputs[0] in products for r in graph.consumers(v))]
    turned = [each for value in ends if (each := _from_root(graph, value, made))]
    return (turned, [*made]) if len(turned) == len(ends) else ([], ())


def _from_root(graph: Graph, value: str, made: Collection[str]) -> Turned | None:
    """The nodes between a value and the last one of which alone it is made, `made` among them."""
    order = {output: k for k, node in enumerate(graph.nodes) for output in node.outputs}
    nodes, roots = dict[str, Node](), {value}
    while len(roots) > 1 or not roots.isdisjoint({value, *made}):
        last = max(roots, key=lambda v: order.get(v, -1))
        node = graph.producer(last)
        if node is None or len(node.outputs) > 1 or not isinstance(node.op, _TURNS):
            return None
        nodes[last] = node
        roots = (roots - {last}) | {v for v in node.inputs if v and v not in graph.constants}
    (root,) = roots
    return Turned(value, root, tuple(reversed(nodes.values())))


def time_of(graph: Graph, turned: Turned, time: int) -> int:
    """Which axis of the value is time, if `time` is that of the root.

    Raises UnsupportedError where steps meet.
    """
    found = dict(_times(graph, turned, time))[turned.value]
    if found is None or found == FINAL:
        raise UnsupportedError("it turns queries or keys by other steps")
    return found


def _times(graph: Graph, turned: Turned, time: int) -> Iterator[tuple[str, Time]]:
    times: dict[str, Time] = {turned.root: time}
    yield turned.root, time
    for node in turned.nodes:
        times[node.output] = one_step(_use(graph, node, times, 1))[0]
        yield node.output, times[node.output]


def _use(graph: Graph, node: Node, times: Mapping[str, Time], count: int) -> Use:
    """A node where constants for each step have time, too."""
    own: list[Time] = [times.get(v) for v in node.inputs]
    for k, axis in constants_by_step(graph, node, own):
        own[k] = axis
    types = [graph.types[v] for v in node.inputs]
    steps = next(t.shape[a] for t, a in zip(types, own, strict=True) if a is not None)
    return Use(node.op, own, types, graph.types[node.output], steps, count=count)


def turn(b: Builder, turned: Turned, stream: Stream, root: str, start: int) -> str:
    """Append what makes a query or key of a call's `root`, whose first element has this number."""
    assert stream.time is not None
    times = dict(_times(b.graph, turned, stream.time))
    count, made = b.types[root].shape[stream.time], {turned.root: root}
    for node in turned.nodes:
        use = _use(b.graph, node, times, count)
        inputs = [made.get(v, v) for v in node.inputs]
        for k, axis in constants_by_step(b.graph, node, [times.get(v) for v in node.inputs]):
            array = longer(b.graph.constants[node.inputs[k]], axis, start + count)
            part = array.take(range(start, start + count), axis)
            inputs[k] = b.constant(f"{node.inputs[k]}/steps", part)
        made[node.output] = b.op(one_step(use)[1], f"{node.name}/now", *inputs)
    return made[turned.value]


def longer(array: Array, axis: int, count: int) -> Array:
    """Waves with at least so many elements along an axis; those of a call may be more than the
    model's.

    A wave a of any frequency, also one that grows or shrinks, has for each n numbers p and q such
    that a[k + n] = p a[k] + q a[k - n]: these are fitted to each channel.
    """
    rows = np.moveaxis(np.asarray(array, np.float64), axis, 0)
    shape = rows.shape[1:]
    rows = rows.reshape(len(rows), -1)
    while len(rows) < count:
        n = max(1, len(rows) // 3)
        rows = np.concatenate([rows, _next(rows, n)])
    found = np.moveaxis(rows.reshape(len(rows), *shape), 0, axis)
    return found.astype(array.dtype).take(range(max(count, array.shape[axis])), axis)


def _next(rows: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The next n rows, channel by channel."""
    found = np.empty((n, rows.shape[1]))
    for k, wave in enumerate(rows.T):
        known = np.stack([wave[n:-n], wave[: -2 * n]], 1)
        weights = np.linalg.lstsq(known, wave[2 * n :], rcond=1e-5)[0]
        found[:, k] = weights @ np.stack([wave[-n:], wave[-2 * n : -n]])
    return found


def check_distances(
    graph: Graph, product: Node, turned: Mapping[str, Turned], streams: Mapping[str, Stream],
    count: int,
) -> None:  # fmt: skip
    """Raise UnsupportedError unless scores depend on the distance of two steps alone, among as many
    steps as a call reads.
    """
    roots = [turned[v].root for v in product.inputs if v in turned]
    times = {r: time for r in roots if (time := streams[r].time) is not None}
    rng = np.random.default_rng(0)
    steps = {r: rng.standard_normal(graph.types[r].shape) for r in times}
    alike = {r: step.take([0] * count, times[r]) for r, step in steps.items()}
    factors = [
        _turned(graph, turned[v], times[turned[v].root], alike[turned[v].root], count)
        for v in product.inputs if v in turned
    ]  # fmt: skip
    if len(factors) == 2:
        scores = np.asarray(product.op.reference(*factors)[0], np.float64)
        off = np.abs(scores[..., 1:, 1:] - scores[..., :-1, :-1]).max(initial=0)
        if off <= _ALIKE * np.abs(scores).max():
            return
    raise UnsupportedError(
        "its queries and keys depend on the numbers of their steps, and its scores not on the "
        "distance between two steps alone",
        cure="rotary embeddings of both can be streamed, learned positions cannot",
    )


def _turned(graph: Graph, turned: Turned, time: int, root: RefArray, count: int) -> RefArray:
    """A query or key of so many steps, by the references."""
    times = dict(_times(graph, turned, time))
    made = {turned.root: root}
    for node in turned.nodes:
        by_step = dict(constants_by_step(graph, node, [times.get(v) for v in node.inputs]))
        inputs = [
            longer(graph.constants[v], by_step[k], count).take(range(count), by_step[k])
            if k in by_step else made[v] if v in made else graph.constants[v]
            for k, v in enumerate(node.inputs)
        ]  # fmt: skip
        op = one_step(_use(graph, node, times, count))[1]
        (made[node.output],) = op.reference(*map(widen, inputs))
    return made[turned.value]
