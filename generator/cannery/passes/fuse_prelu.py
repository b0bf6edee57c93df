"""PReLU that a file spells out becomes one operator: relu(x) + c * relu(-x), as Keras has it."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.elementwise import Add, Mul, Neg, PRelu, Relu, Sub


def fuse_prelu(graph: Graph) -> Graph:
    """Where only the sum is read elsewhere, and the factors are constants."""
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    rewriter.sweep(_fuse)
    return rewriter.finish()


def _fuse(rewriter: Rewriter, node: Node) -> bool:
    """Starts from the sum, or the difference."""
    if not isinstance(node.op, Add | Sub):
        return False
    orders = [node.inputs] if isinstance(node.op, Sub) else [node.inputs, node.inputs[::-1]]
    for above, below in orders:
        positive, product = rewriter.sole_producer(above, Relu), rewriter.sole_producer(below, Mul)
        if positive is None or product is None:
            continue
        for value, factor in (product.inputs, product.inputs[::-1]):
            negative = rewriter.sole_producer(value, Relu)
            negated = rewriter.sole_producer(negative.inputs[0], Neg) if negative else None
            slopes = rewriter.constants.get(factor)
            if not negative or not negated or slopes is None:
                continue
            x = positive.inputs[0]
            if negated.inputs[0] != x or rewriter.types[node.output] != rewriter.types[x]:
                continue
            slopes = slopes if isinstance(node.op, Sub) else np.negative(slopes)
            for inner in (product, negative, negated, positive):
                rewriter.replace_node(inner, [])
            rewriter.update(node, PRelu(), [x, rewriter.constant(factor, slopes)])
            return True
    return False
