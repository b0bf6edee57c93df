"""How processors multiply bytes: which instructions the weights allow.

`pmaddubsw` multiplies unsigned bytes with signed ones and adds pairs in int16, which saturates. So
there are three ways, each with words in the vocabulary:

    unsigned  dot4u: numbers of the input as they are, or plus 128. For weights of which no pair can
              exceed int16 with the largest input; always with VNNI, which sums in int32
    signed    dot4: signs of the input move to the weights, for weights from -127 to 127
    wide      dot4w: both become int16, for all others

The number added to the input is compensated in the initial sums.

Arm multiplies signed bytes: two rows at once with SMMLA, one with SDOT, which both sum in int32, or
two products in int16 (smull, smlal) that are then added to the sums. Those fit for weights from
-127 to 127; for others each product is added alone (wide). Unsigned inputs become signed.

Processors of 32 bits without vectors multiply number by number. All ways compute the same sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Clip, HardSigmoid, Relu, Sigmoid, Sub
from cannery.ops.movement.op import Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise
from cannery.ops.quantized.groups import FLIP, Way, is_single
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.resize.op import Resize
from cannery.target.isa import Isa

_MOVES = (Reshape, Transpose, Identity, Slice, Resize, QuantizedMaxPool, Concat)


def choose_way(graph: Graph, value: str, w: NDArray[Any], isa: Isa, rows: int = 1) -> Way:
    """The way for an input and the packed weights w[K,N], K in whole groups, in tiles of this many
    rows and vectors of four.
    """
    dtype = graph.types[value].dtype
    x86, lane = isa.family == "x86", isa.has("lane_fma")
    if is_single(isa):
        return Way("", single=True)
    if dtype not in BYTES:
        return Way("dot", reload=x86, lane=lane)
    if graph.weights_vary:  # any that there may be; those that `quantize` makes are symmetric
        w = np.full_like(w, -127 if graph.quantization else -128)
    signed = dtype is DType.INT8
    if x86:
        low, high = value_range(graph, value)
        flip = low < 0
        fits = isa.has("dot4_u8s8") or (
            isa.has("dot2_s16") and pairs_fit(w, high + FLIP if flip else high)
        )
        if fits:
            return Way("dot4u", flip, reload=isa.widest > 4)
    if isa.has("mmla") and rows > 1:
        return Way("mmla", not signed, lane=lane, matrix=True)
    narrow = x86 or (lane and not isa.has("dot4_u8s8"))  # pairs of products are int16
    if narrow and w.size and w.min() == -128:
        return Way("dot4w", not signed, lane=lane)
    return Way("dot4", not signed, reload=x86 and isa.widest == 8, lane=lane)


def pairs_fit(w: NDArray[Any], largest: int) -> bool:
    """Whether neighbouring products of w[K,N] with inputs from 0 to `largest` add up in int16."""
    pairs = w.astype(np.int64).reshape(-1, 2, w.shape[-1])
    up = np.maximum(pairs, 0).sum(axis=1).max(initial=0) * largest
    down = np.minimum(pairs, 0).sum(axis=1).min(initial=0) * largest
    info = np.iinfo(np.int16)
    return bool(up <= info.max and down >= info.min)


def value_range(graph: Graph, value: str) -> tuple[int, int]:
    """Bounds of the integers that a value may hold, from the node that computes it."""
    node, info = graph.producer(value), np.iinfo(graph.types[value].dtype.value)
    if node is None or value in graph.constants:
        return int(info.min), int(info.max)
    while isinstance(node.op, _MOVES) and len(node.inputs) == 1:
        value = node.inputs[0]
        source = graph.producer(value)
        if source is None or value in graph.constants:
            return value_range(graph, value)
        node = source
    if isinstance(node.op, _MOVES):
        found = [value_range(graph, i) for i in node.inputs]
        return min(low for low, _ in found), max(high for _, high in found)
    if isinstance(node.op, Pad) and node.op.mode == "constant":
        low, high = value_range(graph, node.inputs[0])
        return min(low, int(node.op.value)), max(high, int(node.op.value))
    if isinstance(node.op, QuantizedProduct) and node.op.held is not None:
        return node.op.held
    if isinstance(node.op, ByteTable) and node.inputs[1] in graph.constants:
        entries = graph.constants[node.inputs[1]]
        return int(entries.min()), int(entries.max())
    bound = int(getattr(node.op, "bound", 0))
    if not bound:
        return int(info.min), int(info.max)
    return (0 if _is_positive(graph, node) else -bound), bound


def _is_positive(graph: Graph, node: Node) -> bool:
    """Whether a result is never negative: because of its activation, or as a mean or sum of such
    values.
    """
    op = node.op
    if isinstance(op, QuantizedAveragePool):
        return value_range(graph, node.inputs[0])[0] >= op.x_zero
    if not isinstance(op, QuantizedProduct | QuantizedElementwise):
        return False
    if op.activation:
        last = op.activation[-1]
        clipped = isinstance(last, Clip) and last.minimum >= 0
        return clipped or isinstance(last, Relu | Sigmoid | HardSigmoid)
    if not isinstance(op, QuantizedElementwise) or isinstance(op.op, Sub):
        return False
    parts = zip(node.inputs, (op.a, op.b), strict=True)
    return all(_least(graph, value) >= scaled.zero for value, scaled in parts)


def _least(graph: Graph, value: str) -> int:
    """The lower bound of an operand of a sum; sums of sums are not followed, as there may be
    many.
    """
    node = graph.producer(value)
    if node is not None and isinstance(node.op, QuantizedElementwise) and not node.op.activation:
        return int(np.iinfo(graph.types[value].dtype.value).min)
    return value_range(graph, value)[0]
