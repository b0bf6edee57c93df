"""Matrix product; a dense layer is MatMul(x, w[K,N], bias[N])."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import add_product, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import broadcast_shapes, operands, require, require_float, require_shape


@register
@dataclass(frozen=True)
class MatMul(Op):
    """a[...,M,K] @ b[...,K,N] + bias[N]? -> y[...,M,N]; leading axes broadcast as in numpy.

    `transpose_a` and `transpose_b` swap the last two axes first.
    """

    widens = True

    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for rank 1, unequal K, or axes that do not broadcast."""
        (a, b), (bias,) = operands(self, inputs, 2, 1)
        require_float(self, a, b, bias)
        require(
            a.rank >= 2 and b.rank >= 2, self, f"needs rank 2 or more, has {a.rank} and {b.rank}"
        )
        m, k = a.shape[:-3:-1] if self.transpose_a else a.shape[-2:]
        k2, n = b.shape[:-3:-1] if self.transpose_b else b.shape[-2:]
        require(
            k == k2, self, f"inner dimensions {k} and {k2} differ (shapes {a.shape}, {b.shape})"
        )
        require_shape(self, "bias", bias, (n,))
        return (TensorType((*broadcast_shapes(self, a.shape[:-2], b.shape[:-2]), m, n)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Ascending k, then the bias."""
        (a_in, b_in), (bias,) = operands(self, inputs, 2, 1)
        a, b = f64(a_in), np.asarray(b_in)
        a = a.swapaxes(-1, -2) if self.transpose_a else a
        b = b.swapaxes(-1, -2) if self.transpose_b else b
        if b.ndim == 2:  # one matrix for all: fold the leading axes into M
            rows = math.prod(a.shape[:-1])
            y = np.zeros((*a.shape[:-1], b.shape[-1]))
            add_product(y.reshape(rows, y.shape[-1]), a.reshape(rows, a.shape[-1]), b)
        else:
            lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            y = np.zeros((*lead, a.shape[-2], b.shape[-1]))
            wide_a = np.broadcast_to(a, (*lead, *a.shape[-2:]))
            wide_b = np.broadcast_to(b, (*lead, *b.shape[-2:]))
            for index in np.ndindex(*lead):
                add_product(y[index], wide_a[index], wide_b[index])
        return (y if bias is None else y + f64(bias),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element and k."""
        (a, _), _ = operands(self, inputs, 2, 1)
        return int(outputs[0].elements * a.shape[-2 if self.transpose_a else -1])
