"""Constants of TensorFlow Lite that are stored sparsely: only blocks of numbers that are not zero.

The levels of a tree are the axes in the order in which they are traversed, those within blocks
last. A dense level has all places of its axis below each node, a sparse one those that it lists, as
a matrix in CSR format lists the columns of each row. The numbers are those of the leaves, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.ir.graph import Array

_I64 = NDArray[np.int64]

#: Classes of vectors of indices, by their numbers in the schema.
_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


@dataclass(frozen=True)
class Level:
    """An axis with `size` places, or with the places `indices[segments[p]:segments[p + 1]]` below
    the node p of the level before.
    """

    size: int
    segments: _I64 | None = None
    indices: _I64 | None = None


@dataclass(frozen=True)
class Sparsity:
    """`order`: the axis of each level; axis rank + k is within blocks of the axis blocked[k]."""

    order: tuple[int, ...]
    blocked: tuple[int, ...]
    levels: tuple[Level, ...]


def read_sparsity(package: Any, table: Any, count: Callable[[int, str], int]) -> Sparsity:
    """The table SparsityParameters of a file; `count` checks the length of each vector."""

    def numbers(holder: Any, field: str) -> _I64:
        count(getattr(holder, f"{field}Length")(), "places of a sparse tensor")
        found = getattr(holder, f"{field}AsNumpy")()
        return np.asarray(found if isinstance(found, np.ndarray) else (), np.int64)

    def vector(kind: int, union: Any) -> _I64:
        if union is None or kind not in _VECTORS:
            raise ModelError(f"the places of a sparse tensor have the type {kind}")
        holder = getattr(package, _VECTORS[kind])()
        holder.Init(union.Bytes, union.Pos)
        return numbers(holder, "Values")

    def level(each: Any) -> Level:
        if each.Format() == package.DimensionType.DENSE:
            return Level(each.DenseSize())
        segments = vector(each.ArraySegmentsType(), each.ArraySegments())
        return Level(0, segments, vector(each.ArrayIndicesType(), each.ArrayIndices()))

    order, blocked = (numbers(table, field) for field in ("TraversalOrder", "BlockMap"))
    levels = count(table.DimMetadataLength(), "axes of a sparse tensor")
    return Sparsity(
        tuple(map(int, order)), tuple(map(int, blocked)),
        tuple(level(table.DimMetadata(k)) for k in range(levels)),
    )  # fmt: skip


def dense(sparsity: Sparsity, shape: Sequence[int], values: Array) -> Array:
    """All numbers, of this shape; raises ModelError for a tree that does not fit it."""
    sizes = _sizes(sparsity, shape)
    places: dict[int, _I64] = {}
    nodes = np.zeros(1, np.int64)
    for axis, level in zip(sparsity.order, sparsity.levels, strict=True):
        parents, nodes = _below(nodes, level, sizes[axis], prod(shape))
        places = {a: p[parents] for a, p in places.items()} | {axis: nodes}
    if len(nodes) != values.size:
        raise ModelError(f"{values.size} numbers for {len(nodes)} places of a sparse tensor")
    for k, axis in enumerate(sparsity.blocked):
        inner = len(shape) + k
        places[axis] = places[axis] * sizes[inner] + places[inner]
    found = np.zeros(tuple(shape), values.dtype)
    found[tuple(places[a] for a in range(len(shape)))] = values.reshape(-1)
    return found


def _sizes(sparsity: Sparsity, shape: Sequence[int]) -> list[int]:
    """The places of each axis, those within blocks last."""
    rank, total = len(shape), len(shape) + len(sparsity.blocked)
    blocked = sparsity.blocked
    if sorted(sparsity.order) != list(range(total)) or len(sparsity.levels) != total or not rank:
        raise ModelError(f"{len(sparsity.levels)} levels of a sparse tensor with {total} axes")
    sizes = [*shape, *(0 for _ in blocked)]
    for axis, level in zip(sparsity.order, sparsity.levels, strict=True):
        if axis < rank:
            continue
        of = blocked[axis - rank]
        if not 0 <= of < rank or blocked.count(of) > 1 or level.size < 1 or shape[of] % level.size:
            raise ModelError(f"blocks of {level.size} along axis {of} of a sparse {tuple(shape)}")
        sizes[axis] = level.size
        sizes[of] = shape[of] // level.size
    return sizes


def _below(nodes: _I64, level: Level, size: int, most: int) -> tuple[_I64, _I64]:
    """The nodes below those of a level: the number of the parent, and the place along the axis."""
    if level.segments is None or level.indices is None:
        if level.size != size or len(nodes) * size > most:
            raise ModelError(f"{level.size} places along an axis of {size} of a sparse tensor")
        count = len(nodes)
        return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    steps, indices = np.diff(level.segments), level.indices
    whole = len(level.segments) == len(nodes) + 1 and level.segments[0] == 0
    if not whole or (steps < 0).any() or level.segments[-1] != len(indices):
        raise ModelError("a sparse tensor whose segments do not cover its indices")
    if ((indices < 0) | (indices >= size)).any() or len(indices) > most:
        raise ModelError(f"an index of a sparse tensor is outside of an axis of {size}")
    return np.repeat(np.arange(len(nodes)), steps), indices
