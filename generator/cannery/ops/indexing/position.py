"""Where elements stand in a sorted list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class Position(ScalarOp):
    """x, keys [K] that ascend -> int64: the place of the key that an element equals, else K."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x; raises ModelError unless the keys are a list of its type."""
        (x, keys), _ = operands(self, inputs, 2)
        fits = keys.rank == 1 and keys.dtype is x.dtype
        require(fits, self, f"keys {keys} for {x}")
        return (TensorType(x.shape, DType.INT64),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy's search."""
        (x, keys), _ = operands(self, inputs, 2)
        if not keys.size:
            return (np.zeros(x.shape, np.int64),)
        at = np.minimum(np.searchsorted(keys, x), keys.size - 1)
        return (np.asarray(np.where(keys[at] == x, at, keys.size), np.int64),)

    def write(self, c: Body) -> None:
        """The part that may hold the element is halved until one key is left."""
        x, keys = c.input(0), c.input(1)
        count = keys.shape[0]
        with c.nest("i", x.shape) as i:
            if not count:
                c(f"{c.output.at(*i)} = 0;")
                return
            c(f"const {x.c} v = {x.at(*i)};")
            c("int first = 0;")
            with c.block(f"for (int size = {count}; size > 1;)"):
                c("const int half = size / 2;")
                c(f"first += {keys.name}[first + half] <= v ? half : 0;")
                c("size -= half;")
            c(f"{c.output.at(*i)} = {keys.name}[first] == v ? first : {count};")
