"""A transpose before a flattening and a matrix product becomes another order of the weights."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Transpose


def transpose_into_matmul(graph: Graph) -> Graph:
    """Transpose -> Reshape to [N,K] -> MatMul(w[K,M]): the rows of w are permuted instead.

    Networks with channels first flatten images this way; here images have channels last.
    """
    rewriter = Rewriter(graph)
    rewriter.sweep(_permute_rows)
    return rewriter.finish()


def _permute_rows(rewriter: Rewriter, node: Node) -> bool:
    """Whether `node` is a MatMul that could take in a transpose."""
    if not isinstance(node.op, MatMul) or node.op.transpose_a or node.op.transpose_b:
        return False
    weight = rewriter.constants.get(node.inputs[1])
    flat = rewriter.producer(node.inputs[0])
    if weight is None or weight.ndim != 2 or flat is None or not isinstance(flat.op, Reshape):
        return False
    moved = rewriter.producer(flat.inputs[0])
    if moved is None or not isinstance(moved.op, Transpose) or moved.op.perm[0] != 0:
        return False
    source = rewriter.types[moved.inputs[0]]
    shape = (source.shape[0], prod(source.shape[1:]))
    if rewriter.types[flat.output].shape != shape:
        return False
    inner = tuple(p - 1 for p in moved.op.perm[1:])
    dims = tuple(rewriter.types[moved.output].shape[1:])
    back = tuple(int(k) for k in np.argsort(inner))
    rows = weight.reshape(*dims, -1).transpose(*back, len(back)).reshape(weight.shape)
    value = rewriter.value(f"{flat.name}/channels_last", rewriter.types[flat.output])
    flatten = Node(Reshape(shape), f"{flat.name}/channels_last", (moved.inputs[0],), (value,))
    constant = rewriter.constant(node.inputs[1], np.ascontiguousarray(rows))
    product = Node(node.op, node.name, (value, constant, *node.inputs[2:]), node.outputs)
    rewriter.replace_node(node, [flatten, product])
    return True
