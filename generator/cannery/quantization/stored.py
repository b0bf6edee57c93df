"""What a graph with QuantizeLinear and DequantizeLinear stores as integers.

Activations have one constant scale and zero point; weights one per output channel or one for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Array, Node
from cannery.ir.numeric import F64
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Identity, Reshape, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import F32, STORED
from cannery.ops.quantized.elementwise import Scaled

_MOVES = (Reshape, Transpose, Identity)


@dataclass(frozen=True)
class Stored:
    """An activation as integers: the name of that value, its type, and what the numbers mean."""

    name: str
    dtype: DType
    scaled: Scaled


@dataclass(frozen=True)
class Weights:
    """Integers minus their zero point, and the scale [N] of each output channel, the last axis."""

    integers: NDArray[np.int64]
    scale: F32


def scaled(rewriter: Rewriter, node: Node) -> Scaled | None:
    """The scale and zero point of a (De)QuantizeLinear, if both are single, constant and sound."""
    _, scale, zero = (rewriter.constants.get(i) for i in node.inputs)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    factor = float(scale.item())
    return Scaled(factor, int(zero.item())) if 0.0 < factor < np.inf else None


def stored(rewriter: Rewriter, value: str) -> Stored | None:
    """The integers from which a float value is read, if any."""
    node = rewriter.producer(value)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    source, facts = node.inputs[0], scaled(rewriter, node)
    dtype = rewriter.types[source].dtype
    if facts is None or dtype not in STORED or source in rewriter.constants:
        return None
    return Stored(source, dtype, facts)


def quantised_to(rewriter: Rewriter, node: Node | None) -> tuple[DType, Scaled] | None:
    """The type, scale and zero point that a QuantizeLinear makes of floats."""
    if node is None or not isinstance(node.op, QuantizeLinear):
        return None
    facts, dtype = scaled(rewriter, node), rewriter.types[node.output].dtype
    floats = rewriter.types[node.inputs[0]].dtype is DType.FLOAT32
    return (dtype, facts) if facts and floats and dtype in STORED else None


def known(rewriter: Rewriter, value: str) -> Array | None:
    """A constant, or what nodes compute from constants alone: floats in float32."""
    if value in rewriter.constants:
        return rewriter.constants[value]
    node = rewriter.producer(value)
    if node is None or not isinstance(node.op, (*_MOVES, QuantizeLinear, DequantizeLinear)):
        return None
    inputs = [known(rewriter, i) for i in node.inputs]
    if any(i is None for i in inputs):
        return None
    (result,) = node.op.reference(*inputs)
    return np.asarray(result, rewriter.types[value].dtype.numpy)


def weights(rewriter: Rewriter, value: str) -> Weights | None:
    """Constant weights with the output channels in the last axis, if they are scaled integers."""
    moves: list[Node] = []
    node = rewriter.producer(value)
    while node is not None and isinstance(node.op, _MOVES):
        moves.append(node)
        node = rewriter.producer(node.inputs[0])
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    arrays = [known(rewriter, i) for i in node.inputs]
    if any(a is None for a in arrays):
        return None
    x, scale, zero = (np.asarray(a) for a in arrays)
    parts: list[NDArray[Any]] = [
        x.astype(np.int64) - zero.astype(np.int64), np.broadcast_to(scale, x.shape)
    ]  # fmt: skip
    for move in reversed(moves):
        parts = [np.asarray(move.op.reference(part)[0]) for part in parts]
    return _by_channel(*parts)


def _by_channel(integers: NDArray[Any], scale: NDArray[Any]) -> Weights | None:
    """None unless each output channel has one scale, a positive number."""
    if not integers.size or integers.ndim < 1:
        return None
    rows = scale.reshape(-1, scale.shape[-1])
    sound = np.isfinite(rows[0]).all() and (rows[0] > 0).all() and (rows == rows[0]).all()
    return Weights(integers, rows[0].astype(np.float32)) if sound else None


def integer_bias(rewriter: Rewriter, value: str, scale: F64) -> NDArray[np.int64] | None:
    """A bias [N] as integers in units of `scale`, if it is stored that way."""
    node = rewriter.producer(value)
    while node is not None and isinstance(node.op, _MOVES):
        value = node.inputs[0]
        node = rewriter.producer(value)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    x, unit, zero = (known(rewriter, i) for i in node.inputs)
    if x is None or unit is None or zero is None or x.dtype != np.int32 or zero.any():
        return None
    close = np.allclose(unit.astype(np.float64), scale, rtol=1e-6, atol=0.0)
    flat = x.reshape(-1)
    return flat.astype(np.int64) if close and flat.shape == scale.shape else None
