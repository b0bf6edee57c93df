"""Elements at computed places, read and written; triangles, one-hot codes, reversed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.arithmetic import element_type
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.movement import sliced, whole, without
from cannery.frontends.onnx.operators.values import (
    MAX_CONSTANT,
    Computed,
    Constant,
    Value,
    check_size,
)
from cannery.ops.indexing import gather as gathers
from cannery.ops.indexing import scatter as scatters
from cannery.ops.indexing.masks import OneHot, ReverseSequence, Trilu


def _check_known(indices: Value, size: int) -> None:
    """ModelError for known indices outside of an axis; computed ones are clamped."""
    if isinstance(indices, Constant) and indices.array.size:
        if indices.array.dtype.kind not in "iu":
            raise ModelError("its indices are not integers")
        low, high = int(indices.array.min()), int(indices.array.max())
        if low < -size or high >= size:
            raise ModelError(f"indices {low} to {high} are outside of an axis of {size}")


@operator("Gather")
def gather(scope: Scope) -> Value:
    """Slices at indices; one known index, or evenly spaced known ones, become a Slice."""
    x, indices = scope.input(0), scope.input(1)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    _check_known(indices, x.shape[axis])
    found = _as_slice(scope, x, indices, axis)
    if found is not None:
        return found
    lying, perm = scope.as_is(x)
    if len(indices.shape) == 1:
        names = [lying, scope.plain(indices)]
        return scope.result(scope.node(gathers.Gather(perm.index(axis)), names), perm)
    names = [scope.plain(x), scope.plain(indices)]
    return scope.result(scope.node(gathers.Gather(axis), names))


def _as_slice(scope: Scope, x: Value, indices: Value, axis: int) -> Value | None:
    """A Slice instead of a Gather, if possible."""
    if isinstance(indices, Computed) or indices.array.ndim > 1 or not indices.array.size:
        return None
    numbers = [scope.axis(int(i), x.shape[axis]) for i in indices.array.reshape(-1)]
    steps = {b - a for a, b in pairwise(numbers)}
    if len(steps) > 1 or 0 in steps:
        return None
    step = steps.pop() if steps else 1
    bounds = whole(x)
    bounds[axis] = (numbers[0], numbers[-1] + (1 if step > 0 else -1), step)
    part = sliced(scope, x, bounds, "" if indices.array.ndim else "slice")
    return part if indices.array.ndim else without(scope, part, [axis])


@operator("GatherElements")
def gather_elements(scope: Scope) -> Value:
    """One element for each index."""
    x, indices = scope.input(0), scope.input(1)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    _check_known(indices, x.shape[axis])
    names = [scope.plain(x), scope.plain(indices)]
    return scope.result(scope.node(gathers.GatherElements(axis), names))


@operator("GatherND")
def gather_nd(scope: Scope) -> Value:
    """Slices at several indices each."""
    x, indices = scope.input(0), scope.input(1)
    batch = scope.integer("batch_dims", 0)
    _check_known_tuples(indices, x.shape[max(batch, 0) :])
    names = [scope.plain(x), scope.plain(indices)]
    return scope.result(scope.node(gathers.GatherND(batch), names))


def _check_known_tuples(indices: Value, sizes: Sequence[int]) -> None:
    """The same for indices of several axes, given along the last axis."""
    if isinstance(indices, Constant) and indices.shape:
        for k, size in enumerate(sizes[: indices.shape[-1]]):
            _check_known(Constant(indices.array[..., k]), size)


@operator("ScatterElements", "Scatter")
def scatter_elements(scope: Scope) -> Value:
    """Replaces or changes elements, one for each index."""
    x, indices = scope.input(0), scope.input(1)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    _check_known(indices, x.shape[axis])
    reduction = scope.text("reduction", "none", scatters.REDUCTIONS)
    names = [scope.plain(scope.input(k)) for k in range(3)]
    return scope.result(scope.node(scatters.ScatterElements(axis, reduction), names))


@operator("ScatterND")
def scatter_nd(scope: Scope) -> Value:
    """Replaces or changes slices."""
    reduction = scope.text("reduction", "none", scatters.REDUCTIONS)
    _check_known_tuples(scope.input(1), scope.input(0).shape)
    names = [scope.plain(scope.input(k)) for k in range(3)]
    return scope.result(scope.node(scatters.ScatterND(reduction), names))


@operator("TensorScatter")
def tensor_scatter(scope: Scope) -> Value:
    """Writes new elements into a cache along an axis, for each batch from its own place."""
    x, update = scope.input(0), scope.input(1)
    axis = scope.axis(scope.integer("axis", -2), len(x.shape))
    starts = scope.optional(2)
    if starts is None:
        starts = Constant(np.zeros(x.shape[:1], np.int64), f"{scope.name}/starts")
    mode = scope.text("mode", "linear", ("linear", "circular"))
    names = [scope.plain(v) for v in (x, update, starts)]
    return scope.result(scope.node(scatters.TensorScatter(axis, mode == "circular"), names))


@operator("Trilu")
def trilu(scope: Scope) -> Value:
    """Zeros on one side of a diagonal with a known number."""
    number = scope.known_integer(1, "diagonals") or 0
    x = scope.plain(scope.input(0))
    return scope.result(scope.node(Trilu(bool(scope.integer("upper", 1)), number), [x]))


@operator("OneHot")
def one_hot(scope: Scope) -> Value:
    """A new axis of known size."""
    depth = scope.known_integer(1, "depths")
    if depth is None:
        raise ModelError("has no depth")
    indices = scope.input(0)
    axis = scope.axis(scope.integer("axis", -1), len(indices.shape) + 1)
    names = [scope.plain(indices), scope.plain(scope.input(2))]
    return scope.result(scope.node(OneHot(depth, axis), names))


@operator("ReverseSequence")
def reverse_sequence(scope: Scope) -> Value:
    """Reverses sequences of different lengths."""
    op = ReverseSequence(scope.integer("batch_axis", 1), scope.integer("time_axis", 0))
    return scope.result(scope.node(op, [scope.plain(scope.input(0)), scope.plain(scope.input(1))]))


@operator("Compress")
def compress(scope: Scope) -> Value:
    """The slices, or elements, for which a known condition holds."""
    x = scope.input(0)
    condition = scope.known(1, "conditions")
    if condition is None or condition.ndim != 1:
        raise ModelError("has no list of conditions")
    axis = 0
    if scope.has("axis"):
        axis = scope.axis(scope.integer("axis"), len(x.shape))
    else:
        x = scope.reshaped(x, (int(np.prod(x.shape)),), "flat")
    (chosen,) = np.nonzero(condition[: x.shape[axis]])
    if not chosen.size:
        raise UnsupportedError("nothing is left")
    indices = Constant(chosen.astype(np.int64), f"{scope.name}/indices")
    names = [scope.plain(x), scope.plain(indices)]
    return scope.result(scope.node(gathers.Gather(axis), names))


@operator("EyeLike")
def eye_like(scope: Scope) -> Value:
    """Ones on a diagonal: a constant."""
    x = scope.input(0)
    if len(x.shape) != 2:
        raise ModelError(f"its input has shape {x.shape}, expected a matrix")
    check_size(x.shape, MAX_CONSTANT)
    dtype = element_type(scope.integer("dtype")) if scope.has("dtype") else np.dtype(scope.dtype(x))
    return Constant(np.eye(*x.shape, k=scope.integer("k", 0), dtype=dtype), scope.name)
