"""Operators that choose elements by place: triangles, one-hot codes, reversed sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_axis, require_type
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class Trilu(ScalarOp):
    """x[.., M, N] with zeros below (`upper`) or above its `k`-th diagonal."""

    upper: bool = True
    k: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError unless it is one matrix or several."""
        (x,), _ = operands(self, inputs, 1)
        require(x.rank >= 2, self, f"shape {x.shape} is not a matrix")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Triangles of numpy."""
        (x,), _ = operands(self, inputs, 1)
        return (np.triu(x, self.k) if self.upper else np.tril(x, self.k),)

    def write(self, c: Body) -> None:
        """Element by element."""
        x = c.input(0)
        sign = ">=" if self.upper else "<="
        with c.nest("i", x.shape) as i:
            kept = f"{i[-1]} - {i[-2]} {sign} {self.k}"
            c(f"{c.output.at(*i)} = {kept} ? {x.at(*i)} : 0;")


@register
@dataclass(frozen=True)
class OneHot(ScalarOp):
    """indices, values [off, on] -> a new `axis` of `depth` elements: on at the index, else off.

    Indices are integers or floats (truncated). Negative ones count from the end where `wraps`,
    else they set nothing, as those outside.
    """

    depth: int
    axis: int
    wraps: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of the indices with one more axis."""
        (indices, values), _ = operands(self, inputs, 2)
        require_axis(self, self.axis, indices.rank + 1)
        require(values.shape == (2,), self, f"values of shape {values.shape}, expected (2,)")
        require(self.depth >= 0, self, f"depth {self.depth}")
        shape = (*indices.shape[: self.axis], self.depth, *indices.shape[self.axis :])
        return (TensorType(shape, values.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Compared with each place."""
        (indices, values), _ = operands(self, inputs, 2)
        at = np.expand_dims(np.trunc(indices.astype(np.float64)), self.axis)
        places = np.arange(self.depth).reshape(-1, *(1,) * (indices.ndim - self.axis))
        found = at == places
        if self.wraps:
            found |= at + self.depth == places
        return (np.where(found, values[1], values[0]),)

    def write(self, c: Body) -> None:
        """Element by element."""
        indices, values = c.input(0), c.input(1)
        with c.nest("i", indices.shape) as i:
            c(f"const int64_t at = (int64_t){indices.at(*i)};")
            with c.loop("k", self.depth) as k:
                y = c.output.at(*i[: self.axis], k, *i[self.axis :])
                wrapped = f" || at + {self.depth} == {k}" if self.wraps else ""
                c(f"{y} = {values.name}[at == {k}{wrapped}];")


@register
@dataclass(frozen=True)
class ReverseSequence(ScalarOp):
    """x, lengths[batch] -> the first `length` elements along time of each batch, reversed."""

    batch_axis: int
    time_axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for axes or lengths that do not fit."""
        (x, lengths), _ = operands(self, inputs, 2)
        require_axis(self, self.batch_axis, x.rank)
        require_axis(self, self.time_axis, x.rank)
        require(self.batch_axis != self.time_axis, self, "batch and time are the same axis")
        fits = lengths.shape == (x.shape[self.batch_axis],)
        require(fits, self, f"lengths of shape {lengths.shape} for {x.shape}")
        require_type(lengths.dtype.value in ("int32", "int64"), self, "lengths are not integers")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Batch by batch."""
        (x, lengths), _ = operands(self, inputs, 2)
        rows = np.moveaxis(x, (self.batch_axis, self.time_axis), (0, 1)).copy()
        for row, length in zip(rows, lengths.tolist(), strict=True):
            n = min(max(length, 0), len(row))
            row[:n] = row[:n][::-1].copy()
        return (np.moveaxis(rows, (0, 1), (self.batch_axis, self.time_axis)),)

    def write(self, c: Body) -> None:
        """Element by element."""
        x, lengths = c.input(0), c.input(1)
        with c.nest("i", x.shape) as i:
            t = i[self.time_axis]
            c(f"const int64_t n = {lengths.at(i[self.batch_axis])};")
            size = x.shape[self.time_axis]
            c(f"const int n_in = (int)(n > {size} ? {size} : n < 0 ? 0 : n);")
            place = list(i)
            place[self.time_axis] = "from"
            c(f"const int from = {t} < n_in ? n_in - 1 - {t} : {t};")
            c(f"{c.output.at(*i)} = {x.at(*place)};")
