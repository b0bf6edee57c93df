"""Reversed channels cost nothing: the next convolution reverses its weights."""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.movement.op import Slice


def channels_into_conv(graph: Graph) -> Graph:
    """Slice of all channels, backwards -> elementwise -> Conv of one group: drops the Slice."""
    rewriter = Rewriter(graph)
    changed = True
    while changed:
        changed = False
        for rule in (_behind, _fold):
            changed |= rewriter.sweep(rule)
    return rewriter.finish()


def _behind(rewriter: Rewriter, node: Node) -> bool:
    """Elementwise with constants: the Slice moves after it, and the constants are reversed."""
    values = [v for v in node.inputs if v not in rewriter.constants]
    if not isinstance(node.op, Elementwise) or len(values) != 1 or "" in node.inputs:
        return False
    flip = _flip(rewriter, values[0])
    if flip is None or rewriter.single_reader(values[0]) is not node:
        return False
    type_ = rewriter.types[node.output]
    if type_ != rewriter.types[values[0]]:
        return False
    inputs = [
        flip.inputs[0] if v == values[0] else _turned(rewriter, v, type_.shape[-1])
        for v in node.inputs
    ]
    between = rewriter.value(f"{node.name}/backwards", type_)
    rewriter.replace_node(flip, [])
    done = Node(node.op, node.name, tuple(inputs), (between,))
    rewriter.replace_node(node, [done, Node(flip.op, flip.name, (between,), node.outputs)])
    return True


def _turned(rewriter: Rewriter, name: str, channels: int) -> str:
    """A constant with its channels, if it has any, backwards."""
    array = rewriter.constants[name]
    if array.ndim == 0 or array.shape[-1] != channels:
        return name
    return rewriter.constant(name, array[..., ::-1].copy())


def _fold(rewriter: Rewriter, node: Node) -> bool:
    if not isinstance(node.op, Conv) or node.op.group != 1:
        return False
    weights = rewriter.constants.get(node.inputs[1])
    flip = _flip(rewriter, node.inputs[0])
    if weights is None or flip is None:
        return False
    turned = rewriter.constant(f"{node.name}/w", weights[..., ::-1, :].copy())
    rewriter.update(node, inputs=(flip.inputs[0], turned, *node.inputs[2:]))
    return True


def _flip(rewriter: Rewriter, value: str) -> Node | None:
    """The node that makes a value by reversing channels."""
    node = rewriter.producer(value)
    return node if node and _reverses(node, rewriter.types[node.inputs[0]]) else None


def _reverses(node: Node, x: TensorType) -> bool:
    """Whether a node is all of x[..., C], its channels backwards."""
    if not isinstance(node.op, Slice) or x.rank < 3:
        return False
    *others, last = zip(node.op.starts, node.op.ends, node.op.steps, strict=True)
    whole = all(cut == (0, d, 1) for cut, d in zip(others, x.shape, strict=False))
    return whole and last == (x.shape[-1] - 1, -1, -1)
