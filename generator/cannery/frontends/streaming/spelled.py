"""Attention as the products, the softmax and the moves that it is made of.

A frontend that knows the layer makes one operator of it. Step by step, each part has a stream of
its own; passes join them again where they can.
"""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.elementwise import Add, Mul, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Transpose
from cannery.ops.softmax.op import Softmax

#: [N,T,heads,size] as [N,heads,T,size], and back.
_HEADS_FIRST = (0, 2, 1, 3)


def spell_out_attention(graph: Graph) -> Graph:
    """Each Attention whose heads fill the channels of its inputs, in order, in parts."""
    rewriter = Rewriter(graph)
    for node in rewriter.nodes:
        if isinstance(node.op, Attention) and _fills(rewriter, node, node.op):
            rewriter.replace_node(node, _parts(rewriter, node, node.op))
    return rewriter.finish() if rewriter.changed else graph


def _fills(rewriter: Rewriter, node: Node, op: Attention) -> bool:
    """Whether the channels of queries, keys and values are their heads, one after the other."""
    return all(
        part == HeadChannels(0, part.size, part.size)
        and part.end(op.heads) == rewriter.types[value].shape[2]
        for part, value in zip((op.q, op.k, op.v), node.inputs, strict=False)
    )


def _parts(rewriter: Rewriter, node: Node, op: Attention) -> list[Node]:
    found: list[Node] = []

    def add(part: Op, label: str, *inputs: str) -> str:
        (type_,) = part.infer(*(rewriter.types[v] for v in inputs))
        output = rewriter.value(f"{node.name}/{label}", type_)
        found.append(Node(part, f"{node.name}/{label}", inputs, (output,)))
        return output

    def heads(value: str, label: str) -> str:
        n, steps, channels = rewriter.types[value].shape
        shape = (n, steps, op.heads, channels // op.heads)
        return add(Transpose(_HEADS_FIRST), label, add(Reshape(shape), f"{label}/heads", value))

    def times(value: str, label: str, factor: float) -> str:
        number = rewriter.constant(f"{node.name}/{label}", np.full(1, factor, np.float32))
        return add(Mul(), f"{label}d", value, number)

    query, key, value, *mask = node.inputs
    q, k, v = heads(query, "query"), heads(key, "key"), heads(value, "value")
    scores = add(MatMul(transpose_b=True), "scores", q, k)
    scores = times(scores, "scale", op.scale / (op.softcap or 1.0))
    if op.softcap:
        scores = times(add(Tanh(), "capped", scores), "softcap", op.softcap)
    if mask and mask[0]:
        scores = add(Add(), "masked", scores, mask[0])
    mixed = add(MatMul(), "mixed", add(Softmax(3), "shares", scores), v)
    ordered = add(Transpose(_HEADS_FIRST), "steps", mixed)
    shape = rewriter.types[node.output].shape
    found.append(Node(Reshape(shape), node.name, (ordered,), node.outputs))
    return found
