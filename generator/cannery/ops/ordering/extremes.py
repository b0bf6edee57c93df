"""The places of the greatest elements, and the elements. Among equal ones, the first wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axis, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@dataclass(frozen=True)
class _Arg(ScalarOp):
    """x -> int64 indices along `axis`, which is removed, or kept with size 1 if `keepdims`."""

    axis: int
    keepdims: bool = True
    select_last: bool = False

    @property
    def greatest(self) -> bool:
        """Whether it looks for the maximum."""
        return True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape without `axis`; raises ModelError if that is empty."""
        (x,), _ = operands(self, inputs, 1)
        require_axis(self, self.axis, x.rank)
        require(x.shape[self.axis] > 0, self, "its axis is empty")
        kept = (1,) if self.keepdims else ()
        shape = (*x.shape[: self.axis], *kept, *x.shape[self.axis + 1 :])
        return (TensorType(shape, DType.INT64),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy: argmax or argmin."""
        (x,), _ = operands(self, inputs, 1)
        find = np.argmax if self.greatest else np.argmin
        rows: Numeric = np.flip(x, self.axis) if self.select_last else x
        found = find(rows, axis=self.axis, keepdims=self.keepdims)
        last = x.shape[self.axis] - 1
        return (np.asarray(last - found if self.select_last else found, np.int64),)

    def write(self, c: Body) -> None:
        """For each output one pass along the axis."""
        x = c.input(0)
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        sign = (">" if self.greatest else "<") + ("=" if self.select_last else "")
        with c.nest("i", before) as i, c.nest("k", after) as k:
            c(f"{x.c} best = {x.at(*i, '0', *k)};")
            c("int at = 0;")
            with c.loop("j", x.shape[self.axis], 1):
                c(f"const {x.c} v = {x.at(*i, 'j', *k)};")
                with c.block(f"if (v {sign} best)"):
                    c("best = v;")
                    c("at = j;")
            kept = ("0",) if self.keepdims else ()
            c(f"{c.output.at(*i, *kept, *k)} = at;")


@register
@dataclass(frozen=True)
class ArgMax(_Arg):
    """The index of the greatest element; among equal ones the first or the last."""


@register
@dataclass(frozen=True)
class ArgMin(_Arg):
    """The index of the least element; among equal ones the first or the last."""

    @property
    def greatest(self) -> bool:
        """Looks for the minimum."""
        return False


@register
@dataclass(frozen=True)
class TopK(ScalarOp):
    """The `k` greatest (or least) elements along `axis` in order, or their int64 indices.

    ONNX's TopK has both outputs: here these are two nodes; `indices` says which.
    """

    axis: int
    k: int
    largest: bool = True
    indices: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """`k` elements along `axis`; raises ModelError if there are fewer."""
        (x,), _ = operands(self, inputs, 1)
        require_axis(self, self.axis, x.rank)
        require(0 <= self.k <= x.shape[self.axis], self, f"k {self.k} of {x.shape[self.axis]}")
        shape = (*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :])
        return (TensorType(shape, DType.INT64 if self.indices else x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A stable sort."""
        (x,), _ = operands(self, inputs, 1)
        rows: Numeric = np.moveaxis(x, self.axis, -1)
        if self.largest:  # stable for the greatest too: sorted backwards from the end
            size = rows.shape[-1]
            order = (size - 1 - np.argsort(rows[..., ::-1], axis=-1, kind="stable"))[..., ::-1]
        else:
            order = np.argsort(rows, axis=-1, kind="stable")
        order = order[..., : self.k]
        found = order.astype(np.int64) if self.indices else np.take_along_axis(rows, order, -1)
        return (np.moveaxis(found, -1, self.axis),)

    def write(self, c: Body) -> None:
        """Insertion into the output, which stays sorted."""
        x, y = c.input(0), c.output
        if not self.k:
            return
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        sign = ">" if self.largest else "<"
        with c.nest("i", before) as i, c.nest("n", after) as n:

            def place(at: str) -> str:
                return y.at(*i, at, *n)

            def stored(at: str) -> str:
                return x.at(*i, f"(int){place(at)}", *n) if self.indices else place(at)

            with c.loop("j", x.shape[self.axis]) as j:
                c(f"const {x.c} v = {x.at(*i, j, *n)};")
                c(f"int at = {j} < {self.k} ? {j} : {self.k};")
                # From the end: smaller elements move back, the last one drops out.
                with c.block(f"while (at > 0 && v {sign} {stored('at - 1')})"):
                    with c.block(f"if (at < {self.k})"):
                        c(f"{place('at')} = {place('at - 1')};")
                    c("--at;")
                with c.block(f"if (at < {self.k})"):
                    c(f"{place('at')} = {j if self.indices else 'v'};")


@register
@dataclass(frozen=True)
class Hardmax(ScalarOp):
    """1 at the first greatest element along `axis`, else 0."""

    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for a bad axis or dtype."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require_axis(self, self.axis, x.rank)
        require(x.shape[self.axis] > 0, self, "its axis is empty")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy's argmax."""
        (x,), _ = operands(self, inputs, 1)
        y = np.zeros_like(x)
        one = np.ones((), x.dtype)
        np.put_along_axis(y, np.argmax(x, self.axis, keepdims=True), one, self.axis)
        return (y,)

    def write(self, c: Body) -> None:
        """Two passes along the axis."""
        x = c.input(0)
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        with c.nest("i", before) as i, c.nest("k", after) as k:
            c("int at = 0;")
            with c.loop("j", x.shape[self.axis], 1):
                c(f"at = {x.at(*i, 'j', *k)} > {x.at(*i, 'at', *k)} ? j : at;")
            with c.loop("j", x.shape[self.axis]) as j:
                c(f"{c.output.at(*i, j, *k)} = at == {j} ? 1.0f : 0.0f;")
