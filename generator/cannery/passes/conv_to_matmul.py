"""A convolution with one window, as large as its input, is a matrix product.

With dilation, it is not: `conv.single` reads the few elements of a long past where they are.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape


def conv_to_matmul(graph: Graph) -> Graph:
    """x[N,H,W,C], w[H,W,C,OC] -> y[N,1,1,OC] becomes x[N,1,1,HWC] @ w[HWC,OC]."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_convert)
    return rewriter.finish()


def _convert(rewriter: Rewriter, node: Node) -> bool:
    op = node.op
    if not isinstance(op, Conv) or op.group != 1 or any(pair != (0, 0) for pair in op.pads):
        return False
    source, weight = node.inputs[:2]
    x = rewriter.types[source]
    w = rewriter.constants.get(weight)
    if w is None or w.shape[-2] != x.shape[-1]:
        return False
    if w.shape[:-2] != x.shape[1:-1]:
        return False
    flat = TensorType((x.shape[0], *(1 for _ in op.strides), w[..., 0].size), x.dtype)
    before: list[Node] = []
    if flat != x:
        value = rewriter.value(f"{node.name}/flat", flat)
        before.append(Node(Reshape(flat.shape), f"{node.name}/flat", (source,), (value,)))
        source = value
    matrix = rewriter.constant(weight, w.reshape(-1, w.shape[-1]))
    product = Node(MatMul(), node.name, (source, matrix, *node.inputs[2:]), node.outputs)
    rewriter.replace_node(node, [*before, product])
    return True
