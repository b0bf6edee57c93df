"""Which operators every processor computes to the same bits, and for which layers it may differ.

This holds for finite inputs: NaN has several forms, and Arm v7's NEON treats subnormal numbers as
0.
"""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.graph import FloatLayer, Graph, Node
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import (
    Abs,
    Add,
    Ceil,
    Clip,
    Div,
    Floor,
    LeakyRelu,
    Max,
    Min,
    Mul,
    Neg,
    Relu,
    Round,
    Sign,
    Sqrt,
    Square,
    Sub,
)
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.indexing.masks import OneHot, ReverseSequence, Trilu
from cannery.ops.indexing.scatter import ScatterElements, ScatterND, TensorScatter
from cannery.ops.logic.compare import Where
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import TopK
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.random.op import Draw
from cannery.ops.reduce.op import ReduceMax, ReduceMin
from cannery.ops.resize.op import Resize
from cannery.ops.zeros import picking_zeros

#: Operators that only move numbers, or are defined to the last bit anyway.
MOVING = (
    Cast, Concat, DequantizeLinear, Draw, Expand, Gather, GatherElements, GatherND, Identity,
    MaxPool, OneHot, Pad, QuantizeLinear, QuantizedOp, ReduceMax, ReduceMin, Reshape,
    ReverseSequence, ScatterElements, ScatterND, Slice, TensorScatter, TopK, Transpose, Trilu,
    Where,
)  # fmt: skip

#: Operators that every processor rounds once, to the same bits.
ROUNDED_ONCE = (
    Abs, Add, Ceil, Clip, Div, Floor, LeakyRelu, Max, Min, Mul, Neg, Relu, Round, Sign, Sqrt,
    Square, Sub,
)  # fmt: skip


def differing_layers(graph: Graph) -> tuple[FloatLayer, ...]:
    """The layers of a finished network whose results may differ between processors, and why."""
    facts = graph.quantization
    if facts is not None:
        return tuple(layer for layer in facts.floats if layer.differs)
    found = layers_of_floats(graph, lambda node: "the model has it in floats")
    return tuple(layer for layer in found if layer.differs)


def layers_of_floats(graph: Graph, reason: Callable[[Node], str]) -> tuple[FloatLayer, ...]:
    """The nodes that compute with floats, and those that pick a zero."""
    picking = picking_zeros(graph, (*MOVING, *ROUNDED_ONCE))
    found: list[FloatLayer] = []
    for node in graph.nodes:
        picks = node.name in picking
        if _computes_floats(graph, node):
            differs = picks or not isinstance(node.op, ROUNDED_ONCE)
            found.append(FloatLayer(node.name, reason(node), differs))
        elif picks:
            found.append(FloatLayer(node.name, "it picks one of +0 and -0", differs=True))
    return tuple(found)


def _computes_floats(graph: Graph, node: Node) -> bool:
    """Whether a node makes new floats from values that are not constant."""
    if isinstance(node.op, MOVING) or _is_nearest(node.op):
        return False
    return any(graph.types[v].dtype is DType.FLOAT32 for v in node.outputs)


def _is_nearest(op: Op) -> bool:
    return isinstance(op, Resize) and op.mode == "nearest"
