"""Convolutions with three spatial axes, on floats."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.frontends.tflite.operators.windows import same
from cannery.frontends.tflite.scope import Scope, operator
from cannery.frontends.volumes import conv_3d, conv_transpose_3d
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.window import Pads, extent, same_pads


def _steps(scope: Scope) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations: depth, height, width."""
    strides = tuple(scope.integer(f"Stride{axis}") for axis in "DHW")
    dilations = tuple(scope.integer(f"Dilation{axis}Factor", 1) for axis in "DHW")
    if min(*strides, *dilations) < 1:
        raise ModelError(f"strides {strides}, dilations {dilations}")
    return strides, dilations


def _check(scope: Scope, x: str, w: str) -> None:
    for value, what in ((x, "its input"), (w, "its weights")):
        if scope.rank(value) != 5 or not min(scope.shape(value)):
            raise ModelError(f"{what} has the shape {scope.shape(value)}, expected a volume")


@operator("CONV_3D")
def conv(scope: Scope) -> str:
    """x[N,D,H,W,IC], w[KD,KH,KW,IC/groups,OC], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    _check(scope, x, w)
    strides, dilations = _steps(scope)
    size, kernel = scope.shape(x)[1:4], scope.shape(w)[:3]
    pads: Pads = ((0, 0),) * 3
    if same(scope):
        pads = same_pads(size, kernel, strides, dilations)
    taken, channels = scope.shape(w)[3], scope.shape(x)[4]
    if channels % taken or any(
        extent(k, d) > n + sum(p) for k, d, n, p in zip(kernel, dilations, size, pads, strict=True)
    ):
        raise ModelError(f"weights {scope.shape(w)} for an input {scope.shape(x)}")
    op = Conv(strides, pads, dilations, channels // taken)
    return scope.fused(conv_3d(scope, op, x, w, [scope.input(2)] if scope.has(2) else []))


@operator("CONV_3D_TRANSPOSE")
def conv_transpose(scope: Scope) -> str:
    """shape[5], w[KD,KH,KW,OC,IC], x[N,D,H,W,IC], bias[OC]? -> y of that shape."""
    w, x = scope.input(1), scope.input(2)
    _check(scope, x, w)
    strides, dilations = _steps(scope)
    wanted = scope.known_integers(0, "its shape")
    if len(wanted) != 5 or min(wanted) < 1 or scope.shape(w)[4] != scope.shape(x)[4]:
        raise ModelError(f"a result {wanted} of {scope.shape(x)} by {scope.shape(w)}")
    kernel, size = scope.shape(w)[:3], scope.shape(x)[1:4]
    begins = [0, 0, 0]
    if same(scope):
        begins = [begin for begin, _ in same_pads(wanted[1:4], kernel, strides, dilations)]
    pairs, more = [], []
    for n, k, s, d, begin, out in zip(
        size, kernel, strides, dilations, begins, wanted[1:4], strict=True
    ):
        missing = out - ((n - 1) * s + extent(k, d) - begin)
        pairs.append((begin, max(-missing, 0)))
        more.append(max(missing, 0))
    op = ConvTranspose(strides, tuple(pairs), dilations, tuple(more))
    bias = [scope.input(3)] if scope.has(3) else []
    return scope.fused(conv_transpose_3d(scope, op, x, w, bias))
