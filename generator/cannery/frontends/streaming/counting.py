"""Constants for each step, as those of a running mean: computed from the number of the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.stream import Stream
from cannery.ir.graph import Array
from cannery.ops.elementwise import Add, Min, Mul, Reciprocal

#: What rounding may change, relative to the largest number of a channel.
_ROUNDING = 3e-7


@dataclass(frozen=True)
class _Line:
    """Along the first axis `first + slope * k`, for k up to `last`, where it stops growing."""

    first: NDArray[np.float64]
    slope: NDArray[np.float64]
    last: int

    def gives(self, rows: NDArray[np.float64], *, turned: bool) -> bool:
        """Whether the rows are what comes out in float32, `turned` into reciprocals."""
        steps = np.minimum(np.arange(len(rows)), self.last).reshape(-1, *[1] * self.first.ndim)
        with np.errstate(all="ignore"):
            made = self.first.astype(np.float32) + self.slope.astype(np.float32) * steps
            off = np.abs((1.0 / made if turned else made) - rows)
        return bool((off <= 4 * _ROUNDING * np.abs(rows).max(axis=0)).all())


def by_step(b: Builder, name: str, array: Array, axis: int, stream: Stream) -> str:
    """A constant with an element for each step along `axis`, for a call.

    Raises UnsupportedError where it is neither the same for all steps, nor evenly spaced, nor the
    reciprocal of such, up to a step after which it stays as it is.
    """
    if _is_same(array, axis):
        return b.constant(f"{name}/step", array.take([0], axis))
    if array.dtype != np.float32:
        raise UnsupportedError("it has a constant for each step")
    found, turned = _line_of(array, axis)
    if found is None:
        raise UnsupportedError("it has a constant for each step, not evenly spaced ones")

    def of(values: NDArray[np.float64]) -> Array:
        return np.moveaxis(values[None], 0, axis).astype(np.float32)

    shape = (stream.count, *[1] * (array.ndim - axis - 1))
    index = b.index(stream, shape)
    if found.last < array.shape[axis] - 1:
        index = b.op(Min(), f"{name}/index", index, b.scalar(float(found.last)))
    grown = b.op(Mul(), f"{name}/grown", index, b.constant(f"{name}/slope", of(found.slope)))
    value = b.op(Add(), f"{name}/step", grown, b.constant(f"{name}/first", of(found.first)))
    return b.op(Reciprocal(), f"{name}/reciprocal", value) if turned else value


def is_computed(array: Array, axis: int) -> bool:
    """Whether `by_step` makes such a constant."""
    return _is_same(array, axis) or _line_of(array, axis)[0] is not None


def _is_same(array: Array, axis: int) -> bool:
    return bool((array == array.take([0], axis)).all())


def _line_of(array: Array, axis: int) -> tuple[_Line | None, bool]:
    """The line that the elements are on, if they are, or their reciprocals, which is the second."""
    rows = np.moveaxis(np.asarray(array, np.float64), axis, 0)
    found, turned = _line(rows), False
    if found is None and rows.all():
        with np.errstate(over="ignore"):
            found, turned = _line(1.0 / rows), True
    return (found if found and found.gives(rows, turned=turned) else None), turned


def _line(rows: NDArray[np.float64]) -> _Line | None:
    """The line that the rows are on, if they are; any two would be."""
    if len(rows) < 3 or not np.isfinite(rows).all():
        return None
    first, allowed = rows[0], _ROUNDING * np.abs(rows).max(axis=0)
    same = (np.abs(rows - rows[-1]) <= allowed).reshape(len(rows), -1).all(1)
    last = 0 if same.all() else len(rows) - int(np.argmin(same[::-1]))
    slope = (rows[last] - first) / max(last, 1)
    steps = np.minimum(np.arange(len(rows)), last).reshape(-1, *[1] * first.ndim)
    off = np.abs(first + slope * steps - rows)
    return _Line(first, slope, last) if (off <= allowed).all() else None
