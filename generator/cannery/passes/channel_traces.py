"""Traces channels back through a network's concatenations, slices and shuffles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Reshape, Slice, Transpose

#: A channel: the value that some layer computes, and the channel's place in it.
Channel = tuple[str, int]

#: The axes before the channels: samples, rows, columns.
PIXELS = 3


class Traces:
    """The channels of values before the graph is changed.

    Channels may be split into several axes, as within a shuffle (Reshape, Transpose, Reshape):
    these are all axes after those of pixels.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._channels: list[Channel] = []
        self._found: dict[str, NDArray[np.intp]] = {}
        self._shuffled: set[str] = set()
        for node in rewriter.nodes:
            if self.moves(node):
                self._follow(node)

    def __call__(self, value: str) -> list[Channel]:
        """The channels of a value in their order."""
        return [self._channels[k] for k in self._ids(value).reshape(-1)]

    def shuffled(self, value: str) -> bool:
        """Whether the order of a value's channels cannot come from concatenations and slices
        alone.
        """
        return value in self._shuffled

    def moves(self, node: Node) -> bool:
        """Whether a node only joins, cuts or moves channels.

        Nothing is known about images without pixels or channels: reshaping may change their sizes.
        """
        op, types = node.op, self._rewriter.types
        shapes = [types[v].shape for v in (*node.inputs, *node.outputs) if v]
        images = all(len(s) > PIXELS and all(s) for s in shapes)
        if not images or any(types[v].dtype is not DType.FLOAT32 for v in node.outputs):
            return False
        if isinstance(op, Concat):
            return op.axis >= PIXELS
        if isinstance(op, Transpose):
            return op.perm[:PIXELS] == (0, 1, 2)
        if isinstance(op, Slice) and any(step != 1 for step in op.steps[:PIXELS]):
            return False
        return isinstance(op, Reshape | Slice) and shapes[0][:PIXELS] == shapes[-1][:PIXELS]

    def _ids(self, value: str) -> NDArray[np.intp]:
        if value not in self._found:
            shape = self._rewriter.types[value].shape[PIXELS:]
            first = len(self._channels)
            self._channels += [(value, k) for k in range(int(np.prod(shape)))]
            self._found[value] = np.arange(first, len(self._channels)).reshape(shape)
        return self._found[value]

    def _follow(self, node: Node) -> None:
        """Record the channels that a node makes from those of its inputs."""
        op, output = node.op, node.output
        parts = [self._ids(value) for value in node.inputs]
        moved = any(value in self._shuffled for value in node.inputs)
        if isinstance(op, Concat):
            found = np.concatenate(parts, op.axis - PIXELS)
        elif isinstance(op, Transpose):
            found = parts[0].transpose([p - PIXELS for p in op.perm[PIXELS:]])
            moved = True
        elif isinstance(op, Slice):
            cuts = list(zip(op.starts, op.ends, op.steps, strict=True))[PIXELS:]
            taken = [np.array(range(*cut), np.intp) for cut in cuts]
            found = parts[0][np.ix_(*taken)]
            moved |= any(step != 1 for _, _, step in cuts)
        else:
            found = parts[0].reshape(self._rewriter.types[output].shape[PIXELS:])
        self._found[output] = found
        if moved:
            self._shuffled.add(output)
