"""Functions of integers, as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.quantities import (
    Quantity,
    in_units,
    output_range,
    quantity,
    require_bytes,
    require_types,
)
from cannery.frontends.tflite.rescaled import centred, ratio, rescaled
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Abs, Gelu
from cannery.ops.fixed_point.arithmetic import away, by_factor, make_factor
from cannery.ops.fixed_point.exponential import softmax_factor, softmax_reach, softmax_table
from cannery.ops.fixed_point.hard_swish import hard_swish
from cannery.ops.fixed_point.inverse_root import inverse_roots
from cannery.ops.fixed_point.l2_norm import FixedL2Norm
from cannery.ops.fixed_point.log_softmax import FixedLogSoftmax
from cannery.ops.fixed_point.pointwise import FixedQuantize
from cannery.ops.fixed_point.short_softmax import (
    REACH,
    ShortSoftmax,
    exponentials,
    reciprocals,
)
from cannery.ops.fixed_point.softmax import FixedSoftmax
from cannery.ops.fixed_point.tables import ShortSigmoid, ShortTable, short_table, sigmoid_table
from cannery.ops.logic.compare import Less, Where
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.elementwise import ByteTable

_F32 = NDArray[np.float32]


@quantised("SOFTMAX")
def softmax(scope: Scope) -> str:
    """In fixed point; the scale of the result is as the kernels assume it."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    beta = scope.number("Beta", 1.0)
    if known is None or not beta > 0.0:
        raise UnsupportedError(f"a beta of {beta:g}")
    if known.dtype is DType.INT16:
        return _softmax_of_shorts(scope, known, y, beta)
    bits = 8 * y.dtype.bytes
    if (y.scale, y.zero) != (2.0**-bits, np.iinfo(y.dtype.value).min):
        raise UnsupportedError(f"the scale {y.scale:g} and zero point {y.zero} of its result")
    table = scope.constant("exponentials", softmax_table(known.scale, beta))
    return scope.node(FixedSoftmax(y.dtype), [scope.input(0), table])


@quantised("LOG_SOFTMAX")
def log_softmax(scope: Scope) -> str:
    """In fixed point; the scale of the result is as the kernels assume it."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    require_bytes(scope, 0)
    assert known is not None
    require_types(scope, known, y)
    if (y.scale, y.zero) != (2.0**-4, y.maximum):
        raise UnsupportedError(f"the scale {y.scale:g} and zero point {y.zero} of its result")
    factor = softmax_factor(known.scale)
    if not 1 <= factor.shift <= 30:
        raise UnsupportedError(f"the scale {known.scale:g} of its input")
    back = make_factor(2 ** (31 - factor.shift) / factor.multiplier)
    op = FixedLogSoftmax(factor, back, softmax_reach(factor))
    table = scope.constant("exponentials", softmax_table(known.scale, 1.0))
    return scope.node(op, [scope.input(0), table])


def _softmax_of_shorts(scope: Scope, known: Quantity, y: Quantity, beta: float) -> str:
    require_types(scope, known, y)
    if y.scale != 2.0**-15:
        raise UnsupportedError(f"the scale {y.scale:g} of its result")
    factor = make_factor(float(np.float32(known.scale) * np.float32(beta)) / (REACH / 65535))
    if factor.shift > 14:
        raise UnsupportedError(f"the scale {known.scale:g} of its input")
    tables = [
        scope.constant("exponentials", exponentials()),
        scope.constant("reciprocals", reciprocals()),
    ]
    return scope.node(ShortSoftmax(factor), [scope.input(0), *tables])


def _by_table(scope: Scope, function: Callable[[Quantity, Quantity], NDArray[np.float64]]) -> str:
    """A table of 256 results; `function` makes them, less the zero point, before clamping."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    require_bytes(scope, 0)
    assert known is not None
    if y.dtype not in (DType.INT8, DType.UINT8):
        raise UnsupportedError(f"from {known.dtype.value} to {y.dtype.value}")
    whole = np.nan_to_num(function(known, y), nan=0.0, posinf=2.0**31, neginf=-(2.0**31))
    entries = np.clip(whole + y.zero, y.minimum, y.maximum).astype(y.dtype.numpy)
    return scope.node(ByteTable(), [scope.input(0), scope.constant("table", entries)])


def _numbers(known: Quantity) -> NDArray[np.int64]:
    """All bytes in the order of tables, less their zero point."""
    stored = np.arange(256).astype(np.uint8).view(known.dtype.numpy)
    return np.asarray(stored.astype(np.int64) - known.zero)


_BOUNDS: Mapping[str, tuple[float, float]] = {
    "RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}  # fmt: skip


@quantised(*_BOUNDS)
def relu(scope: Scope) -> str:
    """Rescaled, then clamped."""
    low, high = _BOUNDS[scope.kind]
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is not None and known.dtype is DType.INT16:
        if scope.kind != "RELU":
            raise UnsupportedError("on int16 it is not supported")
        require_types(scope, known, y)
        return rescaled(
            scope, centred(scope, 0), ratio(known.scale, over=y.scale), replace(y, minimum=0)
        )

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        found = by_factor(_numbers(known), make_factor(ratio(known.scale, over=y.scale)))
        least, most = (in_units(b, y.scale) for b in (low, high))
        return np.clip(found.astype(np.float64), least, most)

    return _by_table(scope, function)


@quantised("LEAKY_RELU")
def leaky_relu(scope: Scope) -> str:
    """Two factors."""
    alpha = scope.number("Alpha")
    if alpha < 0.0:
        raise UnsupportedError(f"an alpha of {alpha:g}")
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is not None and known.dtype is DType.INT16:
        return _leaky_of_shorts(scope, known, y, alpha)

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        x = _numbers(known)
        above = by_factor(x, make_factor(ratio(known.scale, over=y.scale)))
        below = by_factor(x, make_factor(ratio(known.scale, alpha, over=y.scale)))
        return np.where(x >= 0, above, below).astype(np.float64)

    return _by_table(scope, function)


def _leaky_of_shorts(scope: Scope, known: Quantity, y: Quantity, alpha: float) -> str:
    require_types(scope, known, y)
    x = centred(scope, 0)
    above = rescaled(scope, x, ratio(known.scale, over=y.scale), y, "above")
    below = rescaled(scope, x, ratio(known.scale, alpha, over=y.scale), y, "below")
    nothing = scope.constant("nothing", np.asarray(0, np.int32))
    negative = scope.node(Less(), [x, nothing], "negative")
    return scope.node(Where(), [negative, below, above])


@quantised("ABS")
def absolute(scope: Scope) -> str:
    """The distance from the zero point, rescaled."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is None or known.dtype is DType.UINT8:
        raise UnsupportedError("on uint8 it is not supported")
    require_types(scope, known, y)
    factor = make_factor(ratio(known.scale, over=y.scale))
    if known.dtype is DType.INT8:
        return _by_table(
            scope, lambda a, b: by_factor(np.abs(_numbers(a)), factor).astype(np.float64)
        )
    size = scope.node(Abs(), [centred(scope, 0)], "size")
    return rescaled(scope, size, ratio(known.scale, over=y.scale), y)


@quantised("LOGISTIC", "TANH")
def sigmoid(scope: Scope) -> str:
    """Of bytes by a table; of int16 by a table of 256 sigmoids."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is None or known.dtype is not DType.INT16:
        return _function_of_bytes(scope)
    require_types(scope, known, y)
    if y.scale != 2.0**-15:
        raise UnsupportedError(f"the scale {y.scale:g} of its result")
    tanh = scope.kind == "TANH"
    multiplier, shift = sigmoid_factor(known.scale, tanh)
    table = scope.constant("sigmoids", sigmoid_table())
    return scope.node(ShortSigmoid(multiplier, shift, tanh), [scope.input(0), table])


def sigmoid_factor(scale: float, tanh: bool) -> tuple[int, int]:
    """The factor that makes units of 2^-12 / 3: 3 or 6 for powers of two, else of 15 bits."""
    for more in range(2 if tanh else 1):
        if scale == 2.0 ** (more - 12):
            return 3 << more, 0
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    if factor >= 2**15:
        raise UnsupportedError(f"the scale {scale:g} of its input")
    return int(factor), shift


def _in_float64(function: Callable[[Any], Any]) -> Callable[[_F32], _F32]:
    """A function of floats, rounded once."""
    return lambda x: np.asarray(function(np.asarray(x, np.float64)), np.float32)


_EXP = _in_float64(np.exp)
_FUNCTIONS: Mapping[str, Callable[[_F32], _F32]] = {
    "LOGISTIC": lambda x: np.float32(1) / (np.float32(1) + _EXP(-x)),
    "TANH": _in_float64(np.tanh),
    "ELU": lambda x: np.where(x < 0, _in_float64(np.expm1)(x), x),
    "EXP": _EXP,
    "GELU": _in_float64(lambda x: Gelu().reference(x)[0]),
}


@quantised("ELU", "EXP", "GELU")
def function_of_floats(scope: Scope) -> str:
    """In float32, as the kernels make their tables."""
    if scope.kind == "GELU" and scope.flag("Approximate"):
        raise UnsupportedError("its approximation is not supported on integers")
    known = quantity(scope, 0)
    if scope.kind == "EXP" and known is not None and known.dtype is DType.INT16:
        return _by_short_table(scope, _EXP)
    return _function_of_bytes(scope)


def _function_of_bytes(scope: Scope, function: Callable[[_F32], _F32] | None = None) -> str:
    of_floats = function or _FUNCTIONS[scope.kind]

    def entries(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            x = _numbers(known).astype(np.float32) * np.float32(known.scale)
            return away(of_floats(x) * (np.float32(1) / np.float32(y.scale)))

    return _by_table(scope, entries)


@quantised("LOG", "RSQRT")
def function_of_positive_floats(scope: Scope) -> str:
    """By tables; numbers that are not positive give the least result, or the largest one."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is None or known.dtype is DType.UINT8:
        raise UnsupportedError("on uint8 it is not supported")
    require_types(scope, known, y)
    if scope.kind == "RSQRT" and known.dtype is DType.INT8:
        factor = make_factor(1.0 / float(np.sqrt(np.float32(known.scale)) * np.float32(y.scale)))
        return _by_table(scope, lambda a, b: inverse_roots(_numbers(a), factor))
    bound = y.minimum if scope.kind == "LOG" else y.maximum
    instead = np.float32(bound - y.zero) * np.float32(y.scale)
    root = _in_float64(np.sqrt)
    of = _in_float64(np.log) if scope.kind == "LOG" else lambda x: np.float32(1) / root(x)

    def function(x: _F32) -> _F32:
        with np.errstate(all="ignore"):
            return np.asarray(np.where(x <= 0, instead, of(x)), np.float32)

    short = known.dtype is DType.INT16
    return _by_short_table(scope, function) if short else _function_of_bytes(scope, function)


def _by_short_table(scope: Scope, function: Callable[[_F32], _F32]) -> str:
    """Of int16, by a table of 513 entries."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    assert known is not None
    require_types(scope, known, y)
    low, high = (np.float32(known.scale) * np.float32(bound) for bound in (-32768, 32767))
    table = scope.constant("table", short_table(function, low, high, y.scale))
    return scope.node(ShortTable(), [scope.input(0), table])


@quantised("HARD_SWISH")
def hard_swish_of_bytes(scope: Scope) -> str:
    """In fixed point; the kernels take no result whose unit is much smaller than the input's."""

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        if make_factor(known.scale / 128 / y.scale).shift > 0:
            raise UnsupportedError("the scale of its result is too small for its input")
        return hard_swish(_numbers(known), known.scale, y.scale).astype(np.float64)

    return _by_table(scope, function)


@quantised("QUANTIZE")
def quantize(scope: Scope) -> str:
    """Of floats, or from one scale to another."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is None:
        op = FixedQuantize(*y.bounds, y.scale)
        return scope.node(op, [scope.input(0)])
    factor = make_factor(known.scale / y.scale)
    if known.dtype is not DType.INT16 and y.dtype is not DType.INT16:
        return _by_table(scope, lambda a, b: by_factor(_numbers(a), factor).astype(np.float64))
    return rescaled(scope, centred(scope, 0), known.scale / y.scale, y)


@quantised("DEQUANTIZE")
def dequantize(scope: Scope) -> str:
    """To floats; a constant may have a scale for each index of an axis."""
    tensor = scope.tensor(0)
    found = tensor.scales
    if found is None or tensor.is_variable:
        raise UnsupportedError("its input has no scale")
    x = scope.input(0)
    shape = [1] * scope.rank(x)
    if not found.single:
        if not 0 <= found.axis < len(shape) or found.scales.size != scope.shape(x)[found.axis]:
            raise ModelError(f"{found.scales.size} scales along axis {found.axis}")
        shape[found.axis] = found.scales.size
    zeros = found.zeros.astype(scope.dtype(x).numpy)
    if not np.array_equal(zeros, found.zeros):
        raise ModelError(f"a zero point is not {scope.dtype(x).value}")
    scales = found.scales.reshape(shape if not found.single else ())
    parts = [
        scope.constant("scale", scales), scope.constant("zero", zeros.reshape(scales.shape))
    ]  # fmt: skip
    return scope.node(DequantizeLinear(), [x, *parts])


@quantised("L2_NORMALIZATION")
def l2_normalization(scope: Scope) -> str:
    """Along the last axis; the scale of the result is as the kernels assume it."""
    known, y = quantity(scope, 0), output_range(scope)
    require_bytes(scope, 0)
    assert known is not None
    zero = 128 if y.dtype is DType.UINT8 else 0
    info = np.iinfo(y.dtype.value)
    if known.dtype is not y.dtype or (y.scale, y.zero) != (2.0**-7, zero):
        raise UnsupportedError(f"the scale {y.scale:g} and zero point {y.zero} of its result")
    if (y.minimum, y.maximum) != (info.min, info.max):
        raise UnsupportedError("its activation of integers is not supported")
    return scope.node(FixedL2Norm(known.zero), [scope.input(0)])
