"""Sums of products of integers, as TensorFlow Lite's reference kernels compute them.

Activations are bytes, or int16, whose sums may need more than 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.hybrid import hybrid
from cannery.frontends.tflite.operators.products import rows
from cannery.frontends.tflite.operators.windows import (
    check_image,
    check_kernel,
    depthwise_weight,
    groups,
    read_transposed,
    read_window,
    rearranged,
)
from cannery.frontends.tflite.phases import Phases
from cannery.frontends.tflite.quantities import Quantity, output_range, quantity, require_types
from cannery.frontends.tflite.rescaled import in_float64, rescaled, rescaled_wide
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Max, Min
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Transpose
from cannery.ops.quantize.products import ConvInteger, IntegerProduct, MatMulInteger
from cannery.ops.quantize.transposed import ConvTransposeInteger
from cannery.ops.window import Pads

#: Sums below these numbers are exact in int32, and may be rescaled in int64.
_NARROW, _WIDE = 2**31, 2**47


@quantised("CONV_2D")
def conv(scope: Scope) -> str:
    """x[N,H,W,IC], w[OC,H,W,IC/groups] with a scale for each output channel or for all."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    group = groups(scope, x, scope.shape(w)[3])
    geometry = (window.strides, window.pads, window.dilations, group)
    if quantity(scope, 0) is None:
        found = scope.tensor(1).scales
        array = scope.known(1, "its weights").transpose(1, 2, 3, 0)
        symmetric = found is not None and found.single
        return hybrid(scope, Conv(*geometry), x, array, scope.shape(x)[0], 0, symmetric=symmetric)
    weight = rearranged(scope, w, (1, 2, 3, 0))
    return _product(scope, ConvInteger(*geometry), _Operands(x, weight, 0))


@quantised("DEPTHWISE_CONV_2D")
def depthwise_conv(scope: Scope) -> str:
    """x[N,H,W,C], w[1,H,W,C*m] with a scale for each output channel or for all."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    scope.ignore("DepthMultiplier")
    weight = depthwise_weight(scope, w)
    geometry = (window.strides, window.pads, window.dilations, scope.shape(x)[-1])
    if quantity(scope, 0) is None:
        array = scope.known(1, "its weights").reshape(scope.shape(weight))
        return hybrid(scope, Conv(*geometry), x, array, scope.shape(x)[0], 3, symmetric=False)
    return _product(scope, ConvInteger(*geometry), _Operands(x, weight, 3))


@quantised("TRANSPOSE_CONV")
def transpose_conv(scope: Scope) -> str:
    """shape[4], w[OC,H,W,IC], x[N,H,W,IC], bias[OC]? -> y of that shape, in phases if possible."""
    strides, pads, more = read_transposed(scope)
    kernel = check_kernel(scope, scope.input(1))
    if quantity(scope, 2) is not None and Phases(kernel, strides).worthwhile:
        zeros, w = _weights(scope, 0).zeros, scope.array(scope.input(1))
        if zeros.size == 1 and w is not None:
            return _in_phases(scope, Phases(kernel, strides), w, int(zeros[0]), pads)
    weight = rearranged(scope, scope.input(1), (1, 2, 0, 3))
    op = ConvTransposeInteger(strides, pads, (1, 1), more)
    if quantity(scope, 2) is None:
        x, array = scope.input(2), scope.known(1, "its weights").transpose(1, 2, 0, 3)
        floats, rows = ConvTranspose(strides, pads, (1, 1), more), scope.shape(x)[0]
        return hybrid(scope, floats, x, array, rows, 0, symmetric=False, bias=3)
    return _product(scope, op, _Operands(scope.input(2), weight, 0, data=2, bias=3, channels=-2))


def _in_phases(scope: Scope, phases: Phases, w: Array, zero: int, pads: Pads) -> str:
    x, begins = scope.input(2), [begin for begin, _ in pads]
    _, *size, _ = scope.shape(x)
    out = scope.known_integers(0, "its shape")[1:3]
    weight = scope.constant("weight", phases.weight(w, zero))
    op = ConvInteger((1, 1), phases.window(size, begins, out), (1, 1), 1)
    y = _product(scope, op, _Operands(x, weight, 0, data=2, bias=3, repeats=phases.count))
    return phases.interleaved(scope, y, begins, out)


@quantised("FULLY_CONNECTED")
def fully_connected(scope: Scope) -> str:
    """x[...,K], w[N,K] with a scale for each row or for all."""
    x, w = scope.input(0), scope.input(1)
    if scope.rank(w) != 2:
        raise ModelError(f"its weights have the shape {scope.shape(w)}, expected two axes")
    if scope.integer("WeightsFormat"):
        raise UnsupportedError("its shuffled weights are not supported")
    asymmetric = scope.flag("AsymmetricQuantizeInputs")
    keep = scope.flag("KeepNumDims")
    flat = rows(scope, x, scope.shape(w)[1], keep=keep)
    weight = scope.node(Transpose((1, 0)), [w], "weight")
    if quantity(scope, 0) is None:
        shape = scope.shape(flat)
        flat = scope.reshaped(flat, (prod(shape[:-1]), shape[-1]), "vectors")
        count = scope.shape(flat)[0]
        array = scope.known(1, "its weights").T
        y = hybrid(scope, MatMul(), flat, array, count, 0, symmetric=not asymmetric)
        return scope.reshaped(y, (*shape[:-1], scope.shape(y)[-1]), "shape")
    return _product(scope, MatMulInteger(), _Operands(flat, weight, 0), dense=True)


@quantised("BATCH_MATMUL")
def batch_matmul(scope: Scope) -> str:
    """Two tensors of matrices, one scale for each; sums of int16 are in int64."""
    scope.ignore("AsymmetricQuantizeInputs")
    a, b = quantity(scope, 0), quantity(scope, 1)
    if a is None or b is None:
        raise UnsupportedError("floats times integers are not supported")
    y = output_range(scope, activation=False)
    require_types(scope, a, b, y)
    sides = []
    for index, flag in ((0, "AdjX"), (1, "AdjY")):
        value, rank = scope.input(index), scope.rank(scope.input(index))
        if rank < 2:
            raise ModelError(f"its input {index} has the shape {scope.shape(value)}")
        if scope.flag(flag):
            perm = (*range(rank - 2), rank - 1, rank - 2)
            value = scope.node(Transpose(perm), [value], f"turned{index}")
        sides.append(value)
    zeros = [
        scope.constant(f"zero{k}", np.asarray([each.zero], each.dtype.numpy))
        for k, each in enumerate((a, b))
    ]
    factor = np.asarray([a.scale * b.scale / y.scale])
    wide = a.dtype is DType.INT16
    sums = scope.node(MatMulInteger(wide=wide), [*sides, *zeros], "sums")
    return rescaled_wide(scope, sums, factor, y) if wide else rescaled(scope, sums, factor, y)


@dataclass(frozen=True)
class _Operands:
    """Values of a product: x and the weights in the order of its node. `axis` is that of channels
    in the file, `channels` in the node, which has them `repeats` times; `data` and `bias` are
    numbers of inputs in the file.
    """

    x: str
    w: str
    axis: int
    data: int = 0
    bias: int = 2
    channels: int = -1
    repeats: int = 1


def _product(scope: Scope, op: IntegerProduct, given: _Operands, *, dense: bool = False) -> str:
    """Sums of products, the bias, and what they are in units of the result.

    LiteRT's dense layers multiply with a float64; its convolutions round sums of 32 bits twice, and
    those of 64 bits, which int16 has unless its bias is of int32, by shorter factors.
    """
    scope.ignore("QuantizedBiasType")
    known, weight, y = quantity(scope, given.data), _weights(scope, given.axis), output_range(scope)
    assert known is not None
    _check_types(scope, known, y)
    bias, stored = _bias(scope, given), DType.INT32
    sums_of_16 = known.dtype is DType.INT16
    if sums_of_16 and (bias is None or bias.dtype == np.int64):
        stored = DType.INT64
    elif bias is not None and bias.dtype != np.int32:
        raise UnsupportedError(f"a bias of {bias.dtype.name}")
    narrow = not sums_of_16 or _largest(scope, given, weight, bias) < _NARROW
    sums = _sums(scope, replace(op, wide=not narrow), given, known, weight, bias)
    scales = np.tile(weight.scales, given.repeats if weight.scales.size > 1 else 1)
    factors = known.scale * scales / y.scale
    if dense:
        return in_float64(scope, sums, factors, y)
    if stored is DType.INT64:
        return rescaled_wide(scope, sums, factors, y)
    return rescaled(scope, sums if narrow else _saturated(scope, sums), factors, y)


def _sums(
    scope: Scope, op: IntegerProduct, given: _Operands, known: Quantity, weight: _Weights,
    bias: Array | None,
) -> str:  # fmt: skip
    points = [
        scope.constant("x_zero", np.asarray([known.zero], known.dtype.numpy)),
        scope.constant("w_zero", np.asarray(weight.zeros, scope.dtype(given.w).numpy)),
    ]
    sums = scope.node(op, [given.x, given.w, *points], "sums")
    if bias is None:
        return sums
    narrow = bias.dtype == np.int32 and not op.wide and given.repeats == 1
    whole = (
        scope.input(given.bias) if narrow else scope.constant("bias", bias.astype(op.sums.numpy))
    )
    return scope.node(Add(), [sums, whole], "biased")


def _check_types(scope: Scope, known: Quantity, y: Quantity) -> None:
    """Raises UnsupportedError for types that LiteRT does not multiply."""
    stored = scope.tensor(1).dtype
    fits = {DType.INT8: ("INT8", "INT4"), DType.UINT8: ("UINT8",), DType.INT16: ("INT8", "INT4")}
    if stored not in fits[known.dtype]:
        raise UnsupportedError(f"{known.dtype.value} times weights of {stored}")
    if known.dtype is DType.INT16 and (known.zero or y.zero):
        raise UnsupportedError("int16 with a zero point")


def _bias(scope: Scope, given: _Operands) -> Array | None:
    """The bias, which is a constant, for all channels of the node."""
    if not scope.has(given.bias):
        return None
    return np.tile(scope.known(given.bias, "its bias"), given.repeats)


def _largest(scope: Scope, given: _Operands, weight: _Weights, bias: Array | None) -> int:
    """No sum of int16 is further from 0; ModelError if it might not fit the arithmetic."""
    w = scope.array(given.w)
    shape = scope.shape(given.w)
    if w is None:
        largest = prod(shape) // shape[given.channels] * 2**24
    else:
        sizes = np.abs(np.moveaxis(w.astype(np.int64), given.channels, -1) - weight.zeros)
        largest = int(sizes.reshape(-1, shape[given.channels]).sum(axis=0).max(initial=0)) * 2**15
    more = 0 if bias is None else max(map(abs, map(int, bias.reshape(-1))), default=0)
    if largest + more >= _WIDE:
        raise ModelError("its sums need more than 47 bits")
    return largest + more


def _saturated(scope: Scope, sums: str) -> str:
    """Sums of 64 bits as int32, those beyond it as its ends: LiteRT's would overflow."""
    for bound, clamp, label in ((2**31 - 1, Min(), "below"), (-(2**31), Max(), "above")):
        sums = scope.node(clamp, [sums, scope.constant(label, np.asarray(bound, np.int64))], label)
    return scope.node(Cast(DType.INT32), [sums], "narrow")


@dataclass(frozen=True)
class _Weights:
    """Scales in float64 and zero points of weights: one, or one for each output channel."""

    scales: NDArray[np.float64]
    zeros: NDArray[np.int64]


def _weights(scope: Scope, axis: int) -> _Weights:
    tensor = scope.tensor(1)
    found = tensor.scales
    if found is None:
        raise UnsupportedError("its weights have no scale")
    if not np.isfinite(found.scales).all() or (found.scales < 0).any():
        raise ModelError("a scale of its weights is not a positive number")
    if found.scales.size > 1 and (found.axis != axis or found.scales.size != tensor.shape[axis]):
        what = f"{found.scales.size} scales along axis {found.axis} of {tensor.shape}"
        raise UnsupportedError(what)
    zeros = found.zeros[:1] if (found.zeros == found.zeros[0]).all() else found.zeros
    return _Weights(found.scales.astype(np.float64), zeros)
