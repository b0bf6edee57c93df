"""Operators that move elements or change their type."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.arithmetic import bounds_of_slices, element_type, target_shape
from cannery.frontends.onnx.operators.base import MAX_NODES, Scope, operator
from cannery.frontends.onnx.operators.values import (
    MAX_CONSTANT,
    Computed,
    Constant,
    Value,
    channels_last,
    check_size,
    identity,
    supported,
)
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.indexing.gather import Gather
from cannery.ops.movement.op import PAD_MODES, Cast, Expand, Pad, Reshape, Slice, Transpose


@operator("Constant")
def constant(scope: Scope) -> Value:
    """A tensor in an attribute."""
    tensor = scope.raw("value")
    if callable(tensor):
        return Constant(tensor(), scope.name)
    if scope.has("value_float"):
        number = scope.number("value_float", nan=True)
        return Constant(np.asarray(number, np.float32), scope.name)
    if scope.has("value_floats"):
        numbers = scope.numbers("value_floats", nan=True)
        return Constant(np.asarray(numbers, np.float32), scope.name)
    if scope.has("value_int"):
        return Constant(np.asarray(scope.integer("value_int"), np.int64), scope.name)
    if scope.has("value_ints"):
        return Constant(np.asarray(scope.integers("value_ints"), np.int64), scope.name)
    raise UnsupportedError("it holds no dense tensor of numbers")


@operator("Shape")
def shape(scope: Scope) -> Value:
    """The shape of a tensor, which is known; version 15 can take part of it."""
    dims = scope.input(0).shape
    start = scope.integer("start", 0)
    end = scope.integer("end", len(dims))
    return Constant(np.asarray(dims[slice(start, end)], np.int64), scope.name)


@operator("Size")
def size(scope: Scope) -> Value:
    """The number of elements."""
    return Constant(np.asarray(prod(scope.input(0).shape), np.int64), scope.name)


@operator("Cast", "CastLike")
def cast(scope: Scope) -> Value:
    """To another element type; floats stay as they are."""
    scope.ignore("saturate", "round_mode")
    x = scope.input(0)
    if scope.kind == "CastLike":
        target = scope.dtype(scope.input(1))
    else:
        target = element_type(scope.integer("to")).name
    if target == scope.dtype(x):
        return x
    dtype = supported(target)
    name, perm = scope.as_is(x)
    return scope.result(scope.node(Cast(dtype), [name]), perm)


def as_type(scope: Scope, value: Value, dtype: DType, label: str) -> Value:
    """A tensor converted to another element type."""
    if scope.dtype(value) == dtype.value:
        return value
    name, perm = scope.as_is(value)
    return scope.result(scope.node(Cast(dtype), [name], label), perm)


@operator("Reshape")
def reshape(scope: Scope) -> Value:
    """Other dimensions, the same elements in order."""
    x = scope.input(0)
    return scope.reshaped(x, target_shape(scope, x.shape))


@operator("Flatten")
def flatten(scope: Scope) -> Value:
    """To a matrix: the axes before `axis`, and the rest."""
    x = scope.input(0)
    axis = scope.integer("axis", 1)
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise ModelError(f"axis {axis} is outside of a tensor with {rank} dimensions")
    axis += rank if axis < 0 else 0
    return scope.reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _given_axes(scope: Scope) -> tuple[int, ...] | None:
    """Axes from an attribute until version 12, then from input 1."""
    if scope.opset >= 13:
        return scope.known_integers(1, "axes")
    return scope.integers("axes") if scope.has("axes") else None


@operator("Squeeze")
def squeeze(scope: Scope) -> Value:
    """Without axes of 1: those given, or all."""
    x = scope.input(0)
    given = _given_axes(scope)
    rank = len(x.shape)
    ones = [a for a, d in enumerate(x.shape) if d == 1]
    axes = scope.axes(ones if given is None else given, rank)
    if any(x.shape[a] != 1 for a in axes):
        raise ModelError(f"axes {axes} of shape {x.shape} are not all 1")
    return without(scope, x, axes)


def without(scope: Scope, x: Value, axes: Sequence[int], label: str = "") -> Value:
    """A tensor without some axes of 1, in unchanged order."""
    kept = [a for a in range(len(x.shape)) if a not in axes]
    target = tuple(x.shape[a] for a in kept)
    if isinstance(x, Constant):
        return scope.reshaped(x, target)
    perm = tuple(kept.index(p) for p in x.perm if p in kept)
    lying = tuple(target[p] for p in perm)
    return scope.result(scope.node(Reshape(lying), [x.name], label), perm)


@operator("Unsqueeze")
def unsqueeze(scope: Scope) -> Value:
    """With more axes of 1."""
    x = scope.input(0)
    given = _given_axes(scope)
    if given is None:
        raise ModelError("has no axes")
    rank = len(x.shape) + len(given)
    axes = scope.axes(given, rank)
    dims = iter(x.shape)
    target = tuple(1 if a in axes else next(dims) for a in range(rank))
    return scope.reshaped(x, target)


@operator("Transpose")
def transpose(scope: Scope) -> Value:
    """Moves nothing: only the recorded order of the axes changes."""
    x = scope.input(0)
    rank = len(x.shape)
    perm = scope.integers("perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"perm {perm} is not a permutation of {rank} axes")
    if isinstance(x, Constant):
        return Constant(x.array.transpose(perm), scope.name)
    lying = tuple(perm.index(p) for p in x.perm)
    return Computed(x.name, lying, tuple(x.shape[p] for p in perm), x.dtype)


@operator("Expand")
def expand(scope: Scope) -> Value:
    """Repeated to a shape that it broadcasts to."""
    x = scope.input(0)
    wanted = scope.known_integers(1, "shapes")
    if wanted is None:
        raise ModelError("has no shape")
    try:
        target = np.broadcast_shapes(x.shape, wanted)
    except ValueError:
        raise ModelError(f"shape {x.shape} does not broadcast to {wanted}") from None
    return expanded(scope, x, target)


def expanded(scope: Scope, x: Value, target: tuple[int, ...], label: str = "") -> Value:
    """A tensor repeated to a shape."""
    if x.shape == target:
        return x
    name, perm = scope.as_is(x)
    if len(x.shape) != len(target):
        name, perm = scope.plain(x), identity(len(target))
    return scope.result(scope.node(Expand(tuple(target[p] for p in perm)), [name], label), perm)


@operator("Tile")
def tile(scope: Scope) -> Value:
    """Repeated along each axis: an axis of d is expanded as [n, d] with n before it."""
    x = scope.input(0)
    repeats = scope.known_integers(1, "repeats")
    if repeats is None or len(repeats) != len(x.shape) or min(repeats, default=1) < 1:
        raise ModelError(f"repeats {repeats} do not fit shape {x.shape}")
    split = tuple(v for d in x.shape for v in (1, d))
    wide = tuple(v for d, n in zip(x.shape, repeats, strict=True) for v in (n, d))
    target = tuple(d * n for d, n in zip(x.shape, repeats, strict=True))
    if target == x.shape:
        return x
    parts = scope.reshaped(x, split, "split")
    return scope.reshaped(expanded(scope, parts, wide, "expanded"), target)


@operator("Concat")
def concat(scope: Scope) -> Value:
    """Joined along an axis."""
    values = scope.all_inputs()
    rank = len(values[0].shape)
    if any(len(v.shape) != rank for v in values):
        raise ModelError(f"joins shapes {', '.join(str(v.shape) for v in values)}")
    axis = scope.axis(scope.integer("axis"), rank)
    values = [v for v in values if v.shape[axis]] or values[:1]  # empty tensors add nothing
    perms = [v.perm for v in values if isinstance(v, Computed)]
    perm = next((p for p in perms if p != identity(rank)), identity(rank))
    names = [scope.place(v, perm) for v in values]
    return scope.result(scope.node(Concat(perm.index(axis)), names), perm)


def sliced(
    scope: Scope, x: Value, bounds: Sequence[tuple[int, int, int]], label: str = ""
) -> Computed:
    """A part of a tensor: (start, end, step) per axis of the model, resolved."""
    name, perm = scope.as_is(x)
    starts, ends, steps = zip(*(bounds[p] for p in perm), strict=True)
    return scope.result(scope.node(Slice(starts, ends, steps), [name], label), perm)


@operator("Slice")
def slice_(scope: Scope) -> Value:
    """Every step-th element from start to end, along some axes."""
    x = scope.input(0)
    bounds = bounds_of_slices(scope, x.shape)
    return sliced(scope, x, bounds) if x.shape else x


def whole(x: Value) -> list[tuple[int, int, int]]:
    """Bounds of a slice that is all of a tensor."""
    return [(0, d, 1) for d in x.shape]


@operator("Split")
def split(scope: Scope) -> Sequence[Value]:
    """Parts along an axis: of given sizes, or as equal as possible."""
    x = scope.input(0)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    total = x.shape[axis]
    sizes = scope.known_integers(1, "sizes") if scope.opset >= 13 else None
    if scope.opset < 13 and scope.has("split"):
        sizes = scope.integers("split")
    if sizes is None:
        sizes = _equal(total, scope.integer("num_outputs", scope.outputs))
    if sum(sizes) != total or min(sizes, default=0) < 0 or len(sizes) != scope.outputs:
        raise ModelError(f"cannot split {total} into {sizes} for {scope.outputs} outputs")
    found, start = [], 0
    for k, count in enumerate(sizes):
        bounds = whole(x)
        bounds[axis] = (start, start + count, 1)
        found.append(sliced(scope, x, bounds, f"part{k}"))
        start += count
    return found


def _equal(total: int, count: int) -> tuple[int, ...]:
    """Equal sizes, except for a smaller last one."""
    if not 1 <= count <= MAX_NODES:
        raise ModelError(f"splits into {count} parts")
    each = -(-total // count)
    return tuple(max(min(each, total - k * each), 0) for k in range(count))


@operator("Pad")
def pad(scope: Scope) -> Value:
    """More elements around, or fewer where a pad is negative."""
    x = scope.input(0)
    mode = scope.text("mode", "constant", (*PAD_MODES, "wrap"))
    given, value = _pads(scope)
    rank = len(x.shape)
    axes = scope.known_integers(3, "axes") if scope.opset >= 18 else None
    axes = tuple(range(rank)) if axes is None else axes
    if len(given) != 2 * len(axes):
        raise ModelError(f"pads {given} do not fit shape {x.shape}")
    pairs = [(0, 0)] * rank
    for k, axis in enumerate(axes):
        pairs[scope.axis(axis, rank)] = (given[k], given[k + len(axes)])
    if any(min(pair) < 0 for pair in pairs):
        x = _cropped(scope, x, pairs, mode)
        pairs = [(max(b, 0), max(e, 0)) for b, e in pairs]
    if mode == "wrap":
        return _wrapped(scope, x, pairs)
    name, perm = scope.as_is(x)
    op = Pad(tuple(pairs[p] for p in perm), value if mode == "constant" else 0.0, mode)
    return scope.result(scope.node(op, [name]), perm)


def _pads(scope: Scope) -> tuple[tuple[int, ...], float]:
    if scope.opset < 11:
        return scope.integers("pads"), scope.number("value", 0.0)
    given = scope.known_integers(1, "pads")
    if given is None:
        raise ModelError("has no pads")
    value = scope.known(2, "values")
    return given, 0.0 if value is None or not value.size else float(value.reshape(-1)[0])


def _wrapped(scope: Scope, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """A tensor that wraps around: elements at known places, axis after axis."""
    for axis, (begin, end) in enumerate(pairs):
        d = x.shape[axis]
        if not begin + end:
            continue
        if not d:
            raise ModelError(f"axis {axis} of shape {x.shape} has nothing to repeat")
        check_size((begin + d + end,), MAX_CONSTANT)
        places = Constant(np.arange(-begin, d + end) % d, f"{scope.name}/places{axis}")
        names = [scope.plain(x), scope.plain(places)]
        x = scope.result(scope.node(Gather(axis), names, f"wrapped{axis}"))
    return x


def _cropped(scope: Scope, x: Value, pairs: Sequence[tuple[int, int]], mode: str) -> Value:
    if mode != "constant":
        raise UnsupportedError(f"negative pads in mode {mode!r}")
    bounds = [(max(-b, 0), d - max(-e, 0), 1) for d, (b, e) in zip(x.shape, pairs, strict=True)]
    if any(start > end for start, end, _ in bounds):
        raise ModelError(f"pads {tuple(pairs)} leave nothing of shape {x.shape}")
    return sliced(scope, x, bounds, "cropped")


@operator("DepthToSpace", "SpaceToDepth")
def blocks(scope: Scope) -> Value:
    """Channels to blocks of pixels, or back, by splitting axes and swapping them."""
    x = scope.input(0)
    if len(x.shape) != 4:
        raise ModelError(f"its input has shape {x.shape}, expected 4 dimensions")
    b = scope.integer("blocksize")
    n, c, h, w = x.shape
    to_space = scope.kind == "DepthToSpace"
    if b < 1 or (c % (b * b) if to_space else (h % b or w % b)):
        raise ModelError(f"blocksize {b} does not fit shape {x.shape}")
    source = scope.last(x)
    depth_first = scope.text("mode", "DCR", ("DCR", "CRD")) == "DCR"
    if not to_space:
        inner: tuple[int, ...] = (n, h // b, b, w // b, b, c)
        perm = (0, 1, 3, 2, 4, 5) if depth_first else (0, 1, 3, 5, 2, 4)
        outer = (n, h // b, w // b, b * b * c)
    elif depth_first:
        inner = (n, h, w, b, b, c // (b * b))
        perm, outer = (0, 1, 3, 2, 4, 5), (n, h * b, w * b, c // (b * b))
    else:
        inner = (n, h, w, c // (b * b), b, b)
        perm, outer = (0, 1, 4, 2, 5, 3), (n, h * b, w * b, c // (b * b))
    parts = scope.node(Reshape(inner), [source], "split")
    moved = scope.node(Transpose(perm), [parts], "exchanged")
    return scope.result(scope.node(Reshape(outer), [moved]), channels_last(4))
