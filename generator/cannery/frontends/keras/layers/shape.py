"""Layers that move data: they take any dtype and compute nothing (except interpolation)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer, layer_by_rank
from cannery.frontends.keras.layers.resizing import FILTERS, filtered
from cannery.frontends.keras.layers.window import check_rank
from cannery.frontends.keras.version import KerasVersion
from cannery.ops.movement.op import Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.resize.op import Resize
from cannery.ops.resize.tables import Filter


@layer("Flatten")
def flatten(config: LayerConfig) -> LayerPlan:
    """To [N,F], with channels last in F even if the data has them first."""
    first = config.channels_first()

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.single(inputs)
        if scope.rank(x) == 2:
            return x
        x = scope.channels_last(x, first and scope.rank(x) > 2)
        shape = scope.shape(x)
        return scope.node(Reshape((shape[0], prod(shape[1:]))), [x])

    return LayerPlan(build)


@layer("Reshape")
def reshape(config: LayerConfig) -> LayerPlan:
    """To `target_shape` per sample; -1 means the rest."""
    target = config.shape("target_shape", minimum=-1)
    if target.count(-1) > 1:
        raise ModelError(f"target_shape {target} has several -1")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.single(inputs)
        batch, *dims = scope.shape(x)
        known = prod(d for d in target if d != -1)
        if (prod(dims) % known if known else prod(dims)) or (-1 in target and not known):
            raise ModelError(f"target_shape {target} does not fit its input {scope.shape(x)}")
        rest = prod(dims) // known if known else 0
        return scope.node(Reshape((batch, *(rest if d == -1 else d for d in target))), [x])

    return LayerPlan(build)


@layer("Permute")
def permute(config: LayerConfig) -> LayerPlan:
    """Output dimension i is input dimension dims[i]; the batch is dimension 0 and stays."""
    dims = config.shape("dims", minimum=1)
    if sorted(dims) != list(range(1, len(dims) + 1)):
        raise ModelError(f"dims {dims} are not a permutation of 1 to {len(dims)}")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.node(Transpose((0, *dims)), [scope.single(inputs)])

    return LayerPlan(build)


@layer("RepeatVector")
def repeat_vector(config: LayerConfig) -> LayerPlan:
    """x[N,F] -> y[N,n,F]."""
    count = config.integer("n")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.single(inputs)
        if scope.rank(x) != 2:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected one vector")
        batch, features = scope.shape(x)
        row = scope.node(Reshape((batch, 1, features)), [x], "row")
        return scope.node(Expand((batch, count, features)), [row])

    return LayerPlan(build)


_Pairs = tuple[tuple[int, int], ...]


def _pairs(config: LayerConfig, key: str, rank: int) -> _Pairs:
    """(begin, end) per spatial axis; one number applies to both, a single one to all axes."""
    value = config.raw(key)
    if value is None:
        return ((1, 1),) * rank
    items = value if isinstance(value, list) and (rank > 1 or _nested(value)) else [value] * rank
    if len(items) == rank:
        pairs = [_pair(item) for item in items]
        result = tuple(p for p in pairs if p is not None)
        if len(result) == rank:
            return result
    raise ModelError(f"{key} {value!r:.60} is malformed", where=f"layer {config.name!r}")


def _nested(value: list[object]) -> bool:
    return len(value) == 1 and isinstance(value[0], list)


def _pair(item: object) -> tuple[int, int] | None:
    begin, end = item if isinstance(item, list) and len(item) == 2 else (item, item)
    if isinstance(begin, bool) or isinstance(end, bool):
        return None
    if not isinstance(begin, int) or not isinstance(end, int) or min(begin, end) < 0:
        return None
    return begin, end


def _around_space(pairs: _Pairs, first: bool) -> _Pairs:
    """Pairs for every axis: none for batch and channels."""
    none = (0, 0)
    return (none, none, *pairs) if first else (none, *pairs, none)


@layer_by_rank("ZeroPadding{}D")
def zero_padding(config: LayerConfig, rank: int) -> LayerPlan:
    """Zeros before and after each spatial axis."""
    pairs = _around_space(_pairs(config, "padding", rank), config.channels_first())

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.node(Pad(pairs), [scope.single(inputs)])

    return LayerPlan(build)


@layer_by_rank("Cropping{}D")
def cropping(config: LayerConfig, rank: int) -> LayerPlan:
    """Cuts off both ends of each spatial axis."""
    pairs = _around_space(_pairs(config, "cropping", rank), config.channels_first())

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.single(inputs)
        shape = scope.shape(x)
        if len(shape) != len(pairs):
            raise ModelError(f"its input has shape {shape}, expected {len(pairs)} dimensions")
        if any(b + e >= d for d, (b, e) in zip(shape, pairs, strict=True)):
            raise ModelError(f"cropping {pairs} leaves nothing of its input {shape}")
        starts = tuple(b for b, _ in pairs)
        ends = tuple(d - e for d, (_, e) in zip(shape, pairs, strict=True))
        return scope.node(Slice(starts, ends, (1,) * len(shape)), [x])

    return LayerPlan(build)


def _plan_up_sampling(
    size: tuple[int, ...], first: bool, mode: str, coordinate: str, rounding: str
) -> LayerPlan:
    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        spatial = scope.shape(x)[1:-1]
        check_rank(spatial, len(size))
        sizes = tuple(d * k for d, k in zip(spatial, size, strict=True))
        y = scope.node(Resize(mode, sizes, coordinate, rounding), [x])
        return scope.channels_back(y, first)

    return LayerPlan(build)


@layer("UpSampling1D")
def up_sampling_1d(config: LayerConfig) -> LayerPlan:
    """Each element repeated; there is no interpolation."""
    size = config.integers("size", 1, (2,))
    return _plan_up_sampling(size, False, "nearest", "asymmetric", "floor")


@layer("UpSampling3D")
def up_sampling_3d(config: LayerConfig) -> LayerPlan:
    """Each element repeated: within images, then the images."""
    depth, *size = config.integers("size", 3, (2, 2, 2))
    first = config.channels_first()

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        n, d, h, w, c = _five(scope.shape(x))
        images = scope.node(Reshape((n * d, h, w, c)), [x], "images")
        sizes = (h * size[0], w * size[1])
        larger = scope.node(Resize("nearest", sizes, "asymmetric", "floor"), [images], "larger")
        wide = scope.node(Reshape((n, d, 1, prod(sizes) * c)), [larger], "single")
        copies = scope.node(Expand((n, d, depth, prod(sizes) * c)), [wide], "copies")
        y = scope.node(Reshape((n, d * depth, *sizes, c)), [copies], "" if not first else "volume")
        return scope.channels_back(y, first)

    return LayerPlan(build)


def _five(shape: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    check_rank(shape[1:-1], 3)
    n, d, h, w, c = shape
    return n, d, h, w, c


@layer("UpSampling2D")
def up_sampling_2d(config: LayerConfig) -> LayerPlan:
    """Each element repeated, or interpolated."""
    size = config.integers("size", 2, (2, 2))
    first = config.channels_first()
    mode = config.choice("interpolation", "nearest", ("nearest", "bilinear", *FILTERS))
    if mode == "nearest":
        return _plan_up_sampling(size, first, mode, "asymmetric", "floor")
    if mode in FILTERS:
        return _plan_filtering(size, first, FILTERS[mode])
    coordinate = _bilinear_coordinate(config.version)
    return _plan_up_sampling(size, first, "linear", coordinate, "floor")


def _plan_filtering(size: tuple[int, ...], first: bool, how: Filter) -> LayerPlan:
    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        check_rank(scope.shape(x)[1:-1], len(size))
        for k, factor in enumerate(size, 1):
            if factor > 1:
                x = filtered(scope, x, k, scope.shape(x)[k] * factor, how)
        return scope.channels_back(x, first)

    return LayerPlan(build)


def _bilinear_coordinate(version: KerasVersion) -> str:
    """Where bilinear interpolation samples.

    Keras before 2.4 used the corner-aligned grid of TensorFlow 1; tf.keras changed to pixel centres
    with TensorFlow 1.15 and 2.0, when its version was 2.2.4-tf.
    """
    if (version.major, version.minor) >= (2, 4):
        return "half_pixel"
    if not version.within_tensorflow:
        return "asymmetric"
    if (version.major, version.minor) >= (2, 3):
        return "half_pixel"
    raise UnsupportedError(
        f"bilinear interpolation of Keras {version.text} depends on the version of TensorFlow",
        cure="load the model in the TensorFlow that trained it and check; then save it in Keras 3",
    )
