"""Reshapes tensors whose axes are permuted, without moving elements if possible.

A reshape splits into groups: neighbouring axes of the tensor become neighbouring axes of the result
with as many elements. If each group is contiguous and in order, so is its part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.frontends.onnx.operators.values import Perm, channels_last, identity


@dataclass(frozen=True)
class Regrouped:
    """A reshape of a tensor in the order `source` to `shape`; the result has the order `perm`.

    Both are permutations of axes as in `Computed`.
    """

    source: Perm
    shape: tuple[int, ...]
    perm: Perm


@dataclass(frozen=True)
class _Group:
    """Axes of the tensor that become axes of the result; axes of 1 belong to none."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def regroup(shape: Sequence[int], target: Sequence[int], perm: Perm) -> Regrouped | None:
    """The reshape of a tensor in its present order; None if elements must be moved."""
    found = _in_order(_groups(shape, target), [p for p in perm if shape[p] != 1])
    if found is None:
        return None
    result = _completed([a for g in found for a in g.after], target, perm == identity(len(perm)))
    return Regrouped(perm, tuple(target[p] for p in result), result)


def regroup_for(shape: Sequence[int], target: Sequence[int], perm: Perm) -> Regrouped | None:
    """The order that a tensor needs for a result in the order `perm`; None if there is none."""
    mirrored = [_Group(g.after, g.before) for g in _groups(shape, target)]
    found = _in_order(mirrored, [p for p in perm if target[p] != 1])
    if found is None:
        return None
    source = _completed([a for g in found for a in g.after], shape, False)
    return Regrouped(source, tuple(target[p] for p in perm), perm)


def _groups(shape: Sequence[int], target: Sequence[int]) -> list[_Group]:
    """The smallest groups. Both shapes have the same number of elements, not 0."""
    found = []
    before: list[int] = []
    after: list[int] = []
    sizes = [1, 1]
    waiting = [a for a, d in enumerate(target) if d != 1]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        before.append(axis)
        sizes[0] *= size
        while waiting and sizes[1] < sizes[0]:
            sizes[1] *= target[waiting[0]]
            after.append(waiting.pop(0))
        if sizes[0] == sizes[1]:
            found.append(_Group(tuple(before), tuple(after)))
            before, after, sizes = [], [], [1, 1]
    return found


def _in_order(groups: Sequence[_Group], lying: Sequence[int]) -> list[_Group] | None:
    """The groups in their order, given the axes that are not 1; None if one is torn apart."""
    starts = {group.before[0]: group for group in groups}
    found, at = [], 0
    while at < len(lying):
        group = starts.get(lying[at])
        if group is None or tuple(lying[at : at + len(group.before)]) != group.before:
            return None
        found.append(group)
        at += len(group.before)
    return found


def _completed(order: Sequence[int], shape: Sequence[int], plain: bool) -> Perm:
    """A permutation with the axes that are not 1 in this order; a usual one if possible."""
    rank = len(shape)
    usual = (identity(rank), channels_last(rank))
    for perm in usual if plain else usual[::-1]:
        if [p for p in perm if shape[p] != 1] == list(order):
            return perm
    ones = [a for a in range(rank) if shape[a] == 1]
    found = [0] if 0 in ones else []
    for axis in order:  # ones before the axis that they precede
        first = axis
        while first and first - 1 in ones:
            first -= 1
        found += [a for a in range(first, axis) if a not in found]
        found.append(axis)
    return (*found, *(a for a in ones if a not in found))
