"""The layers of a quantised network that compute with floats, and why."""

from __future__ import annotations

from cannery.ir.graph import FloatLayer, Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.same_bits import layers_of_floats
from cannery.ops.softmax.op import Softmax
from cannery.quantization import dense, recurrent
from cannery.quantization.calibration import Observed
from cannery.quantization.means import why_no_mean, why_no_sum


def float_layers(graph: Graph, made: Graph, seen: Observed, dtype: DType) -> tuple[FloatLayer, ...]:
    """The nodes that compute with floats in the quantised form of a float graph.

    A layer of the model that became several nodes has several names: `name`, `name/relu`.
    """
    before = {node.name: node for node in graph.nodes}

    def reason(node: Node) -> str:
        same = before.get(node.name)
        new = same is None or same.op != node.op
        return _no_form(node) if new else _reason(graph, seen, dtype, same or node)

    return layers_of_floats(made, reason)


def _reason(graph: Graph, seen: Observed, dtype: DType, node: Node) -> str:
    """Why a node computes with floats."""
    op, reason = node.op, ""
    if isinstance(op, Lstm | Gru | Rnn):
        reason = recurrent.why_float(graph, node)
    elif isinstance(op, MatMul | Conv):
        reason = dense.why_float(graph, seen, dtype, node)
    elif isinstance(op, Softmax):
        reason = "it is not along the last axis, or too long"
    else:
        reason = why_no_mean(graph, seen, node) or why_no_sum(graph, seen, node)
    if not reason and isinstance(op, Elementwise) and len(node.inputs) == 1 and dense.joins(op):
        reason = f"no integer layer can take in {op.kind} here"
    return reason or _no_form(node)


def _no_form(node: Node) -> str:
    return f"{node.op.kind} has no integer form"
