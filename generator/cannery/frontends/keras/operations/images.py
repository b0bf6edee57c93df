"""Operations on images and sequences: convolutions, pools, blocks of pixels, sizes, updates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import read_layer
from cannery.frontends.keras.layers.window import window_pads
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.frontends.keras.version import KerasVersion
from cannery.frontends.volumes import conv_3d
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import binary
from cannery.ops.indexing.scatter import ScatterND
from cannery.ops.logic.compare import Where
from cannery.ops.movement.op import Pad, Transpose
from cannery.ops.reduce.op import ReduceSum

#: Operations that are layers without weights, by class names with the number of spatial axes.
_LAYERS: Mapping[str, str] = {
    "MaxPool": "MaxPooling{}D", "AveragePool": "AveragePooling{}D",
    "AdaptiveMaxPool": "AdaptiveMaxPooling{}D", "AdaptiveAveragePool": "AdaptiveAveragePooling{}D",
}  # fmt: skip


def _as_layer(o: Operation, x: str, class_name: str, settings: Mapping[str, object]) -> str:
    """What a layer with these attributes makes of `x`."""
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    given = {k: v for k, v in values.items() if v is not None}
    config = LayerConfig("operation", class_name, given, KerasVersion("3", 3, 0))
    built = read_layer(config).plan.build(o.scope, [x])
    assert isinstance(built, str)
    return built


@operation(*_LAYERS, call="inputs x")
def pool(o: Operation) -> str:
    """As the layer of that kind."""
    x = o.float("inputs")
    keys = ("pool_size", "strides", "padding", "data_format", "output_size")
    settings = {key: found for key in keys if (found := o.given.raw(key)) is not None}
    return _as_layer(o, x, _LAYERS[o.class_name].format(o.scope.rank(x) - 2), settings)


@operation("Resize", call="images")
def resize(o: Operation) -> str:
    """As the layer Resizing."""
    height, width = o.given.integers("size") or (0, 0)
    keys = ("interpolation", "antialias", "crop_to_aspect_ratio", "pad_to_aspect_ratio",
            "fill_mode", "fill_value", "data_format")  # fmt: skip
    settings = {key: o.given.raw(key) for key in keys}
    return _as_layer(
        o, o.float("images"), "Resizing", {"height": height, "width": width, **settings}
    )


def _first(o: Operation, key: str = "data_format") -> bool:
    return o.given.word(key, "channels_last") == "channels_first"


def _spatial(o: Operation, key: str, count: int) -> tuple[int, ...]:
    found = o.given.integers(key) or (1,)
    found = found * count if len(found) == 1 else found
    if len(found) != count or min(found) < 1:
        raise ModelError(f"{key} {found} for {count} spatial axes")
    return found


@operation("Conv", "DepthwiseConv", call="inputs kernel")
def conv(o: Operation) -> str:
    """x[N,*S,C], kernel[*K,C/groups,F], or kernel[*K,C,m] of each channel alone."""
    first = _first(o)
    x, kernel = o.scope.channels_last(o.float("inputs"), first), o.float_table("kernel")
    spatial, shape = o.shape(x)[1:-1], o.shape(kernel)
    count, channels = len(spatial), o.shape(x)[-1]
    if len(shape) != count + 2 or not shape[-2] or channels % shape[-2]:
        raise ModelError(f"a kernel {shape} for inputs {o.shape(x)}")
    strides, dilations = (_spatial(o, key, count) for key in ("strides", "dilation_rate"))
    padding = o.given.word("padding", "valid")
    pads = window_pads(padding, spatial, shape[:-2], strides, dilations)
    groups = channels // shape[-2]
    if o.class_name == "DepthwiseConv":
        groups = channels
        kernel = o.reshaped(kernel, (*shape[:-2], 1, shape[-2] * shape[-1]), "kernel/channels")
    op = Conv(strides, pads, dilations, groups)
    y = conv_3d(o.scope, op, x, kernel, []) if count == 3 else o.node(op, [x, kernel], "conv")
    return o.scope.channels_back(y, first)


@operation("DepthToSpace", "SpaceToDepth")
def blocks(o: Operation) -> str:
    """Channels as the pixels of blocks, or the other way round."""
    x, first, size = o.tensor(), _first(o), o.given.integer("block_size")
    x = o.scope.channels_last(x, first)
    n, height, width, channels = o.shape(x)
    if o.class_name == "DepthToSpace":
        rest = channels // (size * size)
        wide = (n, height, width, size, size, rest)
        order, result = (0, 1, 3, 2, 4, 5), (n, height * size, width * size, rest)
    else:
        wide = (n, height // size, size, width // size, size, channels)
        order = (0, 1, 3, 2, 4, 5)
        result = (n, height // size, width // size, size * size * channels)
    if int(np.prod(wide)) != int(np.prod(result)) or np.prod(wide) != np.prod(o.shape(x)):
        raise ModelError(f"blocks of {size} of {o.shape(x)}")
    y = o.node(Transpose(order), [o.reshaped(x, wide, "blocks")], "order")
    return o.scope.channels_back(o.reshaped(y, result), first)


@operation("RGBToGrayscale", call="images")
def grey(o: Operation) -> str:
    """0.2989 R + 0.587 G + 0.114 B."""
    x, first = o.float("images"), _first(o)
    axis = 1 if first and o.scope.rank(x) == 4 else 0 if first else o.scope.rank(x) - 1
    shape = tuple(3 if k == axis else 1 for k in range(o.scope.rank(x)))
    shares = o.literal("shares", np.reshape([0.2989, 0.587, 0.114], shape))
    return o.node(ReduceSum((axis,), True), [o.node(binary.Mul(), [x, shares], "weighted")])


@operation("CropImages", "PadImages", call="images")
def edges(o: Operation) -> str:
    """Images without edges, or with edges of zeros; two of three numbers say which."""
    x, first = o.tensor("images"), _first(o)
    crops = o.class_name == "CropImages"
    word = "cropping" if crops else "padding"
    rank = o.scope.rank(x)
    top = rank - 2 if first else rank - 3
    bounds, pads = {}, [(0, 0)] * rank
    for axis, (low, high, size) in {
        top: ("top", "bottom", "height"), top + 1: ("left", "right", "width")
    }.items():  # fmt: skip
        whole = o.shape(x)[axis]
        keys = (f"{low}_{word}", f"{high}_{word}", f"target_{size}")
        given = [None if o.given.raw(k) is None else o.given.integer(k) for k in keys]
        begin, end = _sides(given, whole, -1 if crops else 1)
        bounds[axis], pads[axis] = (begin, whole - end, 1), (begin, end)
    return o.sliced(x, bounds) if crops else o.node(Pad(tuple(pads)), [x])


def _sides(given: list[int | None], whole: int, sign: int) -> tuple[int, int]:
    """What is left away or added before and after, given two of these and the result."""
    before, after, target = given
    if target is not None:
        rest = (target - whole) * sign
        before = rest - after if before is None and after is not None else before
        before = 0 if before is None else before
        after = rest - before if after is None else after
    found = (before or 0, after or 0)
    if min(found) < 0 or (target is not None and whole + sign * sum(found) != target):
        raise ModelError(f"edges {found} of {whole} pixels do not give {target}")
    return found


@operation("Slice", "SliceUpdate", call="inputs start_indices updates")
def box(o: Operation) -> str:
    """A box at a known place, or the tensor with another one there."""
    x, start = o.tensor("inputs"), o.given.array("start_indices", 1, whole=True)
    starts = [int(v) for v in np.atleast_1d(start)]
    whole = o.shape(x)
    update = o.given.optional_tensor("updates") if o.class_name == "SliceUpdate" else None
    size = o.shape(update) if update else o.given.integers("shape") or ()
    size = tuple(d - a if s == -1 else s for s, d, a in zip(size, whole, starts, strict=False))
    ends = [a + s for a, s in zip(starts, size, strict=False)]
    inside = len(starts) == len(size) == len(whole) and min(starts, default=0) >= 0
    if not inside or any(b > d for b, d in zip(ends, whole, strict=True)):
        raise ModelError(f"a box {size} at {starts} of {whole}")
    if update is None:
        return o.sliced(
            x, {k: (a, b, 1) for k, (a, b) in enumerate(zip(starts, ends, strict=True))}
        )
    pads = tuple((a, d - b) for a, b, d in zip(starts, ends, whole, strict=True))
    there = np.zeros(whole, bool)
    there[tuple(slice(a, b) for a, b in zip(starts, ends, strict=True))] = True
    placed = o.node(Pad(pads), [o.cast(update, o.dtype(x))], "placed")
    return o.node(Where(), [o.literal("there", there, DType.BOOL), placed, x])


@operation("ScatterUpdate", call="inputs indices updates")
def scatter_update(o: Operation) -> str:
    """The tensor with other elements, or slices, at places."""
    x, how = o.tensor("inputs"), o.given.word("reduction", "none")
    known = {"none": "none", "add": "add", "max": "max", "min": "min", "mul": "mul"}
    if how not in known:
        raise UnsupportedError(f"its reduction {how!r:.20} is not supported")
    updates = o.cast(o.table("updates"), o.dtype(x))
    return o.node(ScatterND(known[how]), [x, o.table("indices"), updates])
