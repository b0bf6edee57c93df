"""The layers of a quantised network that compute with floats, and why."""

from __future__ import annotations

from cannery.ir.graph import FloatLayer, Graph, Node
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.same_bits import layers_of_floats
from cannery.ops.softmax.op import Softmax
from cannery.quantization import dense, recurrent
from cannery.quantization.draft import Draft
from cannery.quantization.means import READS_FLOATS, why_no_mean, why_no_sum


def float_layers(graph: Graph, made: Graph, draft: Draft) -> tuple[FloatLayer, ...]:
    """The nodes that compute with floats in the quantised form `made` of a float graph.

    A layer of the model that became several nodes has several names: `name`, `name/relu`.
    """
    before = {node.name: node for node in graph.nodes}

    def reason(node: Node) -> str:
        same = before.get(node.name)
        new = same is None or same.op != node.op
        return _no_form(node) if new else _reason(graph, draft, same or node)

    return layers_of_floats(made, reason)


def _reason(graph: Graph, draft: Draft, node: Node) -> str:
    """Why a node computes with floats."""
    op, reason, seen, dtype = node.op, "", draft.seen, draft.dtype
    if isinstance(op, Lstm | Gru | Rnn):
        reason = recurrent.why_float(graph, node)
    elif isinstance(op, MatMul | Conv):
        reason = dense.why_float(graph, seen, dtype, node)
    elif isinstance(op, Softmax):
        reason = "it is not along the last axis, or too long"
    elif node.name in draft.kept or node.outputs[0] in draft.flow.functions:
        reason = draft.kept.get(node.name, READS_FLOATS)
    else:
        reason = why_no_mean(graph, seen, node) or why_no_sum(graph, seen, node)
    return reason or _no_form(node)


def _no_form(node: Node) -> str:
    return f"{node.op.kind} has no integer form"
