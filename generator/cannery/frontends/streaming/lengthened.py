"""Models of a single step, whose caches are joined to it, as models of several steps.

Each value along time is a window, which a cache and a step make; in a network of n steps it has
n - 1 further elements, and element k of the window of step t is element t + k. So what computes
each element for itself stays, and so do windows without strides and padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from cannery.errors import CanneryError, UnsupportedError
from cannery.frontends.time_axis import FINAL, Time, Use, one_step
from cannery.ir.graph import Graph, Node
from cannery.ir.half import infer_types
from cannery.ir.registry import Op
from cannery.ir.tensor import TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice

#: Operators that read windows along their spatial axes, the second one of a value first.
_WINDOWS = (Conv, MaxPool, AveragePool)


def lengthen(graph: Graph, joined: Mapping[str, int]) -> Graph:
    """The network for several steps of its inputs. `joined` are the axes that are time, of values
    that are padded in place of caches.

    Raises UnsupportedError for the first layer that needs a single step, with its name.
    """
    first: CanneryError | None = None
    for times in _guesses(graph):
        try:
            return _Longer(graph, joined, times).run()
        except CanneryError as error:
            first = first or error
    raise first or UnsupportedError("none of its inputs has an axis of one step")


def _guesses(graph: Graph) -> Iterator[dict[str, int]]:
    """The axes of inputs that may be time: all of which one has one element."""
    states = {state.input for state in graph.states}
    inputs = [v for v in graph.inputs if v not in states]
    shapes = (graph.types[v].shape for v in inputs)
    axes = [[*(k for k, size in enumerate(s) if k and size == 1), None] for s in shapes]
    for chosen in product(*axes):
        found = {v: axis for v, axis in zip(inputs, chosen, strict=True) if axis is not None}
        if found:
            yield found


class _Longer:
    """One try, with the axes of time of the inputs. Values become longer by `more` steps."""

    def __init__(self, graph: Graph, joined: Mapping[str, int], times: Mapping[str, int]) -> None:
        self.graph, self.joined = graph, joined
        self.times: dict[str, int] = dict(times)
        self.axis = next(iter(times.values()))
        self.types = dict(graph.types)
        self.more = max(size for type_ in graph.types.values() for size in type_.shape)

    def run(self) -> Graph:
        for value in self.times:
            self._grow(value)
        nodes = tuple(map(self._node, self.graph.nodes))
        if wrong := [value for value, axis in self.joined.items() if self._time(value) != axis]:
            raise UnsupportedError("its cache is not along the axis of time", where=repr(wrong[0]))
        return replace(self.graph, nodes=nodes, types=self.types)

    def _time(self, value: str) -> Time:
        return self.times.get(value)

    def _size(self, value: str) -> int:
        return self.graph.types[value].shape[self.times[value]]

    def _grow(self, value: str) -> TensorType:
        """Give a value its new type, and return it."""
        shape, axis = list(self.graph.types[value].shape), self.times[value]
        shape[axis] += self.more
        self.types[value] = replace(self.graph.types[value], shape=tuple(shape))
        return self.types[value]

    def _node(self, node: Node) -> Node:
        """The node for longer values. Raises CanneryError if it is none that stays."""
        if not any(value in self.times for value in node.inputs):
            return node
        try:
            time, op = self._stays(node)
        except UnsupportedError as error:
            error.where = error.where or f"layer {node.name!r}"
            raise
        grown = []
        for value in node.outputs:
            self.times[value] = time
            grown.append(self._grow(value))
        if infer_types(op, [self.types[i] if i else None for i in node.inputs]) != tuple(grown):
            raise UnsupportedError("it needs a single step", where=f"layer {node.name!r}")
        return replace(node, op=op)

    def _stays(self, node: Node) -> tuple[int, Op]:
        """The axis of time of its results, and the operator for longer values."""
        op, value = node.op, node.inputs[0]
        axis = self._time(value)
        if axis is not None and isinstance(op, Pad):
            if op.pads[axis] != (0, 0) and node.output not in self.joined:
                raise UnsupportedError("it pads a window of one step")
            return axis, op
        if axis is not None and isinstance(op, _WINDOWS) and 0 < axis <= len(op.strides):
            if op.strides[axis - 1] != 1 or op.pads[axis - 1] != (0, 0):
                raise UnsupportedError("its window of one step has a stride or padding")
            return axis, op
        if axis is not None and isinstance(op, Slice):
            return axis, self._slice(op, axis)
        if axis is not None and isinstance(op, Reshape):
            is_output = node.output in self.graph.outputs
            return self._reshape(op, value, self.axis if is_output else axis)
        return self._each(node)

    def _slice(self, op: Slice, axis: int) -> Slice:
        """Some elements of a window, of the windows of all steps."""
        if op.steps[axis] != 1:
            raise UnsupportedError("it takes some of the steps")
        ends = list(op.ends)
        ends[axis] += self.more
        return replace(op, ends=tuple(ends))

    def _reshape(self, op: Reshape, value: str, likely: int) -> tuple[int, Op]:
        """Time stays a separate axis with as many elements before it. Of several, it is the likely
        one: outputs have their axes in the order of the inputs.
        """
        before = prod(self.graph.types[value].shape[: self.times[value]])
        size = self._size(value)
        places = [
            k for k, found in enumerate(op.shape)
            if found == size and prod(op.shape[:k]) == before and k
        ]  # fmt: skip
        if not places:
            raise UnsupportedError("it mixes steps with other dimensions")
        place = likely if likely in places else places[0]
        shape = (*op.shape[:place], size + self.more, *op.shape[place + 1 :])
        return place, Reshape(shape)

    def _each(self, node: Node) -> tuple[int, Op]:
        """What computes each element from the same element alone."""
        types = [self.graph.types[v] if v else None for v in node.inputs]
        times = [self._time(v) for v in node.inputs]
        (steps, *others) = {self._size(v) for v in node.inputs if v in self.times}
        if others:
            raise UnsupportedError("it joins windows of different lengths")
        use = Use(
            node.op, times, types, self.graph.types[node.outputs[0]], steps,
            count=steps + self.more,
        )  # fmt: skip
        time, op = one_step(use)
        if time is None or time == FINAL:
            raise UnsupportedError("it needs a single step")
        return time, op
