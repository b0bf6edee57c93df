"""Resampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx_ops.base import Perm, Scope, Value, channels_last, identity, operator
from cannery.ops.resize.op import COORDINATES, ROUNDINGS, Resize


@operator("Resize")
def resize(scope: Scope) -> Value:
    """Nearest and linear; sizes or scales are known."""
    if scope.opset < 11:
        return _by_scales(scope, _scales(scope, 1), "asymmetric", "floor")
    _check_attributes(scope)
    mode = scope.text("mode", "nearest", ("nearest", "linear"))
    coordinate = scope.text("coordinate_transformation_mode", "half_pixel", COORDINATES)
    rounding = scope.text("nearest_mode", "round_prefer_floor", ROUNDINGS)
    sizes = scope.known_integers(3, "sizes")
    x = scope.input(0)
    axes = scope.integers("axes", identity(len(x.shape)))
    policy = scope.text("keep_aspect_ratio_policy", "stretch")
    if not sizes:
        scales = dict(zip(scope.axes(axes, len(x.shape)), _in_order(scope, axes), strict=True))
        full = tuple(scales.get(a, 1.0) for a in range(len(x.shape)))
        return _by_scales(scope, full, coordinate, rounding)
    target = _target(scope, x.shape, axes, sizes, policy)
    return _resized(scope, target, None, mode, coordinate, rounding)


def _in_order(scope: Scope, axes: Sequence[int]) -> list[float]:
    """Scales in ascending order of their axes."""
    scales = _scales(scope, 2)
    if len(scales) != len(axes):
        raise ModelError(f"{len(scales)} scales for {len(axes)} axes")
    rank = len(scope.input(0).shape)
    return [s for _, s in sorted(zip((scope.axis(a, rank) for a in axes), scales, strict=True))]


def _check_attributes(scope: Scope) -> None:
    scope.ignore("cubic_coeff_a", "extrapolation_value")
    if scope.integer("antialias", 0):
        raise UnsupportedError("antialias is not supported")
    if scope.integer("exclude_outside", 0):
        raise UnsupportedError("exclude_outside is not supported")


@operator("Upsample")
def upsample(scope: Scope) -> Value:
    """Nearest and linear, from corner to corner."""
    scales = scope.raw("scales") if scope.opset < 9 else _scales(scope, 1)
    if not isinstance(scales, tuple):
        raise ModelError("has no scales")
    return _by_scales(scope, scales, "asymmetric", "floor")


def _scales(scope: Scope, index: int) -> tuple[float, ...]:
    array = scope.known(index, "scales")
    if array is None or not array.size:
        raise ModelError("has neither sizes nor scales")
    return tuple(float(s) for s in array.reshape(-1))


def _by_scales(scope: Scope, scales: Sequence[float], coordinate: str, rounding: str) -> Value:
    x = scope.input(0)
    mode = scope.text("mode", "nearest", ("nearest", "linear"))
    sound = all(np.isfinite(s) and s > 0 for s in scales)
    if len(scales) != len(x.shape) or not sound:
        raise ModelError(f"scales {tuple(scales)} do not fit shape {x.shape}")
    target = tuple(_size(d, s) for d, s in zip(x.shape, scales, strict=True))
    return _resized(scope, target, scales, mode, coordinate, rounding)


def _size(size: int, scale: float) -> int:
    """The size of a scaled axis; the product is one of float32, as in other engines."""
    return int(np.floor(np.float32(size) * np.float32(scale)))


def _target(
    scope: Scope, shape: tuple[int, ...], axes: Sequence[int], sizes: Sequence[int], policy: str
) -> tuple[int, ...]:
    """The whole target shape, from sizes of some axes."""
    if len(sizes) != len(axes):
        raise ModelError(f"{len(sizes)} sizes for {len(axes)} axes")
    target = list(shape)
    places = [scope.axis(a, len(shape)) for a in axes]
    if policy != "stretch":
        ratios = [Fraction(s, shape[a]) for a, s in zip(places, sizes, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = [floor(ratio * shape[a] + Fraction(1, 2)) for a in places]
    for a, s in zip(places, sizes, strict=True):
        target[a] = s
    return tuple(target)


def _resized(
    scope: Scope,
    target: tuple[int, ...],
    scales: Sequence[float] | None,
    mode: str,
    coordinate: str,
    rounding: str,
) -> Value:
    x = scope.input(0)
    if x.shape == target and (scales is None or all(s == 1.0 for s in scales)):
        return x
    perm = _images(x.shape, target)
    middle = perm[1:-1]
    chosen = () if scales is None else tuple(scales[p] for p in middle)
    op = Resize(mode, tuple(target[p] for p in middle), coordinate, rounding, chosen)
    return scope.result(scope.node(op, [scope.place(x, perm)]), perm)


def _images(shape: tuple[int, ...], target: tuple[int, ...]) -> Perm:
    """A permutation whose first and last axes keep their sizes."""
    rank = len(shape)
    for perm in (channels_last(rank), identity(rank)):
        ends = {perm[0], perm[-1]}
        if 3 <= rank <= 4 and all(shape[a] == target[a] for a in ends):
            return perm
    raise UnsupportedError(f"from shape {shape} to {target}: it can change 1 or 2 spatial axes")
