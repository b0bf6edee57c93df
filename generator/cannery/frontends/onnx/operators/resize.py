"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.interpolation import Resampling, interpolated
from cannery.frontends.onnx.operators.values import Perm, Value, channels_last, check_size, identity
from cannery.ir.tensor import DType
from cannery.ops.resize.grid_sample import PADDINGS, GridSample
from cannery.ops.resize.op import Resize
from cannery.ops.resize.positions import COORDINATES, CROPPING, MOST_OUTPUTS, ROUNDINGS, ResizedAxis

#: (start, end) per axis, as fractions of its size.
Regions = tuple[tuple[float, float], ...]


@operator("Resize")
def resize(scope: Scope) -> Value:
    """All modes; sizes or scales are known."""
    mode = scope.text("mode", "nearest", ("nearest", "linear", "cubic"))
    if scope.opset < 11:
        return _by_scales(scope, _scales(scope, 1), Resampling(mode, "asymmetric", "opset_10"))
    how = _attributes(scope, mode)
    sizes = scope.known_integers(3, "sizes")
    x = scope.input(0)
    axes = scope.integers("axes", identity(len(x.shape)))
    policy = scope.text("keep_aspect_ratio_policy", "stretch")
    roi = _regions(scope, axes, how)
    if not sizes:
        given = dict(zip(scope.axes(axes, len(x.shape)), _in_order(scope, axes), strict=True))
        full = tuple(given.get(a, 1.0) for a in range(len(x.shape)))
        return _by_scales(scope, full, how, roi)
    target, scales = _target(scope, x.shape, axes, sizes, policy)
    return _resized(scope, target, scales, how, roi)


def _attributes(scope: Scope, mode: str) -> Resampling:
    coordinates = (*COORDINATES, CROPPING)
    antialias = bool(scope.integer("antialias", 0))
    return Resampling(
        mode,
        scope.text("coordinate_transformation_mode", "half_pixel", coordinates),
        scope.text("nearest_mode", "round_prefer_floor", ROUNDINGS[:-1]),
        scope.number("cubic_coeff_a", -0.75),
        antialias and mode != "nearest",
        bool(scope.integer("exclude_outside", 0)) and (antialias or mode == "cubic"),
        scope.number("extrapolation_value", 0.0),
    )


def _regions(scope: Scope, axes: Sequence[int], how: Resampling) -> Regions:
    """The part of the input that is resized per axis, 0 to 1; only where it has a meaning."""
    rank = len(scope.input(0).shape)
    regions = [(0.0, 1.0)] * rank
    if how.coordinate != CROPPING:
        return tuple(regions)
    given = scope.known(1, "regions")
    if given is None or given.size != 2 * len(axes):
        raise ModelError("has no region to crop")
    starts, ends = np.asarray(given, np.float64).reshape(2, -1)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        regions[scope.axis(axis, rank)] = (float(start), float(end))
    return tuple(regions)


def _in_order(scope: Scope, axes: Sequence[int]) -> list[float]:
    """Scales in ascending order of their axes."""
    scales = _scales(scope, 2)
    if len(scales) != len(axes):
        raise ModelError(f"{len(scales)} scales for {len(axes)} axes")
    rank = len(scope.input(0).shape)
    return [s for _, s in sorted(zip((scope.axis(a, rank) for a in axes), scales, strict=True))]


@operator("Upsample")
def upsample(scope: Scope) -> Value:
    """Nearest and linear, from corner to corner."""
    scales = scope.numbers("scales") if scope.opset < 9 else _scales(scope, 1)
    if not scales:
        raise ModelError("has no scales")
    mode = scope.text("mode", "nearest", ("nearest", "linear"))
    return _by_scales(scope, scales, Resampling(mode, "asymmetric", "floor"))


def _scales(scope: Scope, index: int) -> tuple[float, ...]:
    array = scope.known(index, "scales")
    if array is None or not array.size:
        raise ModelError("has neither sizes nor scales")
    return tuple(float(s) for s in array.reshape(-1))


def _by_scales(
    scope: Scope, scales: Sequence[float], how: Resampling, regions: Regions = ()
) -> Value:
    x = scope.input(0)
    sound = all(np.isfinite(s) and s > 0 for s in scales)
    if len(scales) != len(x.shape) or not sound:
        raise ModelError(f"scales {tuple(scales)} do not fit shape {x.shape}")
    target = tuple(_size(d, s) for d, s in zip(x.shape, scales, strict=True))
    return _resized(scope, target, scales, how, regions or ((0.0, 1.0),) * len(x.shape))


def _size(size: int, scale: float) -> int:
    """The size of a scaled axis; the product is in float32, as in other engines."""
    return int(np.floor(np.float32(size) * np.float32(scale)))


def _target(
    scope: Scope, shape: tuple[int, ...], axes: Sequence[int], sizes: Sequence[int], policy: str
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The whole target shape, from the sizes of some axes, and scales if the policy sets one for
    all.

    With a policy, sizes and scales are float32 products, as in ONNX Runtime and in onnx's own shape
    inference.
    """
    if len(sizes) != len(axes):
        raise ModelError(f"{len(sizes)} sizes for {len(axes)} axes")
    target = list(shape)
    places = [scope.axis(a, len(shape)) for a in axes]
    for a, s in zip(places, sizes, strict=True):
        target[a] = s
    if policy == "stretch" or not all(shape[a] for a in places):
        return tuple(target), ()
    ratios = [np.float32(s) / np.float32(shape[a]) for a, s in zip(places, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    for a in places:
        target[a] = floor(float(scale * np.float32(shape[a])) + 0.5)
    return tuple(target), tuple(float(scale) if a in places else 1.0 for a in range(len(shape)))


def _resized(
    scope: Scope,
    target: tuple[int, ...],
    scales: Sequence[float],
    how: Resampling,
    regions: Regions,
) -> Value:
    x = scope.input(0)
    check_size(target)
    if x.shape == target and all(region == (0.0, 1.0) for region in regions):
        return x
    if not all(x.shape) or not all(target):
        raise ModelError(f"shape {x.shape} cannot become {target}")
    changed = [t for d, t in zip(x.shape, target, strict=True) if d != t]
    if max(changed, default=0) > MOST_OUTPUTS:
        raise UnsupportedError(
            f"an axis of {max(changed)} elements; up to {MOST_OUTPUTS} are supported"
        )
    axes = []
    for d, t, scale, region in zip(
        x.shape, target, scales or (0.0,) * len(target), regions, strict=True
    ):
        stays = how.antialias and d == t  # as in ONNX Runtime, whatever the scale
        axes.append(ResizedAxis(how.coordinate, d, t, 0.0 if stays else scale, region))
    perm = _images(axes)
    plain = how.mode != "cubic" and not how.antialias and how.coordinate != CROPPING
    if perm is None or not plain or scope.dtype(x) != DType.FLOAT32.value:
        return interpolated(scope, x, axes, how)
    middle = perm[1:-1]
    chosen = tuple(scales[p] for p in middle) if scales else ()
    sizes = tuple(target[p] for p in middle)
    op = Resize(how.mode, sizes, how.coordinate, how.rounding, chosen)
    return scope.result(scope.node(op, [scope.place(x, perm)]), perm)


def _images(axes: Sequence[ResizedAxis]) -> Perm | None:
    """A permutation whose first and last axes stay in place, for 1 or 2 axes between them."""
    rank = len(axes)
    for perm in (channels_last(rank), identity(rank)):
        if 3 <= rank <= 4 and axes[perm[0]].stays and axes[perm[-1]].stays:
            return perm
    return None


@operator("GridSample")
def grid_sample(scope: Scope) -> Value:
    """At positions from -1 to 1, two or three numbers each."""
    x, grid = scope.input(0), scope.input(1)
    mode = scope.text("mode", "linear", ("linear", "nearest", "cubic", "bilinear", "bicubic"))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding = scope.text("padding_mode", "zeros", PADDINGS)
    op = GridSample(mode, padding, bool(scope.integer("align_corners", 0)))
    y = scope.node(op, [scope.last(x), scope.plain(grid)])
    return scope.result(y, channels_last(len(x.shape)))
