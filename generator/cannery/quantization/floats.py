"""The layers of a quantised network that compute with floats, and why."""

from __future__ import annotations

from cannery.ir.graph import FloatLayer, Graph, Node
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import (
    Abs,
    Add,
    Ceil,
    Clip,
    Floor,
    LeakyRelu,
    Max,
    Min,
    Mul,
    Neg,
    Relu,
    Round,
    Sign,
    Square,
    Sub,
)
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.indexing.masks import OneHot, ReverseSequence, Trilu
from cannery.ops.indexing.scatter import ScatterElements, ScatterND, TensorScatter
from cannery.ops.logic.compare import Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import TopK
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.reduce.op import ReduceMax, ReduceMin
from cannery.ops.registry import Elementwise, Op
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.quantization import dense, recurrent
from cannery.quantization.calibration import Observed
from cannery.quantization.means import why_no_mean, why_no_sum

#: What moves numbers, or is defined to the last bit anyway.
MOVING = (
    Cast, Concat, DequantizeLinear, Expand, Gather, GatherElements, GatherND, Identity, MaxPool,
    OneHot, Pad, QuantizeLinear, QuantizedOp, ReduceMax, ReduceMin, Reshape, ReverseSequence,
    ScatterElements, ScatterND, Slice, TensorScatter, TopK, Transpose, Trilu, Where,
)  # fmt: skip

#: What every processor rounds once, to the same bits.
ROUNDED_ONCE = (
    Abs, Add, Ceil, Clip, Floor, LeakyRelu, Max, Min, Mul, Neg, Relu, Round, Sign, Square, Sub,
)  # fmt: skip


def float_layers(graph: Graph, made: Graph, seen: Observed, dtype: DType) -> tuple[FloatLayer, ...]:
    """The nodes of a float graph that compute as before in what was made of it.

    Of a layer that became several nodes (`name`, `name/relu`) the first one.
    """
    before = {node.name: node for node in graph.nodes}
    found: list[FloatLayer] = []
    for node in made.nodes:
        same = before.get(node.name)
        if same is None or same.op != node.op or not _computes_floats(made, node):
            continue
        if any(node.name.startswith(f"{layer.name}/") for layer in found):
            continue
        reason = _reason(graph, seen, dtype, same)
        found.append(FloatLayer(node.name, reason, not isinstance(node.op, ROUNDED_ONCE)))
    return tuple(found)


def _computes_floats(graph: Graph, node: Node) -> bool:
    """Whether a node makes new floats, of values that are not constant."""
    if isinstance(node.op, MOVING) or _is_nearest(node.op):
        return False
    return any(graph.types[v].dtype is DType.FLOAT32 for v in node.outputs)


def _is_nearest(op: Op) -> bool:
    return isinstance(op, Resize) and op.mode == "nearest"


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
        reason = f"{op.kind} is not alone behind an integer layer"
    return reason or f"{op.kind} has no integer form"
