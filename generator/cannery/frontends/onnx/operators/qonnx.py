"""QONNX's quantised numbers, as Brevitas, QKeras and HAWQ export them, and FINN's thresholds.

Numbers stay floats in such a file, and Quant makes each one of few. Where that means integers, it
becomes QuantizeLinear and DequantizeLinear: a form that the passes know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Build, Scope, operator
from cannery.frontends.onnx.operators.elementwise import aligned, apply, combined
from cannery.frontends.onnx.operators.values import Constant, Value
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import Clip
from cannery.ops.elementwise.binary import Add, Div, Max, Min, Mul, Sub
from cannery.ops.elementwise.unary import Ceil, Floor, Round
from cannery.ops.logic.compare import GreaterOrEqual, Where
from cannery.ops.quantize.grid import ROUNDINGS, Grid
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantize.thresholds import CountThresholds

_DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")

_Floats = NDArray[np.float32]

#: The operators for the ways to round.
_ROUNDING_OPS: dict[str, Op] = {"ROUND": Round(), "CEIL": Ceil(), "FLOOR": Floor()}

#: The types of integers, the smallest first, with their bounds.
_TYPES = {
    DType.INT8: (-128, 127), DType.UINT8: (0, 255), DType.INT16: (-(2**15), 2**15 - 1),
    DType.UINT16: (0, 2**16 - 1),
}  # fmt: skip

#: The most bits of a number.
_MOST_BITS = 32


def _general(*kinds: str) -> Callable[[Build], Build]:
    """Registers a function for operators of all names of the domain."""

    def register(build: Build) -> Build:
        for domain in _DOMAINS:
            operator(*kinds, domain=domain)(build)
        return build

    return register


@dataclass(frozen=True)
class _Range:
    """The least and the greatest integer."""

    low: int
    high: int

    @property
    def dtype(self) -> DType | None:
        """The smallest quantised type that holds them; None if there is none."""
        for dtype, (least, most) in _TYPES.items():
            if least <= self.low and self.high <= most and (least < 0) == (self.low < 0):
                return dtype
        return None


def _range(bits: int, *, signed: bool, narrow: bool) -> _Range:
    """The integers of so many bits; a narrow range has one less."""
    if signed:
        return _Range(-(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1)
    return _Range(0, 2**bits - 1 - narrow)


def _known(scope: Scope, index: int, what: str) -> _Floats:
    """A constant input of finite floats."""
    found = scope.known(index, what)
    if found is None or found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise ModelError(f"{what} are not finite numbers")
    return found.astype(np.float32)


def _scale(scope: Scope, index: int) -> _Floats:
    """A scale, positive everywhere."""
    found = _known(scope, index, "its scales")
    if (found < np.finfo(np.float32).tiny).any():
        raise ModelError("a scale is not positive")
    return found if len(np.unique(found)) != 1 else np.asarray(found.reshape(-1)[0])


def _bits(scope: Scope, index: int) -> int:
    """A number of bits."""
    found = _known(scope, index, "its numbers of bits").reshape(-1)
    if found.size != 1 or found[0] != int(found[0]) or not 1 <= found[0] <= _MOST_BITS:
        raise UnsupportedError(f"{found.tolist()!s:.40} bits; 1 to {_MOST_BITS} are supported")
    return int(found[0])


def _rounding(scope: Scope, default: str) -> str:
    """The way to round."""
    mode = scope.text("rounding_mode", default).upper()
    if mode not in ROUNDINGS:
        listed = ", ".join(ROUNDINGS)
        raise UnsupportedError(f"rounding {mode!r:.40} is not one of those supported: {listed}")
    return mode


@_general("Quant", "IntQuant")
def quant(scope: Scope) -> Value:
    """((the nearest integer to x / scale + zero, within a range) - zero) * scale."""
    x, scale, zero, bits = scope.input(0), _scale(scope, 1), _known(scope, 2, "its zeros"), 3
    width = _bits(scope, bits)
    signed, narrow = bool(scope.integer("signed", 1)), bool(scope.integer("narrow", 1))
    mode = _rounding(scope, "ROUND")
    if width == 1 and signed:
        moved = _moved(scope, x, scale, zero)
        return _restored(scope, _signs(scope, moved), scale, zero)
    limits = _range(width, signed=signed, narrow=narrow)
    if not zero.any() and mode == "ROUND" and limits.dtype is not None:
        return _linear(scope, x, scale, limits)
    op = Grid(float(np.float32(limits.low)), float(np.float32(limits.high)), mode)
    if isinstance(x, Constant):
        return Constant(np.asarray(op.value(x.array, scale, zero)), x.hint)
    return _nodes(scope, op, (x, Constant(scale), Constant(zero)), "")


def _linear(scope: Scope, x: Value, scale: _Floats, limits: _Range) -> Value:
    """Integers with a scale: by QuantizeLinear, or at once if x is known."""
    assert limits.dtype is not None
    zero = Constant(np.zeros((), limits.dtype.numpy))
    unit = Constant(scale)
    if isinstance(x, Constant):
        inside = np.clip(x.array.astype(np.float32) / scale, limits.low, limits.high)
        integers: Value = Constant(
            np.rint(inside).astype(limits.dtype.numpy), f"{scope.name}/integers"
        )
    else:
        x = _clipped(scope, x, scale, limits)
        integers = _nodes(scope, QuantizeLinear(), (x, unit, zero), "integers")
    return _nodes(scope, DequantizeLinear(), (integers, unit, zero), "")


def _clipped(scope: Scope, x: Value, scale: _Floats, limits: _Range) -> Value:
    """A tensor that rounds to integers of a range that is less than that of their type."""
    assert limits.dtype is not None
    least, most = _TYPES[limits.dtype]
    if scale.ndim == 0 and (limits.low > least or limits.high < most):
        low, high = (float(np.float32(v) * scale) for v in (limits.low, limits.high))
        return apply(scope, Clip(low, high), x, "clipped")
    if limits.low > least:
        x = _by(scope, Max(), np.maximum, x, limits.low * scale, "raised")
    if limits.high < most:
        x = _by(scope, Min(), np.minimum, x, limits.high * scale, "lowered")
    return x


def _nodes(scope: Scope, op: Op, values: tuple[Value, ...], label: str) -> Value:
    names, perm = aligned(scope, values)
    return scope.result(scope.node(op, names, label), perm)


def _moved(scope: Scope, x: Value, scale: _Floats, zero: _Floats) -> Value:
    """A tensor divided by its scale, plus its zero."""
    x = _by(scope, Div(), np.divide, x, scale, "scaled") if np.any(scale != 1) else x
    return _by(scope, Add(), np.add, x, zero, "moved") if zero.any() else x


def _restored(scope: Scope, x: Value, scale: _Floats, zero: _Floats) -> Value:
    """The inverse of `_moved`."""
    x = _by(scope, Sub(), np.subtract, x, zero, "centred") if zero.any() else x
    return _by(scope, Mul(), np.multiply, x, scale, "restored") if np.any(scale != 1) else x


def _limited(scope: Scope, x: Value, limits: _Range) -> Value:
    """A tensor within a range."""
    x = _by(scope, Max(), np.maximum, x, np.float32(limits.low), "raised")
    return _by(scope, Min(), np.minimum, x, np.float32(limits.high), "lowered")


def _rounded(scope: Scope, x: Value, mode: str, label: str) -> Value:
    """A tensor of whole numbers."""
    if isinstance(x, Constant):
        function, _ = ROUNDINGS[mode]
        return Constant(np.asarray(function(x.array.astype(np.float32))), x.hint)
    return apply(scope, _ROUNDING_OPS[mode], x, label)


def _by(
    scope: Scope, op: Op, function: Callable[..., _Floats], x: Value, y: object, label: str
) -> Value:
    """An operator with a known second operand: a node, or numpy's function in float32."""
    other = np.asarray(y, np.float32)
    if isinstance(x, Constant):
        return Constant(np.asarray(function(x.array.astype(np.float32), other)), x.hint)
    return combined(scope, op, x, Constant(other), label)


def _signs(scope: Scope, x: Value) -> Value:
    """1 where x >= 0, else -1, in floats."""
    if isinstance(x, Constant):
        array = x.array.astype(np.float32)
        return Constant(np.where(array >= 0, 1, -1).astype(np.float32), x.hint)
    positive = combined(scope, GreaterOrEqual(), x, Constant(np.asarray(0, np.float32)), "positive")
    both = tuple(Constant(np.asarray(v, np.float32)) for v in (1, -1))
    return _nodes(scope, Where(), (positive, *both), "signs")


@_general("BipolarQuant")
def bipolar_quant(scope: Scope) -> Value:
    """The scale where x >= 0, else minus the scale."""
    x, scale = scope.input(0), _known(scope, 1, "its scales")
    zero = np.zeros((), np.float32)
    return _restored(scope, _signs(scope, x), scale, zero)


@_general("Trunc")
def trunc(scope: Scope) -> Value:
    """Integers of a scale without their last bits, as floats.

    Of the first version, with five inputs, the last ones are the bits before and after, and the
    result has the scale that x had. Otherwise there are the scale, zero and bits of the result.
    """
    x, scale, zero = scope.input(0), _scale(scope, 1), _known(scope, 2, "its zeros")
    mode = _rounding(scope, "FLOOR")
    if scope.count <= 5:
        before, after = _bits(scope, 3), _bits(scope, 4)
        if after > before:
            raise ModelError(f"{before} bits become {after}")
        factor, result, limits = np.float32(2.0 ** (before - after)), scale, None
        new_zero = zero
    else:
        result = _scale(scope, 4)
        factor = np.exp2(np.rint(np.log2(result / scale))).astype(np.float32)
        signed, narrow = bool(scope.integer("signed", 1)), bool(scope.integer("narrow", 0))
        limits = _range(_bits(scope, 6), signed=signed, narrow=narrow)
        new_zero = np.asarray(zero / factor, np.float32)
    whole = _rounded(scope, _moved(scope, x, scale, zero), "ROUND", "whole")
    short = _by(scope, Div(), np.divide, whole, factor, "shorter")
    short = short if limits is None else _limited(scope, short, limits)
    return _restored(scope, _rounded(scope, short, mode, "cut"), result, new_zero)


@_general("MultiThreshold")
def multi_threshold(scope: Scope) -> Value:
    """How many thresholds of its channel each element reaches, times a scale, plus a bias."""
    x, thresholds = scope.input(0), _known(scope, 1, "its thresholds")
    layout = scope.text("data_layout", "NCHW", ("NCHW", "NHWC"))
    scope.ignore("out_dtype")
    rank = len(x.shape)
    if not rank or thresholds.ndim != 2:
        raise ModelError(f"thresholds of shape {thresholds.shape} for {x.shape}")
    axis = 1 if rank == 2 or (rank == 4 and layout == "NCHW") else rank - 1
    name, perm = scope.as_is(x)
    known = scope.constant("thresholds", np.sort(thresholds, axis=1))
    count = scope.node(CountThresholds(perm.index(axis)), [name, known], "count")
    y: Value = scope.result(count, perm)
    factor, offset = scope.number("out_scale", 1.0), scope.number("out_bias", 0.0)
    y = _by(scope, Mul(), np.multiply, y, factor, "scaled") if factor != 1 else y
    return _by(scope, Add(), np.add, y, offset, "moved") if offset else y
