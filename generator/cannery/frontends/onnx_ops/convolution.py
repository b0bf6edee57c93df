"""Convolutions and pools: images with channels in axis 1, kernels [OC,IC/group,*K]."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx_ops.arithmetic import window_pads
from cannery.frontends.onnx_ops.base import Scope, Value, channels_last, operator
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad
from cannery.ops.window import Pads, extent

_MOST_AXES = 2


def _spatial(scope: Scope, x: Value) -> tuple[int, ...]:
    """The sizes of the spatial axes."""
    spatial = x.shape[2:]
    if not spatial:
        raise ModelError(f"its input has shape {x.shape}, expected batch, channels and space")
    if len(spatial) > _MOST_AXES:
        raise UnsupportedError(f"{len(spatial)} spatial axes; 1 and 2 are supported")
    return spatial


def _kernel(scope: Scope, w: Value, rank: int) -> tuple[int, ...]:
    kernel = w.shape[2:]
    if len(kernel) != rank:
        raise ModelError(f"its weight has shape {w.shape}, expected {rank} spatial axes")
    if scope.has("kernel_shape") and scope.integers("kernel_shape") != kernel:
        raise ModelError(f"kernel_shape is not that of the weight, {kernel}")
    return kernel


def _bias(scope: Scope) -> list[str]:
    bias = scope.optional(2)
    return [] if bias is None else [scope.plain(bias)]


@operator("Conv")
def conv(scope: Scope) -> Value:
    """x[N,IC,*S], w[OC,IC/group,*K], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    spatial = _spatial(scope, x)
    rank = len(spatial)
    ones = (1,) * rank
    kernel = _kernel(scope, w, rank)
    strides = scope.integers("strides", ones, rank)
    dilations = scope.integers("dilations", ones, rank)
    pads = window_pads(scope, spatial, kernel, strides, dilations)
    op = Conv(strides, pads, dilations, scope.integer("group", 1))
    weight = scope.place(w, (*range(2, rank + 2), 1, 0))
    return _first(scope, scope.node(op, [scope.last(x), weight, *_bias(scope)]))


def _first(scope: Scope, name: str) -> Value:
    """What an operator with channels last made, as the model sees it."""
    rank = len(scope.result(name).shape)
    return scope.result(name, channels_last(rank))


@operator("ConvTranspose")
def conv_transpose(scope: Scope) -> Value:
    """x[N,IC,*S], w[IC,OC/group,*K], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    spatial = _spatial(scope, x)
    rank = len(spatial)
    ones = (1,) * rank
    kernel = _kernel(scope, w, rank)
    strides = scope.integers("strides", ones, rank)
    dilations = scope.integers("dilations", ones, rank)
    pads, extra = _transposed_pads(scope, spatial, kernel, strides, dilations)
    op = ConvTranspose(strides, pads, dilations, extra, scope.integer("group", 1))
    weight = scope.place(w, (*range(2, rank + 2), 1, 0))
    return _first(scope, scope.node(op, [scope.last(x), weight, *_bias(scope)]))


def _transposed_pads(
    scope: Scope,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[Pads, tuple[int, ...]]:
    """Pads and output padding; where the size of the output is given, they follow from it."""
    rank = len(spatial)
    extra = scope.integers("output_padding", (0,) * rank, rank)
    mode = scope.text("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    sizes: tuple[int, ...] = ()
    if scope.has("output_shape"):
        scope.ignore("pads")
        sizes = scope.integers("output_shape")[-rank:]
    elif mode.startswith("SAME"):
        sizes = tuple(d * s for d, s in zip(spatial, strides, strict=True))
    if not sizes:
        return window_pads(scope, spatial, kernel, strides, dilations), extra
    scope.ignore("pads")
    pads, more = [], []
    for d, k, s, dil, e, out in zip(spatial, kernel, strides, dilations, extra, sizes, strict=True):
        total = s * (d - 1) + e + extent(k, dil) - out
        small = max(total, 0) // 2
        large = max(total, 0) - small
        pads.append((small, large) if mode == "SAME_UPPER" else (large, small))
        more.append(e + max(-total, 0))
    return tuple(pads), tuple(more)


@dataclass(frozen=True)
class _Pool:
    """A window that slides over x."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def beyond(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """How many elements windows reach beyond the padding, where sizes are rounded up.

        A window that would begin behind the input and its padding at the beginning is left out.
        """
        more = []
        for size, k, s, (begin, end), d in zip(
            spatial, self.kernel, self.strides, self.pads, self.dilations, strict=True
        ):
            span = size + begin + end - extent(k, d)
            windows = -(-span // s) + 1
            if (windows - 1) * s >= size + begin:
                windows -= 1
            more.append(max((windows - 1) * s - span, 0))
        return tuple(more)


def _pool(scope: Scope, x: Value) -> tuple[_Pool, tuple[int, ...]]:
    """The window, and what it reaches beyond its padding."""
    spatial = _spatial(scope, x)
    rank = len(spatial)
    kernel = scope.integers("kernel_shape", count=rank)
    strides = scope.integers("strides", (1,) * rank, rank)
    dilations = scope.integers("dilations", (1,) * rank, rank)
    pads = window_pads(scope, spatial, kernel, strides, dilations)
    pool = _Pool(kernel, strides, pads, dilations)
    sound = all(v >= 1 for v in (*kernel, *strides, *dilations))
    if not sound:
        raise ModelError("its kernel, strides and dilations must be positive")
    ceil = scope.integer("ceil_mode", 0)
    return pool, pool.beyond(spatial) if ceil else (0,) * rank


def _extended(pads: Pads, more: tuple[int, ...]) -> Pads:
    return tuple((b, e + m) for (b, e), m in zip(pads, more, strict=True))


@operator("MaxPool")
def max_pool(scope: Scope) -> Value:
    """Padding never wins; the positions of maxima are not computed."""
    scope.ignore("storage_order")
    x = scope.input(0)
    p, more = _pool(scope, x)
    op = MaxPool(p.kernel, p.strides, _extended(p.pads, more), p.dilations)
    return _first(scope, scope.node(op, [scope.last(x)]))


@operator("AveragePool")
def average_pool(scope: Scope) -> Value:
    """The mean of what is inside, or with count_include_pad of padding, too."""
    x = scope.input(0)
    p, more = _pool(scope, x)
    source = scope.last(x)
    counted = bool(scope.integer("count_include_pad", 0))
    pads = p.pads
    if counted and any(more):  # what lies beyond the padding does not count
        source = scope.node(Pad(((0, 0), *pads, (0, 0))), [source], "padded")
        pads, counted = ((0, 0),) * len(pads), False
    op = AveragePool(p.kernel, p.strides, _extended(pads, more), p.dilations, counted)
    return _first(scope, scope.node(op, [source]))
