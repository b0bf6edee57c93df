"""Recurrent operators on integers, as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.hybrid import hybrid_product
from cannery.frontends.tflite.operators.recurrent import svdf_sums
from cannery.frontends.tflite.quantities import output_range, quantity
from cannery.frontends.tflite.rescaled import ratio, rescaled
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Transpose
from cannery.ops.quantize.products import MatMulInteger


@quantised("SVDF")
def svdf(scope: Scope) -> str:
    """x[N,I] int8, features[F,I] int8, weights of time[F,T] and state[N,F*T] int16, bias int32.

    Products with the features become units of the state; the kernels clamp nothing but the result.
    """
    x = quantity(scope, 0)
    if x is None:
        return _hybrid_svdf(scope)
    scope.ignore("AsymmetricQuantizeInputs")
    features, times = quantity(scope, 1), quantity(scope, 2)
    if features is None or times is None:
        raise UnsupportedError("integers times floats are not supported")
    state, y = quantity(scope, 4), output_range(scope, activation=False)
    types = [each.dtype for each in (x, features, times, state, y) if each]
    expected = [DType.INT8, DType.INT8, DType.INT16, DType.INT16, DType.INT8]
    if state is None or types != expected:
        raise UnsupportedError("on types other than int8 with states of int16")
    if scope.integer("FusedActivationFunction") not in (0, 1):
        raise UnsupportedError("its activation is not supported on integers")
    _check_sums(scope)
    zeros = [
        scope.constant(name, np.asarray([zero], np.int8))
        for name, zero in (("x_zero", x.zero), ("w_zero", 0))
    ]
    turned = scope.node(Transpose((1, 0)), [scope.input(1)], "features")
    sums = scope.node(MatMulInteger(), [scope.input(0), turned, *zeros], "product")
    newest = rescaled(
        scope, sums, ratio(x.scale, features.scale, over=state.scale), state, "newest"
    )
    total = svdf_sums(scope, newest, scope.input(4), scope.input(2))
    if scope.has(3):
        total = scope.node(Add(), [total, scope.input(3)], "biased")
    return rescaled(scope, total, ratio(state.scale, times.scale, over=y.scale), y)


def _hybrid_svdf(scope: Scope) -> str:
    """x[N,I], state and result are floats; weights of time are as floats, too."""
    symmetric = not scope.flag("AsymmetricQuantizeInputs")
    x, features = scope.input(0), scope.known(1, "its features")
    if scope.rank(x) != 2 or features.ndim != 2 or scope.output.is_quantised:
        raise ModelError(f"its input has the shape {scope.shape(x)}")
    rows = scope.shape(x)[0]
    product = hybrid_product(scope, MatMul(), x, features.T, rows, 0, symmetric=symmetric)
    times, scales = scope.known(2, "its weights of time"), scope.tensor(2).scales
    if scope.tensor(2).is_quantised and scales is not None:
        if not scales.single:
            raise UnsupportedError(f"{scales.scales.size} scales of its weights of time")
        times = (times.astype(np.float32) - scales.zeros[0]).astype(np.float32) * scales.scales[0]
    y = svdf_sums(scope, product, scope.input(4), scope.constant("times", times))
    if scope.has(3):
        y = scope.node(Add(), [y, scope.input(3)], "biased")
    return scope.fused(y)


def _check_sums(scope: Scope) -> None:
    """Raises ModelError if a sum over time might need more than 32 bits."""
    rank, times = scope.integer("Rank"), scope.known(2, "its weights of time").astype(np.int64)
    if rank < 1 or times.ndim != 2 or times.shape[0] % rank:
        raise ModelError(f"a rank of {rank} for weights of {times.shape}")
    sums = np.abs(times).sum(axis=1).reshape(-1, rank).sum(axis=1) * 2**15
    bias = np.abs(scope.known(3, "its bias").astype(np.int64)) if scope.has(3) else 0
    if np.max(sums + bias, initial=0) >= 2**31:
        raise ModelError("its sums over time need more than 32 bits")
