"""Operators that draw random numbers, from where the option NOISE says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.multinomial import multinomial as draw_classes
from cannery.frontends.noise import NoNoiseError
from cannery.frontends.onnx.operators.arithmetic import element_type
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import combined
from cannery.frontends.onnx.operators.movement import as_type
from cannery.frontends.onnx.operators.values import (
    Constant,
    Value,
    check_size,
    filled,
    supported,
    unsupported_elements,
)
from cannery.ir.tensor import DType
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.logic.compare import GreaterOrEqual, Less, Where
from cannery.ops.random.op import Draw, DrawNormal, DrawUniform
from cannery.option_values import MEAN

#: The share of elements that Dropout drops by default.
_RATIO = 0.5


@operator("RandomNormal", "RandomNormalLike")
def random_normal(scope: Scope) -> Value:
    """Of a mean and a standard deviation."""
    mean, scale = scope.number("mean", 0.0), scope.number("scale", 1.0)
    shape = _shape(scope)
    if scope.noise == MEAN:
        return filled(shape, mean, np.float32, scope.name)
    return _line(scope, _drawn(scope, DrawNormal, shape), scale, mean)


@operator("RandomUniform", "RandomUniformLike")
def random_uniform(scope: Scope) -> Value:
    """Between two numbers."""
    low, high = scope.number("low", 0.0), scope.number("high", 1.0)
    shape = _shape(scope)
    if scope.noise == MEAN:
        return filled(shape, (low + high) / 2, np.float32, scope.name)
    return _line(scope, _drawn(scope, DrawUniform, shape), high - low, low)


def _shape(scope: Scope) -> tuple[int, ...]:
    """The shape of an operator, which may be that of its input. Its elements have to be floats."""
    scope.ignore("seed")  # what a seed means is another thing in each runtime
    if scope.kind.endswith("Like"):
        like = scope.input(0)
        shape, own = like.shape, scope.dtype(like)
    else:
        shape, own = scope.integers("shape"), "float32"
    name = element_type(scope.integer("dtype")).name if scope.has("dtype") else own
    if supported(name) is not DType.FLOAT32:
        raise unsupported_elements(name)
    check_size(shape)
    return shape


def _drawn(scope: Scope, kind: type[Draw], shape: Sequence[int]) -> Value:
    return scope.result(scope.drawn(kind, shape))


def _line(scope: Scope, x: Value, factor: float, offset: float) -> Value:
    """X * factor + offset."""
    if factor != 1.0:
        x = combined(scope, Mul(), x, Constant(np.asarray(factor, np.float32)), "scaled")
    if offset != 0.0:
        x = combined(scope, Add(), x, Constant(np.asarray(offset, np.float32)), "moved")
    return x


@operator("Bernoulli")
def bernoulli(scope: Scope) -> Value:
    """1 with the probability that the input says, else 0; for MEAN the likelier, 1 if both are."""
    scope.ignore("seed")
    p = scope.input(0)
    own = scope.dtype(p)
    dtype = supported(element_type(scope.integer("dtype")).name if scope.has("dtype") else own)
    if scope.noise == MEAN:
        half = Constant(np.asarray(0.5, np.float32))
        drawn: Value = combined(scope, GreaterOrEqual(), p, half, "likely")
    else:
        drawn = combined(scope, Less(), _drawn(scope, DrawUniform, p.shape), p, "below")
    return as_type(scope, drawn, dtype, "")


@operator("Multinomial")
def multinomial(scope: Scope) -> Value:
    """Classes by the logarithms of their probabilities, [batch, classes]."""
    scope.ignore("seed")
    x = scope.input(0)
    dtype = supported(element_type(scope.integer("dtype", 6)).name)
    count = scope.integer("sample_size", 1)
    if dtype not in (DType.INT32, DType.INT64):
        raise ModelError(f"dtype {dtype.value} is not int32 or int64")
    if len(x.shape) != 2 or x.shape[1] < 1 or count < 1:
        raise ModelError(f"draws {count} of a tensor {x.shape}, which is not [batch, classes]")
    check_size((*x.shape, count))
    return scope.result(draw_classes(scope, scope.plain(x), count, dtype))


def _mode_of_training(scope: Scope) -> str:
    """The option NOISE; its error says that there is another way."""
    try:
        return scope.noise
    except NoNoiseError as error:
        error.what = "is in training mode, so it draws random numbers"
        error.cure = f"export the model for inference, or {error.cure}"
        raise


def _dropped(scope: Scope, x: Value, ratio: float) -> Sequence[Value]:
    """Dropout while a network is trained: zeros with probability `ratio`; the others grow."""
    if not 0.0 <= ratio < 1.0:
        raise ModelError(f"its ratio {ratio:g} is not from 0 to below 1")
    if scope.dtype(x) != "float32":
        raise UnsupportedError(f"of {scope.dtype(x)} is not supported")
    if _mode_of_training(scope) == MEAN:
        return [x, filled(x.shape, True, np.bool_, f"{scope.name}/mask")]
    least = Constant(np.asarray(ratio, np.float32))
    mask = combined(scope, GreaterOrEqual(), _drawn(scope, DrawUniform, x.shape), least, "mask")
    scaled = _line(scope, x, 1.0 / (1.0 - ratio), 0.0)
    zero = Constant(np.asarray(0.0, np.float32))
    names = [scope.plain(v) for v in (mask, scaled)]
    y = scope.result(scope.node(Where(), [*names, scope.plain(zero)]))
    return [y, mask]


@operator("Dropout")
def dropout(scope: Scope) -> Sequence[Value]:
    """The input itself, and a mask that keeps everything; but see `_dropped`."""
    scope.ignore("seed", "is_test")
    x = scope.input(0)
    training = scope.known(2, "its modes")
    if training is not None and bool(training.any()):
        given = scope.known(1, "its ratios")
        ratio = _RATIO if given is None else float(given.reshape(-1)[0])
        if ratio:
            return _dropped(scope, x, ratio)[: scope.outputs]
    scope.ignore("ratio")
    if scope.outputs < 2:
        return [x]
    return [x, filled(x.shape, True, np.bool_, f"{scope.name}/mask")]
