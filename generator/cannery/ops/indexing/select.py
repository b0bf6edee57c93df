"""Places whose number is known only at run time: the first row says how many of the rest count."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, place

#: The index in rows that do not count.
NOTHING = -1


def _filled(rows: list[tuple[int, ...]], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The number of rows, in all columns, then the rows, then `NOTHING`."""
    found = np.full(shape, NOTHING, np.int64)
    found[0] = len(rows)
    if rows:
        found[1 : len(rows) + 1] = rows
    return found


@register
@dataclass(frozen=True)
class NonZero(ScalarOp):
    """x -> int64[1 + elements, rank]: the number of elements that are not 0, then their indices."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Rows for all elements."""
        (x,), _ = operands(self, inputs, 1)
        require(x.rank > 0, self, "a scalar has no indices")
        return (TensorType((1 + x.elements, x.rank), DType.INT64),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy, in row-major order."""
        (x,), _ = operands(self, inputs, 1)
        rows = [tuple(map(int, row)) for row in np.argwhere(x)]
        return (_filled(rows, (1 + x.size, x.ndim)),)

    def write(self, c: Body) -> None:
        """One pass; what is left of the rows gets the same index."""
        x, y = c.input(0), c.output
        rank = len(x.shape)
        c("int count = 0;")
        with c.nest("i", x.shape) as i, c.block(f"if ({x.at(*i)} != 0)"):
            c("++count;")
            for k, index in enumerate(i):
                c(f"{y.name}[count * {rank} + {k}] = {index};")
        _finish(c, prod(x.shape), rank)


@register
@dataclass(frozen=True)
class FirstRows(ScalarOp):
    """x[n, ..], count int64[1, 1] -> x, whose rows from `count` on are 0."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x, count), _ = operands(self, inputs, 2)
        require(x.rank > 0, self, "a scalar has no rows")
        require(count == TensorType((1, 1), DType.INT64), self, f"the count is {count}")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A copy."""
        (x, count), _ = operands(self, inputs, 2)
        y = x.copy()
        y[max(int(count[0, 0]), 0) :] = 0
        return (y,)

    def write(self, c: Body) -> None:
        """One pass."""
        x, count, y = c.input(0), c.input(1), c.output
        with c.nest("i", x.shape) as i:
            c(f"{y.at(*i)} = {i[0]} < {count.name}[0] ? {x.at(*i)} : ({x.c})0;")


def _finish(c: Body, rows: int, columns: int) -> None:
    """Write the first row, and those that do not count."""
    with c.block(f"for (int k = 0; k < {columns}; ++k)"):
        c(f"{c.output.name}[k] = count;")
    end = (rows + 1) * columns
    with c.block(f"for (int k = (count + 1) * {columns}; k < {end}; ++k)"):
        c(f"{c.output.name}[k] = {NOTHING};")


@register
@dataclass(frozen=True)
class NonMaxSuppression(ScalarOp):
    """boxes [batch, n, 4], scores [batch, classes, n] -> int64[1 + rows, 3].

    First their number, then for each box that is kept its batch, class and place: of each class at
    most `most`, best first, with scores above `score`. A box that overlaps one of these by more
    than `overlap` (intersection by union) is not kept. Boxes are two corners (y, x, y, x), or
    center and size (x, y, width, height) if `centered`.
    """

    most: int
    overlap: float
    score: float | None = None
    centered: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """As many rows as there may be."""
        (boxes, scores), _ = operands(self, inputs, 2)
        require_float(self, boxes, scores)
        fits = boxes.rank == scores.rank == 3 and boxes.shape[2] == 4
        fits = fits and (boxes.shape[0], boxes.shape[1]) == (scores.shape[0], scores.shape[2])
        require(fits, self, f"boxes {boxes.shape} and scores {scores.shape} do not fit")
        require(self.most >= 0, self, f"at most {self.most} boxes")
        rows = scores.shape[0] * scores.shape[1] * min(self.most, boxes.shape[1])
        return (TensorType((1 + rows, 3), DType.INT64),)

    def scratch_bytes(self, inputs: tuple[TensorType | None, ...]) -> int:
        """A byte for each box."""
        boxes = inputs[0]
        return -(-boxes.shape[1] // 4) * 4 if boxes is not None else 0

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float32, in the order of the C code: an overlap may be just the limit."""
        (boxes, scores), _ = operands(self, inputs, 2)
        rows: list[tuple[int, ...]] = []
        for b in range(scores.shape[0]):
            corners = self._corners(boxes[b].astype(np.float32))
            for k in range(scores.shape[1]):
                kept = self._kept(corners, scores[b, k].astype(np.float32))
                rows += [(b, k, place) for place in kept]
        room = scores.shape[0] * scores.shape[1] * min(self.most, boxes.shape[1])
        return (_filled(rows, (1 + room, 3)),)

    def _corners(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Least and greatest y, then least and greatest x, of each box: [4, n]."""
        a, b, c, d = boxes.T
        if self.centered:
            half = np.float32(0.5)
            return np.stack([b - d * half, b + d * half, a - c * half, a + c * half])
        return np.stack([np.minimum(a, c), np.maximum(a, c), np.minimum(b, d), np.maximum(b, d)])

    def _kept(self, corners: NDArray[np.float32], scores: NDArray[np.float32]) -> list[int]:
        least = -np.inf if self.score is None else np.float32(self.score)
        there = scores > least if self.score is not None else ~np.isnan(scores)
        kept: list[int] = []
        area = (corners[1] - corners[0]) * (corners[3] - corners[2])
        while len(kept) < self.most and there.any():
            best = int(np.argmax(np.where(there, scores, -np.inf)))
            best = best if there[best] else int(np.argmax(there))
            kept.append(best)
            high = np.minimum(corners[1], corners[1, best]) - np.maximum(
                corners[0], corners[0, best]
            )
            wide = np.minimum(corners[3], corners[3, best]) - np.maximum(
                corners[2], corners[2, best]
            )
            both = np.where((high > 0) & (wide > 0), high * wide, np.float32(0))
            union = area[best] + area - both
            with np.errstate(all="ignore"):
                there &= ~((both > 0) & (both / union > np.float32(self.overlap)))
            there[best] = False
        return kept

    def write(self, c: Body) -> None:
        """Of each class, the best box that is left; it removes those that it overlaps."""
        boxes, scores = c.input(0), c.input(1)
        batch, classes, n = scores.shape
        c(f"uint8_t *const gone = (uint8_t *){c.scratch};")
        c("int count = 0;")
        with c.loop("b", batch) as b, c.loop("k", classes) as k:
            c(f"const float *const s = {scores.name} + {place(scores.shape, (b, k, '0'))};")
            c(f"const float *const boxes = {boxes.name} + {place(boxes.shape, (b, '0', '0'))};")
            with c.block(f"for (int i = 0; i < {n}; ++i)"):
                wanted = "s[i] == s[i]" if self.score is None else f"s[i] > {c_float(self.score)}"
                c(f"gone[i] = {wanted} ? 0 : 1;")
            with c.block(f"for (int kept = 0; kept < {min(self.most, n)}; ++kept)"):
                c("int best = -1;")
                with c.block(f"for (int i = 0; i < {n}; ++i)"):
                    c("best = !gone[i] && (best < 0 || s[i] > s[best]) ? i : best;")
                with c.block("if (best < 0)"):
                    c("break;")
                c("gone[best] = 1;")
                c("++count;")
                for column, value in enumerate((b, k, "best")):
                    c(f"{c.output.name}[count * 3 + {column}] = {value};")
                self._write_corners(c, "p", "best")
                c("const float own = (p1 - p0) * (p3 - p2);")
                with c.block(f"for (int i = 0; i < {n}; ++i)"):
                    self._write_corners(c, "q", "i")
                    c("const float high = (p1 < q1 ? p1 : q1) - (p0 > q0 ? p0 : q0);")
                    c("const float wide = (p3 < q3 ? p3 : q3) - (p2 > q2 ? p2 : q2);")
                    c("const float both = high > 0.0f && wide > 0.0f ? high * wide : 0.0f;")
                    c("const float all = own + (q1 - q0) * (q3 - q2) - both;")
                    over = f"both > 0.0f && both / all > {c_float(self.overlap)}"
                    c(f"gone[i] = (uint8_t)(gone[i] | ({over}));")
        _finish(c, batch * classes * min(self.most, n), 3)

    def _write_corners(self, c: Body, name: str, index: str) -> None:
        """Declares the corners of a box: `<name>0` to `<name>3`, as `_corners` says."""
        at = [f"boxes[{index} * 4 + {k}]" for k in range(4)]
        if self.centered:
            for k, (middle, size) in enumerate(((at[1], at[3]), (at[0], at[2]))):
                c(f"const float {name}{2 * k} = {middle} - {size} * 0.5f;")
                c(f"const float {name}{2 * k + 1} = {middle} + {size} * 0.5f;")
            return
        for k in range(2):
            a, b = at[k], at[k + 2]
            c(f"const float {name}{2 * k} = {a} < {b} ? {a} : {b};")
            c(f"const float {name}{2 * k + 1} = {a} > {b} ? {a} : {b};")
