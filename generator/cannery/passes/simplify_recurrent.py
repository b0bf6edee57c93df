"""Makes recurrent layers return only what is read."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE, Recurrent


def simplify_recurrent(graph: Graph) -> Graph:
    """A slice of the last step becomes the last output; then unread results are removed."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_take_last)
    rewriter = Rewriter(rewriter.finish())
    read = {v for node in rewriter.nodes for v in node.inputs} | set(rewriter.outputs)
    for node in rewriter.nodes:
        if isinstance(node.op, Recurrent):
            _narrow(rewriter, node, node.op, read)
    return rewriter.finish()


def _take_last(rewriter: Rewriter, node: Node) -> bool:
    """sequence[:, last, :] -> hidden, for layers of one direction that run all steps."""
    if not isinstance(node.op, Slice):
        return False
    source = rewriter.producer(node.inputs[0])
    if source is not None and isinstance(source.op, Reshape):
        source = rewriter.producer(source.inputs[0])
    if source is None or not isinstance(source.op, Recurrent) or SEQUENCE not in source.op.returns:
        return False
    op, sequence = source.op, source.outputs[0]
    if op.directions != 1 or op.lengths or op.first_input(source.inputs):
        return False
    if not _is_last(rewriter, node, op, sequence):
        return False
    hidden = _hidden(rewriter, source)
    reshape = Node(
        Reshape(rewriter.types[node.output].shape), node.name, (hidden,), node.outputs
    )  # fmt: skip
    rewriter.replace_node(node, [reshape])
    return True


def _is_last(rewriter: Rewriter, node: Node, op: Recurrent, sequence: str) -> bool:
    """Whether a slice takes exactly the step that is computed last."""
    assert isinstance(node.op, Slice)
    n, steps, cells = rewriter.types[sequence].shape
    shape = rewriter.types[node.inputs[0]].shape
    taken = rewriter.types[node.output].shape
    same = shape[:2] == (n, steps) and prod(shape[2:]) == cells
    whole = same and (taken[0], *taken[2:]) == (shape[0], *shape[2:]) and taken[1] == 1
    forward = all(step > 0 for axis, step in enumerate(node.op.steps) if axis != 1)
    return whole and forward and node.op.starts[1] == (0 if op.reverse[0] else steps - 1)


def _hidden(rewriter: Rewriter, node: Node) -> str:
    """The last output of a layer, which is returned from now on."""
    assert isinstance(node.op, Recurrent)
    op = node.op
    if HIDDEN in op.returns:
        return node.outputs[op.returns.index(HIDDEN)]
    n, _, width = rewriter.types[node.outputs[0]].shape
    value = rewriter.value(f"{node.name}/hidden", TensorType((n, width)))
    outputs = (node.outputs[0], value, *node.outputs[1:])
    returns = (SEQUENCE, HIDDEN, *op.returns[1:])
    rewriter.replace_node(node, [replace(node, op=replace(op, returns=returns), outputs=outputs)])
    return value


def _narrow(rewriter: Rewriter, node: Node, op: Recurrent, read: set[str]) -> None:
    """Remove results that nothing reads."""
    kept = [k for k, value in enumerate(node.outputs) if value in read]
    if len(kept) < len(node.outputs):
        narrow = replace(op, returns=tuple(op.returns[k] for k in kept))
        outputs = tuple(node.outputs[k] for k in kept)
        rewriter.replace_node(node, [replace(node, op=narrow, outputs=outputs)])
