"""Elements at computed places. An index outside its axis means the nearest element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_axis
from cannery.ops.indexing.bounds import bounded, require_indices, write_bounded
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class Gather(ScalarOp):
    """x, indices -> x with `axis` replaced by the axes of the indices: whole slices."""

    axis: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError if there is nothing to choose from."""
        (x, indices), _ = operands(self, inputs, 2)
        require_axis(self, self.axis, x.rank)
        require_indices(self, indices)
        require(bool(x.shape[self.axis] or not indices.elements), self, "its axis is empty")
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return (TensorType((*before, *indices.shape, *after), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Copies."""
        (x, indices), _ = operands(self, inputs, 2)
        return (np.take(x, bounded(indices, x.shape[self.axis]), self.axis),)

    def write(self, c: Body) -> None:
        """Slice by slice."""
        x, indices = c.input(0), c.input(1)
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        with c.nest("j", indices.shape) as j:
            write_bounded(c, "from", indices.at(*j), x.shape[self.axis])
            with c.nest("i", before) as i:
                _copy(c, [*i, *j], [*i, "from"], after)


@register
@dataclass(frozen=True)
class GatherElements(ScalarOp):
    """x, indices (of one rank) -> y[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`."""

    axis: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of the indices; raises ModelError if they are larger than x on other axes."""
        (x, indices), _ = operands(self, inputs, 2)
        require_elements(self, self.axis, x, indices)
        return (TensorType(indices.shape, x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Copies."""
        (x, indices), _ = operands(self, inputs, 2)
        inside = tuple(
            slice(None) if k == self.axis else slice(0, d) for k, d in enumerate(indices.shape)
        )
        found = bounded(indices, x.shape[self.axis])
        return (np.take_along_axis(x[inside], found, self.axis),)

    def write(self, c: Body) -> None:
        """Element by element."""
        x, indices = c.input(0), c.input(1)
        with c.nest("i", indices.shape) as i:
            write_bounded(c, "from", indices.at(*i), x.shape[self.axis])
            place = [*i[: self.axis], "from", *i[self.axis + 1 :]]
            c(f"{c.output.at(*i)} = {x.at(*place)};")


def require_elements(op: ScalarOp, axis: int, x: TensorType, indices: TensorType) -> None:
    """Raises ModelError unless indices lie within x on all axes but one."""
    require_axis(op, axis, x.rank)
    require_indices(op, indices)
    require(indices.rank == x.rank, op, f"indices {indices.shape} for {x.shape}")
    for k, (d, n) in enumerate(zip(x.shape, indices.shape, strict=True)):
        require(k == axis or n <= d, op, f"indices {indices.shape} are larger than {x.shape}")
    require(bool(x.shape[axis] or not indices.elements), op, "its axis is empty")


@register
@dataclass(frozen=True)
class GatherND(ScalarOp):
    """x, indices[.., K] -> x at K indices of the axes after the first `batch_dims`."""

    batch_dims: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, indices), _ = operands(self, inputs, 2)
        require_indices(self, indices)
        b = self.batch_dims
        require(0 <= b < min(x.rank, indices.rank), self, f"batch_dims {b} is too large")
        require(x.shape[:b] == indices.shape[:b], self, "the batches of its inputs differ")
        depth = indices.shape[-1]
        require(1 <= depth <= x.rank - b, self, f"{depth} indices for shape {x.shape}")
        filled = all(x.shape[b : b + depth]) or not indices.elements
        require(filled, self, "an axis is empty")
        return (TensorType((*indices.shape[:-1], *x.shape[b + depth :]), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Copies."""
        (x, indices), _ = operands(self, inputs, 2)
        b, depth = self.batch_dims, indices.shape[-1]
        batches = np.indices(indices.shape[:-1])[:b] if b else ()
        places = [bounded(indices[..., k], x.shape[b + k]) for k in range(depth)]
        found = (*batches, *places)
        return (np.asarray(x[found]),)

    def write(self, c: Body) -> None:
        """Slice by slice."""
        x, indices = c.input(0), c.input(1)
        b, depth = self.batch_dims, indices.shape[-1]
        with c.nest("j", indices.shape[:-1]) as j:
            for k in range(depth):
                write_bounded(c, f"p{k}", indices.at(*j, str(k)), x.shape[b + k])
            place = [*j[:b], *(f"p{k}" for k in range(depth))]
            _copy(c, j, place, x.shape[b + depth :])


def _copy(c: Body, to: Sequence[str], place: Sequence[str], shape: Sequence[int]) -> None:
    """Copy a slice of the first input, of the last axes, to where the other indices say."""
    x, y, count = c.input(0), c.output, prod(shape)
    if count > 1:
        first = ["0"] * len(shape)
        c(f"memcpy(&{y.at(*to, *first)}, &{x.at(*place, *first)}, {count}u * sizeof {y.name}[0]);")
        return
    with c.nest("k", shape) as k:
        c(f"{y.at(*to, *k)} = {x.at(*place, *k)};")
