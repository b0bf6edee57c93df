"""Where channels come from: back through concatenations, slices and shuffles of a network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Reshape, Slice, Transpose

#: A channel: the value that some layer computes, and its place in that.
Channel = tuple[str, int]

#: The axes before the channels: samples, rows, columns.
PIXELS = 3


class Traces:
    """The channels of values as they are before the graph is changed.

    Channels may be cut into several axes, as they are within a shuffle (Reshape, Transpose,
    Reshape): these are all axes behind those of pixels.
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
        """Whether a value has channels in an order that no concatenation or slice makes."""
        return value in self._shuffled

    def moves(self, node: Node) -> bool:
        """Whether a node joins, cuts or moves channels, and does nothing else.

        Of images without a pixel or channel nothing is known: reshaping may give them others.
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
        """Note the channels of what a node makes of others' channels."""
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
