"""Replaces or changes some elements of a tensor at computed places.

Indices outside of an axis change nothing. Updates apply one after the other, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.errors import UnsupportedError
from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require
from cannery.ops.elementwise.integers import wrapped
from cannery.ops.indexing.bounds import require_indices, write_checked
from cannery.ops.indexing.gather import require_elements
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

REDUCTIONS = ("none", "add", "mul", "max", "min")


@dataclass(frozen=True)
class _Scatter(ScalarOp):
    """The common part: how an update combines with the element in place."""

    def check(self, reduction: str, x: TensorType, updates: TensorType) -> None:
        """Raises UnsupportedError for an unknown reduction, ModelError for other dtypes."""
        if reduction not in REDUCTIONS:
            raise UnsupportedError(f"{self.kind}: reduction {reduction!r}")
        require(x.dtype is updates.dtype, self, "updates have another dtype")
        plain = x.dtype is not DType.BOOL or reduction in ("none", "max", "min")
        require(plain, self, f"{reduction} of bool")

    def join(self, reduction: str, dtype: DType, old: str, new: str) -> str:
        """C expression that combines an element with its update."""
        if reduction in ("max", "min"):
            sign = ">" if reduction == "max" else "<"
            return f"{new} {sign} {old} ? {new} : {old}"
        if reduction == "none":
            return new
        operator = "+" if reduction == "add" else "*"
        if dtype is DType.FLOAT32:
            return f"{old} {operator} {new}"
        return wrapped(dtype, operator)(old, new)


def _joined(reduction: str, old: Numeric, new: Numeric) -> Numeric:
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    return np.asarray(new if reduction == "none" else functions[reduction](old, new))


def _copy(c: Body) -> None:
    """Starts with the output as a copy of the input."""
    x = c.input(0)
    with c.loop("i", x.type.elements) as i:
        c(f"{c.output.name}[{i}] = {x.name}[{i}];")


@register
@dataclass(frozen=True)
class ScatterElements(_Scatter):
    """x, indices, updates -> x with y[.., indices[.., i, ..], ..] = updates[.., i, ..]."""

    axis: int = 0
    reduction: str = "none"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for shapes that do not fit together."""
        (x, indices, updates), _ = operands(self, inputs, 3)
        require_elements(self, self.axis, x, indices)
        require(indices.shape == updates.shape, self, "indices and updates differ in shape")
        self.check(self.reduction, x, updates)
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Element by element."""
        (x, indices, updates), _ = operands(self, inputs, 3)
        y = x.copy()
        size = x.shape[self.axis]
        for place in np.ndindex(*indices.shape):
            to = int(indices[place])
            to += size if to < 0 else 0
            if 0 <= to < size:
                target = (*place[: self.axis], to, *place[self.axis + 1 :])
                y[target] = _joined(self.reduction, y[target], updates[place])
        return (y,)

    def write(self, c: Body) -> None:
        """A copy, then update by update."""
        x, indices, updates = (c.input(k) for k in range(3))
        _copy(c)
        with c.nest("i", indices.shape) as i:
            write_checked(c, "to", indices.at(*i), x.shape[self.axis])
            y = c.output.at(*i[: self.axis], "to", *i[self.axis + 1 :])
            with c.block("if (to >= 0)"):
                c(f"{y} = {self.join(self.reduction, x.type.dtype, y, updates.at(*i))};")


@register
@dataclass(frozen=True)
class ScatterND(_Scatter):
    """x, indices[.., K], updates -> x with y[K indices] changed: whole slices."""

    reduction: str = "none"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for shapes that do not fit together."""
        (x, indices, updates), _ = operands(self, inputs, 3)
        require_indices(self, indices)
        require(indices.rank >= 1, self, "indices have no axis")
        depth = indices.shape[-1]
        require(1 <= depth <= x.rank, self, f"{depth} indices for shape {x.shape}")
        expected = (*indices.shape[:-1], *x.shape[depth:])
        require(updates.shape == expected, self, f"updates {updates.shape}, expected {expected}")
        self.check(self.reduction, x, updates)
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Slice by slice."""
        (x, indices, updates), _ = operands(self, inputs, 3)
        y = x.copy()
        for place in np.ndindex(*indices.shape[:-1]):
            found = [int(v) for v in np.asarray(indices[place])]
            to = [v + d if v < 0 else v for v, d in zip(found, x.shape, strict=False)]
            if all(0 <= v < d for v, d in zip(to, x.shape, strict=False)):
                y[tuple(to)] = _joined(self.reduction, y[tuple(to)], updates[place])
        return (y,)

    def write(self, c: Body) -> None:
        """A copy, then update by update."""
        x, indices, updates = (c.input(k) for k in range(3))
        depth = indices.shape[-1]
        _copy(c)
        with c.nest("j", indices.shape[:-1]) as j:
            names = [f"p{k}" for k in range(depth)]
            for k, name in enumerate(names):
                write_checked(c, name, indices.at(*j, str(k)), x.shape[k])
            inside = " && ".join(f"{name} >= 0" for name in names)
            with c.block(f"if ({inside})"), c.nest("i", x.shape[depth:]) as i:
                y = c.output.at(*names, *i)
                c(f"{y} = {self.join(self.reduction, x.type.dtype, y, updates.at(*j, *i))};")


@register
@dataclass(frozen=True)
class TensorScatter(ScalarOp):
    """x, update, starts[batch] -> x with y[b, .., starts[b] + i, ..] = update[b, .., i, ..].

    Places beyond the end of `axis` change nothing, or with `circular` wrap around. Axis 0 is the
    batch.
    """

    axis: int
    circular: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for shapes that do not fit together."""
        (x, update, starts), _ = operands(self, inputs, 3)
        require_indices(self, starts)
        require(0 < self.axis < x.rank, self, f"axis {self.axis} of shape {x.shape}")
        n = update.shape[self.axis] if update.rank == x.rank else 0
        expected = (*x.shape[: self.axis], n, *x.shape[self.axis + 1 :])
        fits = update.shape == expected and n <= x.shape[self.axis]
        require(fits and starts.shape == x.shape[:1], self, f"{update.shape} in {x.shape}")
        require(x.dtype is update.dtype, self, "updates have another dtype")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Batch by batch."""
        (x, update, starts), _ = operands(self, inputs, 3)
        y = np.moveaxis(x.copy(), self.axis, 1)
        rows = np.moveaxis(update, self.axis, 1)
        size = y.shape[1]
        for batch, start in enumerate(starts.tolist()):
            for i, row in enumerate(rows[batch]):
                to = (start + i) % size if self.circular else start + i
                if 0 <= to < size:
                    y[batch, to] = row
        return (np.moveaxis(y, 1, self.axis),)

    def write(self, c: Body) -> None:
        """A copy, then element by element."""
        x, update, starts = (c.input(k) for k in range(3))
        size = x.shape[self.axis]
        _copy(c)
        with c.nest("i", update.shape) as i:
            c(f"const int64_t start = {starts.at(i[0])};")
            if self.circular:  # only the start, so that nothing overflows
                c(f"const int begin = (int)((start % {size} + {size}) % {size});")
                c(f"const int to = (begin + {i[self.axis]}) % {size};")
            else:
                near = f"start >= {-size} && start <= {size}"
                c(f"const int to = {near} ? (int)start + {i[self.axis]} : -1;")
            with c.block(f"if (to >= 0 && to < {size})"):
                y = c.output.at(*i[: self.axis], "to", *i[self.axis + 1 :])
                c(f"{y} = {update.at(*i)};")
