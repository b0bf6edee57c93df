"""Windows that a Gather lays side by side, as of PyTorch's `unfold`: a slice for each element of a
window, since each of these looks back by its own number of steps.
"""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.indexing.gather import Gather
from cannery.ops.movement.op import Reshape, Slice

#: Windows of more elements stay as they are.
_MAX_TAPS = 64


def unfold_by_slices(graph: Graph) -> Graph:
    """The network with slices in place of such Gathers."""
    rewriter = Rewriter(graph)
    for node in rewriter.nodes:
        if isinstance(node.op, Gather) and node.inputs[1] in rewriter.constants:
            parts = _slices(rewriter, node, node.op.axis)
            if parts:
                rewriter.replace_node(node, parts)
    return rewriter.finish()


def _slices(rewriter: Rewriter, node: Node, axis: int) -> list[Node]:
    """What takes the same elements; empty unless indices [i, j] are i * a + j * b, both positive.

    The longer axis of the indices counts windows, the other one the elements of a window.
    """
    indices = np.asarray(rewriter.constants[node.inputs[1]])
    if indices.ndim != 2 or min(indices.shape) < 2 or min(indices.shape) > _MAX_TAPS:
        return []
    by, step = int(indices[1, 0] - indices[0, 0]), int(indices[0, 1] - indices[0, 0])
    rows, columns = np.indices(indices.shape)
    even = np.array_equal(indices, indices[0, 0] + by * rows + step * columns)
    if not even or min(by, step) < 1 or indices[0, 0] < 0:
        return []
    taps = 0 if indices.shape[0] <= indices.shape[1] else 1
    found, values = list[Node](), list[str]()
    for wanted in indices if taps == 0 else indices.T:
        found += _part(rewriter, node, axis, axis + taps, wanted)
        values.append(found[-1].output)
    return [*found, Node(Concat(axis + taps), node.name, tuple(values), node.outputs)]


def _part(rewriter: Rewriter, node: Node, axis: int, taps: int, wanted: Array) -> list[Node]:
    """One element of each window, with an axis of one for it at `taps`."""
    shape = rewriter.types[node.inputs[0]].shape
    starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    first, second = wanted[:2].tolist()
    starts[axis], ends[axis], steps[axis] = first, int(wanted[-1].item()) + 1, second - first
    dtype = rewriter.types[node.inputs[0]].dtype
    own = (*shape[:axis], len(wanted), *shape[axis + 1 :])
    wide = (*own[:taps], 1, *own[taps:])
    cut = rewriter.value(f"{node.name}/element", TensorType(own, dtype))
    alone = rewriter.value(f"{node.name}/window", TensorType(wide, dtype))
    op = Slice(tuple(starts), tuple(ends), tuple(steps))
    return [
        Node(op, cut, node.inputs[:1], (cut,)),
        Node(Reshape(wide), alone, (cut,), (alone,)),
    ]
