"""Recurrent operators on integers, as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.recurrent import svdf_sums
from cannery.frontends.tflite.quantities import output_range, quantity
from cannery.frontends.tflite.rescaled import ratio, rescaled
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add
from cannery.ops.movement.op import Transpose
from cannery.ops.quantize.products import MatMulInteger


@quantised("SVDF")
def svdf(scope: Scope) -> str:
    """x[N,I] int8, features[F,I] int8, weights of time[F,T] and state[N,F*T] int16, bias int32.

    Products with the features become units of the state; the kernels clamp nothing but the result.
    """
    scope.ignore("AsymmetricQuantizeInputs")
    parts = [quantity(scope, k) for k in (0, 1, 2)]
    x, features, times = parts
    if x is None or features is None or times is None:
        raise UnsupportedError("floats times integer weights are not supported")
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


def _check_sums(scope: Scope) -> None:
    """Raises ModelError if a sum over time might need more than 32 bits."""
    rank, times = scope.integer("Rank"), scope.known(2, "its weights of time").astype(np.int64)
    if rank < 1 or times.ndim != 2 or times.shape[0] % rank:
        raise ModelError(f"a rank of {rank} for weights of {times.shape}")
    sums = np.abs(times).sum(axis=1).reshape(-1, rank).sum(axis=1) * 2**15
    bias = np.abs(scope.known(3, "its bias").astype(np.int64)) if scope.has(3) else 0
    if np.max(sums + bias, initial=0) >= 2**31:
        raise ModelError("its sums over time need more than 32 bits")
