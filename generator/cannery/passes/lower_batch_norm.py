"""Turns batch normalisation into a scale and a shift per channel."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.normalization.op import BatchNormalization


def lower_batch_norm(graph: Graph) -> Graph:
    """BatchNormalization(x) -> x * s + t with s = scale/sqrt(var+eps), t = bias - mean*s.

    s and t are computed in float64 and rounded once.
    """
    rewriter = Rewriter(graph)
    for node in list(rewriter.nodes):
        if not isinstance(node.op, BatchNormalization):
            continue
        if any(i not in rewriter.constants for i in node.inputs[1:]):
            continue
        scale, bias, mean, var = (
            np.asarray(rewriter.constants[i], np.float64) for i in node.inputs[1:]
        )
        s = scale / np.sqrt(var + np.float64(node.op.epsilon))
        t = bias - mean * s
        type_ = rewriter.types[node.inputs[0]]
        shape = [1] * type_.rank
        shape[node.op.axis % type_.rank] = -1
        middle = rewriter.value(f"{node.name}/scale", type_)
        mul = Node(
            Mul(), f"{node.name}/scale",
            (node.inputs[0], rewriter.constant(f"{node.name}/s", s.reshape(shape))), (middle,),
        )  # fmt: skip
        shift = rewriter.constant(f"{node.name}/t", t.reshape(shape))
        add = Node(Add(), f"{node.name}/shift", (middle, shift), node.outputs)
        rewriter.replace_node(node, [mul, add])
    return rewriter.finish()
