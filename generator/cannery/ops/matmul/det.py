"""Determinants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class Det(ScalarOp):
    """x[.., N, N] -> the determinants, by elimination with the largest pivot of each column."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The leading axes; raises ModelError unless matrices are square."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 2 and x.shape[-1] == x.shape[-2], self, f"shape {x.shape} is not square")
        return (TensorType(x.shape[:-2]),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Column by column."""
        (x,), _ = operands(self, inputs, 1)
        y = np.array([_determinant(m) for m in f64(x).reshape(-1, *x.shape[-2:])])
        return (y.reshape(x.shape[:-2]),)

    def scratch_bytes(self, inputs: tuple[TensorType | None, ...]) -> int:
        """One matrix."""
        (x,), _ = operands(self, inputs, 1)
        return max(4 * int(x.shape[-1]) ** 2, 4)

    def write(self, c: Body) -> None:
        """Matrix by matrix, in scratch memory."""
        x = c.input(0)
        n = x.shape[-1]
        with c.nest("i", x.shape[:-2]) as i:
            c(f"float *m = {c.scratch};")
            c("float product = 1.0f;")
            c(f"memcpy(m, &{x.at(*i, '0', '0')}, {n * n} * sizeof *m);")
            with c.block(f"for (int k = 0; k < {n}; ++k)"):
                c("int best = k;")
                with c.block(f"for (int r = k + 1; r < {n}; ++r)"):
                    size, most = (f"f32x1_abs(m[{row} * {n} + k])" for row in ("r", "best"))
                    c(f"best = {size} > {most} ? r : best;")
                c("product = best == k ? product : -product;")
                with c.block(f"for (int j = k; j < {n}; ++j)"):
                    c(f"const float moved = m[best * {n} + j];")
                    c(f"m[best * {n} + j] = m[k * {n} + j];")
                    c(f"m[k * {n} + j] = moved;")
                c(f"product *= m[k * {n} + k];")
                with c.block(f"for (int r = k + 1; r < {n} && product != 0.0f; ++r)"):
                    c(f"const float factor = m[r * {n} + k] / m[k * {n} + k];")
                    with c.block(f"for (int j = k + 1; j < {n}; ++j)"):
                        c(f"m[r * {n} + j] -= factor * m[k * {n} + j];")
            c(f"{c.output.at(*i)} = product;")


def _determinant(matrix: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    m = matrix.copy()
    product = 1.0
    for k in range(len(m)):
        best = k + int(np.argmax(np.abs(m[k:, k])))
        if best != k:
            m[[k, best]] = m[[best, k]]
            product = -product
        product *= float(m[k, k])
        if product == 0.0:
            break
        m[k + 1 :] -= np.outer(m[k + 1 :, k] / m[k, k], m[k])
    return product
