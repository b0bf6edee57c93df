"""Different elements or slices of a tensor: how many is known only at run time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require_axis
from cannery.ops.indexing.select import NOTHING
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Columns of the result: where a slice is first, how often it occurs, which one an element is.
FIRST, TIMES, INVERSE = range(3)


@register
@dataclass(frozen=True)
class Unique(ScalarOp):
    """x -> int64[1 + n, 3], about its n slices along `axis`.

    The first row has the number of different slices, three times. Row 1 + k has `FIRST`, the place
    of the first slice of kind k, and `TIMES`, how many there are; where there are fewer kinds, both
    are -1. Row 1 + i has `INVERSE`, the kind of slice i, for all n. Kinds are in ascending order,
    the first element deciding first, if `ascending`, else in the order of their first slices. A NaN
    equals a NaN and is above all numbers.
    """

    axis: int
    ascending: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Rows for all slices."""
        (x,), _ = operands(self, inputs, 1)
        require_axis(self, self.axis, x.rank)
        return (TensorType((1 + x.shape[self.axis], 3), DType.INT64),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By a stable sort."""
        (x,), _ = operands(self, inputs, 1)
        rows: Numeric = np.moveaxis(x, self.axis, 0)
        slices = rows.reshape(len(rows), x.size // max(len(rows), 1))
        kinds = _kinds(slices)
        _, firsts, times = np.unique(kinds, return_index=True, return_counts=True)
        if not self.ascending:
            order = np.argsort(firsts)
            kinds, firsts, times = np.argsort(order)[kinds], firsts[order], times[order]
        found = np.full((1 + len(slices), 3), NOTHING, np.int64)
        found[0] = len(firsts)
        found[1 : 1 + len(firsts), FIRST] = firsts
        found[1 : 1 + len(firsts), TIMES] = times
        found[1:, INVERSE] = kinds
        return (found,)

    def helpers(self, symbol: str, c: Body) -> str:
        """The order of two slices."""
        x = c.input(0)
        less, more = "u < v", "v < u"
        if x.type.dtype is DType.FLOAT32:
            less, more = (f"{a} < {b} || ({a} == {a} && {b} != {b})" for a, b in ("uv", "vu"))
        body = Body(symbol, c.inputs, c.output)
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        if x.shape[self.axis] == 1:  # then no element's place depends on them
            body("(void)a;")
            body("(void)b;")
        with body.nest("i", before) as i, body.nest("k", after) as k:
            body(f"const {x.c} u = {x.at(*i, 'a', *k)};")
            body(f"const {x.c} v = {x.at(*i, 'b', *k)};")
            for condition, result in ((less, 1), (more, 0)):
                with body.block(f"if ({condition})"):
                    body(f"return {result};")
        body("return 0;")
        head = f"static int {symbol}_before(const {x.c} *{x.name}, int64_t a, int64_t b)"
        says = "/* Whether slice a comes before slice b; NaN comes last. */"
        return f"{says}\n{head}\n{{\n{body.text}\n}}\n\n"

    def write(self, c: Body) -> None:
        """A merge sort of the places of slices, then their kinds in order."""
        count = c.input(0).shape[self.axis]
        c(f"int64_t *const rows = {c.output.name} + 3;")
        c("int64_t kinds = 0;")
        if count:
            _write_sort(c, count)
            _write_runs(c, count, leaders=not self.ascending)
            if not self.ascending:
                _write_kinds(c, count)
        with c.block("for (int k = 0; k < 3; ++k)"):
            c(f"{c.output.name}[k] = kinds;")
        with c.block(f"for (int64_t k = kinds; k < {count}; ++k)"):
            c(f"rows[k * 3 + {FIRST}] = {NOTHING};")
            c(f"rows[k * 3 + {TIMES}] = {NOTHING};")


def _kinds(slices: Numeric) -> NDArray[np.int64]:
    """[n, size] -> the kind of each slice, in ascending order of kinds."""
    if not slices.size:
        return np.zeros(len(slices), np.int64)
    order = np.lexsort(slices.T[::-1])  # NaN last
    a, b = slices[order[1:]], slices[order[:-1]]
    same = ((a == b) | ((a != a) & (b != b))).all(axis=1)
    kinds = np.zeros(len(slices), np.int64)
    kinds[order[1:]] = np.cumsum(~same)
    return kinds


def _before(c: Body, a: str, b: str) -> str:
    return f"{c.symbol}_before({c.input(0).name}, {a}, {b})"


def _write_sort(c: Body, count: int) -> None:
    """Column `from` of the rows becomes the places of slices in ascending order."""
    c("int from = 0;")
    with c.block(f"for (int i = 0; i < {count}; ++i)"):
        c("rows[i * 3] = i;")
    c("/* Merge sort: runs of `width` rows, from one column into the other. */")
    with c.block(f"for (int width = 1; width < {count}; width *= 2)"):
        c("const int to = 1 - from;")
        with c.block(f"for (int start = 0; start < {count}; start += 2 * width)"):
            c(f"const int middle = {count} - start < width ? {count} : start + width;")
            c(f"const int end = {count} - middle < width ? {count} : middle + width;")
            c("int i = start;")
            c("int j = middle;")
            with c.block("for (int k = start; k < end; ++k)"):
                before = _before(c, "rows[j * 3 + from]", "rows[i * 3 + from]")
                c(f"const int later = i == middle || (j < end && {before});")
                c("rows[k * 3 + to] = rows[(later ? j : i) * 3 + from];")
                c("j += later;")
                c("i += !later;")
        c("from = to;")


def _write_runs(c: Body, count: int, *, leaders: bool) -> None:
    """Count the kinds along the order; or, if `leaders`, INVERSE becomes the first slice of each.

    Rows are written up to the one that was read last, so that the order may lie in them.
    """
    c("int64_t leader = rows[from];")
    with c.block(f"for (int k = 0; k < {count}; ++k)"):
        c("const int64_t slice = rows[k * 3 + from];")
        with c.block(f"if (k == 0 || {_before(c, 'leader', 'slice')})"):
            c("leader = slice;")
            if not leaders:
                _write_kind(c, "slice")
        if leaders:
            c(f"rows[slice * 3 + {INVERSE}] = leader;")
        else:
            c(f"++rows[(kinds - 1) * 3 + {TIMES}];")
            c(f"rows[slice * 3 + {INVERSE}] = kinds - 1;")


def _write_kind(c: Body, first: str) -> None:
    c(f"rows[kinds * 3 + {FIRST}] = {first};")
    c(f"rows[kinds * 3 + {TIMES}] = 0;")
    c("++kinds;")


def _write_kinds(c: Body, count: int) -> None:
    """Count the kinds in the order of their first slices, which INVERSE holds."""
    with c.block(f"for (int i = 0; i < {count}; ++i)"):
        c(f"const int64_t first = rows[i * 3 + {INVERSE}];")
        with c.block("if (first == i)"):
            _write_kind(c, "i")
        c(f"const int64_t kind = first == i ? kinds - 1 : rows[first * 3 + {INVERSE}];")
        c(f"++rows[kind * 3 + {TIMES}];")
        c(f"rows[i * 3 + {INVERSE}] = kind;")
