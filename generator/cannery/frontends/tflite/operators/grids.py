"""Numbers that become one of a few: bins, and floats that are rounded as quantised ones will be."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Clip, Floor, Mul, Sub
from cannery.ops.logic.compare import GreaterOrEqual
from cannery.ops.movement.op import Cast
from cannery.ops.reduce.op import ReduceSum

#: Most pairs of elements and boundaries.
_MOST = 2**24


@operator("BUCKETIZE")
def bucketize(scope: Scope) -> str:
    """How many of the boundaries, which ascend, are at most each element, as int32."""
    x, boundaries = scope.input(0), scope.numbers("Boundaries")
    shape = scope.shape(x)
    if any(a > b for a, b in pairwise(boundaries)):
        raise ModelError(f"its boundaries {boundaries!r:.60} do not ascend")
    if scope.type(x).elements * len(boundaries) > _MOST:
        raise UnsupportedError(f"{len(boundaries)} boundaries for {shape} elements are too many")
    if scope.dtype(x) is not DType.FLOAT32:
        x = scope.node(Cast(DType.FLOAT32), [x], "floats")
    edges = scope.constant("boundaries", np.asarray(boundaries, np.float32))
    wide = scope.reshaped(x, (*shape, 1), "each")
    reached = scope.node(GreaterOrEqual(), [wide, edges], "reached")
    counts = scope.node(Cast(DType.INT32), [reached], "counts")
    return scope.node(ReduceSum((len(shape),)), [counts])


@dataclass(frozen=True)
class _Range:
    """The least number, the greatest one and the distance of those between, in float32."""

    low: np.float32
    high: np.float32
    unit: np.float32


def _nudged(low: float, high: float, bits: int) -> _Range:
    """A range, moved so that 0 is one of its numbers: NudgeQuantizationRange of LiteRT."""
    last = np.float32(2**bits - 1)
    unit = (np.float32(high) - np.float32(low)) / last
    zero = np.clip(np.floor(np.float32(0.5) - np.float32(low) / unit), np.float32(0.0), last)
    return _Range(-zero * unit, (last - zero) * unit, unit)


@operator("FAKE_QUANT")
def fake_quant(scope: Scope) -> str:
    """The nearest number of a range that has as many as integers of some bits; halves go up."""
    low, high = scope.number("Min"), scope.number("Max")
    bits = scope.integer("NumBits")
    if not (low < high and low <= 0.0 <= high and 2 <= bits <= 16):
        raise ModelError(f"{bits} bits for numbers from {low:g} to {high:g}")
    if scope.flag("NarrowRange"):
        raise UnsupportedError("without the least number (NarrowRange) it is not supported")
    span = _nudged(low, high, bits)
    inside = scope.node(Clip(float(span.low), float(span.high)), [scope.input(0)], "inside")
    above = scope.node(Sub(), [inside, scope.scalar("low", float(span.low))], "above")
    inverse = scope.scalar("inverse", float(np.float32(1.0) / span.unit))
    steps = scope.node(Mul(), [above, inverse], "steps")
    # Not the floor of x + 0.5, which may be rounded up.
    floor = scope.node(Floor(), [steps], "floor")
    rest = scope.node(Sub(), [steps, floor], "rest")
    up = scope.node(GreaterOrEqual(), [rest, scope.scalar("half", 0.5)], "up")
    whole = scope.node(Add(), [floor, scope.node(Cast(DType.FLOAT32), [up], "one")], "whole")
    scaled = scope.node(Mul(), [whole, scope.scalar("unit", float(span.unit))], "scaled")
    return scope.node(Add(), [scaled, scope.scalar("begin", float(span.low))])
