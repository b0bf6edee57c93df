"""Convolutions: images with channels in axis 1, kernels [OC,IC/group,*K]."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.arithmetic import window_pads
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Value, channels_last
from cannery.frontends.volumes import conv_3d, conv_transpose_3d
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.window import Pads, extent

_MOST_AXES = 3


def spatial_sizes(scope: Scope, x: Value) -> tuple[int, ...]:
    """The sizes of the spatial axes."""
    spatial = x.shape[2:]
    if not spatial:
        raise ModelError(f"its input has shape {x.shape}, expected batch, channels and space")
    if len(spatial) > _MOST_AXES:
        raise UnsupportedError(f"{len(spatial)} spatial axes; 1 to 3 are supported")
    return spatial


@dataclass(frozen=True)
class ConvWindow:
    """What all convolutions have in common: sizes and steps along the spatial axes."""

    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def pads(self, scope: Scope) -> Pads:
        """The padding that the node specifies."""
        return window_pads(scope, self.spatial, self.kernel, self.strides, self.dilations)


def conv_window(scope: Scope, x: Value, w: Value) -> ConvWindow:
    """The window of a node that convolves x[N,IC,*S] with w[OC,IC/group,*K]."""
    spatial = spatial_sizes(scope, x)
    kernel, rank = w.shape[2:], len(spatial)
    if len(kernel) != rank:
        raise ModelError(f"its weight has shape {w.shape}, expected {rank} spatial axes")
    if scope.has("kernel_shape") and scope.integers("kernel_shape") != kernel:
        raise ModelError(f"kernel_shape is not that of the weight, {kernel}")
    strides, dilations = (
        scope.integers(name, (1,) * rank, rank) for name in ("strides", "dilations")
    )
    return ConvWindow(spatial, kernel, strides, dilations)


def spatial_first(scope: Scope, w: Value) -> str:
    """A weight as [*K,IC/group,OC]."""
    return scope.place(w, (*range(2, len(w.shape)), 1, 0))


def _bias(scope: Scope) -> list[str]:
    bias = scope.optional(2)
    return [] if bias is None else [scope.plain(bias)]


@operator("Conv")
def conv(scope: Scope) -> Value:
    """x[N,IC,*S], w[OC,IC/group,*K], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    window = conv_window(scope, x, w)
    op = Conv(window.strides, window.pads(scope), window.dilations, scope.integer("group", 1))
    weight = spatial_first(scope, w)
    if len(window.kernel) == 3:
        return first(scope, conv_3d(scope, op, scope.last(x), weight, _bias(scope)))
    return first(scope, scope.node(op, [scope.last(x), weight, *_bias(scope)]))


def first(scope: Scope, name: str) -> Value:
    """The result of an operator with channels last, as the model sees it."""
    rank = len(scope.result(name).shape)
    return scope.result(name, channels_last(rank))


@operator("ConvTranspose")
def conv_transpose(scope: Scope) -> Value:
    """x[N,IC,*S], w[IC,OC/group,*K], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    window = conv_window(scope, x, w)
    pads, extra = _transposed_pads(scope, window)
    group = scope.integer("group", 1)
    op = ConvTranspose(window.strides, pads, window.dilations, extra, group)
    weight = spatial_first(scope, w)
    if len(window.kernel) == 3:
        return first(scope, conv_transpose_3d(scope, op, scope.last(x), weight, _bias(scope)))
    return first(scope, scope.node(op, [scope.last(x), weight, *_bias(scope)]))


def _transposed_pads(scope: Scope, window: ConvWindow) -> tuple[Pads, tuple[int, ...]]:
    """Pads and output padding; if the size of the output is given, they follow from it."""
    rank = len(window.spatial)
    extra = scope.integers("output_padding", (0,) * rank, rank)
    mode = scope.text("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    sizes: tuple[int, ...] = ()
    if scope.has("output_shape"):
        scope.ignore("pads")
        sizes = scope.integers("output_shape")[-rank:]
        if len(sizes) != rank:
            raise ModelError(f"output_shape {sizes} for {rank} spatial axes")
    elif mode.startswith("SAME"):
        sizes = tuple(d * s for d, s in zip(window.spatial, window.strides, strict=True))
    if not sizes:
        return window.pads(scope), extra
    scope.ignore("pads")
    pads, more = [], []
    for d, k, s, dil, e, out in zip(
        window.spatial, window.kernel, window.strides, window.dilations, extra, sizes, strict=True
    ):
        total = s * (d - 1) + e + extent(k, dil) - out
        small = max(total, 0) // 2
        large = max(total, 0) - small
        pads.append((small, large) if mode == "SAME_UPPER" else (large, small))
        more.append(e + max(-total, 0))
    return tuple(pads), tuple(more)
