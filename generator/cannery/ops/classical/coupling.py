"""Probabilities of classes from those of pairs, for support vector machines.

The second method of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by
Pairwise Coupling", JMLR 2004, with the bounds of libsvm and ONNX Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import F64, f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Passes at most, and the error, in shares of a class, that is small enough.
_PASSES, _ENOUGH = 100, 0.005


@register
@dataclass(frozen=True)
class PairwiseCoupling(ScalarOp):
    """x [N, C (C - 1) / 2] -> [N, C]: of each pair i < j the probability of i, among the two."""

    classes: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Raises ModelError unless there is a column for each pair."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        pairs = self.classes * (self.classes - 1) // 2
        fits = x.rank == 2 and self.classes > 1 and x.shape[1] == pairs
        require(fits, self, f"{self.classes} classes from {x.shape}")
        return (TensorType((x.shape[0], self.classes)),)

    def scratch_bytes(self, inputs: tuple[TensorType | None, ...]) -> int:
        """Room for the matrix and its product."""
        return 4 * self.classes * (self.classes + 1)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sample by sample."""
        (x,), _ = operands(self, inputs, 1)
        rows = [self._coupled(row) for row in f64(x)]
        return (np.array(rows, np.float64).reshape(len(rows), self.classes),)

    def _matrix(self, pairs: F64) -> F64:
        n = self.classes
        r = np.zeros((n, n))
        r[np.triu_indices(n, 1)] = pairs
        r += np.tril(1.0 - r.T, -1)
        q: F64 = -r.T * r
        for i in range(n):
            q[i, i] = sum(float(r[j, i]) ** 2 for j in range(n) if j != i)
        return q

    def _coupled(self, pairs: F64) -> F64:
        n, q = self.classes, self._matrix(pairs)
        p = np.full(n, 1.0 / n)
        for _ in range(_PASSES):
            products = np.array([sum(float(v) for v in q[i] * p) for i in range(n)])
            total = sum(float(v) for v in p * products)
            if float(np.abs(products - total).max()) < _ENOUGH / n:
                break
            for i in range(n):
                change = (total - products[i]) / q[i, i]
                p[i] += change
                total += change * (change * q[i, i] + 2.0 * products[i])
                total /= (1.0 + change) ** 2
                products = (products + change * q[i]) / (1.0 + change)
                p /= 1.0 + change
        return p

    def write(self, c: Body) -> None:
        """The same in float32; `q` and `t` are the matrix and its product with the result."""
        n, x, y = self.classes, c.input(0), c.output
        c(f"float *const q = {c.scratch};")
        c(f"float *const t = {c.scratch} + {n * n};")
        with c.loop("s", x.shape[0]) as s:
            self._write_matrix(c, s)
            with c.block(f"for (int pass = 0; pass < {_PASSES}; ++pass)"):
                c("float total = 0.0f;")
                c("float worst = 0.0f;")
                with c.block(f"for (int i = 0; i < {n}; ++i)"):
                    c("t[i] = 0.0f;")
                    with c.block(f"for (int j = 0; j < {n}; ++j)"):
                        c(f"t[i] += q[i * {n} + j] * {y.at(s, 'j')};")
                    c(f"total += {y.at(s, 'i')} * t[i];")
                with c.block(f"for (int i = 0; i < {n}; ++i)"):
                    c("const float d = t[i] > total ? t[i] - total : total - t[i];")
                    c("worst = d > worst ? d : worst;")
                with c.block(f"if (worst < {_ENOUGH / n!r}f)"):
                    c("break;")
                self._write_pass(c, s)

    def _write_matrix(self, c: Body, s: str) -> None:
        n, x, y = self.classes, c.input(0), c.output
        with c.block(f"for (int i = 0; i < {n}; ++i)"):
            c(f"{y.at(s, 'i')} = {1.0 / n!r}f;")
            c(f"q[i * {n + 1}] = 0.0f;")
        c("int pair = 0;")
        first, second = f"int i = 0; i < {n - 1}; ++i", f"int j = i + 1; j < {n}; ++j"
        with c.block(f"for ({first})"), c.block(f"for ({second})"):
            c(f"const float a = {x.at(s, 'pair')};")
            c("const float b = 1.0f - a;")
            c(f"q[i * {n} + j] = -(a * b);")
            c(f"q[j * {n} + i] = -(a * b);")
            c(f"q[i * {n + 1}] += b * b;")
            c(f"q[j * {n + 1}] += a * a;")
            c("++pair;")

    def _write_pass(self, c: Body, s: str) -> None:
        n, y = self.classes, c.output
        with c.block(f"for (int i = 0; i < {n}; ++i)"):
            c(f"const float own = q[i * {n + 1}];")
            c("const float change = (total - t[i]) / own;")
            c("const float scale = 1.0f + change;")
            c(f"{y.at(s, 'i')} += change;")
            c("total = (total + change * (change * own + 2.0f * t[i])) / scale / scale;")
            with c.block(f"for (int j = 0; j < {n}; ++j)"):
                c(f"t[j] = (t[j] + change * q[i * {n} + j]) / scale;")
                c(f"{y.at(s, 'j')} /= scale;")
