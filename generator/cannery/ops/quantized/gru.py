"""GRU layers in integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import require
from cannery.ops.quantized.arithmetic import F32, f32
from cannery.ops.quantized.recurrent import TINY, Multiply, QuantizedRecurrent
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE


@register
@dataclass(frozen=True)
class QuantizedGru(QuantizedRecurrent):
    """GRU, see `QuantizedRecurrent`; gates z, r, h.

    The other input is the recurrent bias b of the third gate, only with `linear_before_reset`. The
    next step multiplies the rounded output and adds the unrounded one.

        z = unit table_f(scale_z float32(h R_z) + p_z)            likewise r
        g = unit table_g(r (scale_h float32(h R_h) + b) + p_h)    if `linear_before_reset`
        h' = (g + TINY) + z (h - g)

    Otherwise the third product is that of the state after the reset gate, rounded like outputs:

        g = unit table_g(scale_h float32(round(bound (r h)) R_h) + p_h)
    """

    linear_before_reset: bool = True

    gates: ClassVar[int] = 3
    functions: ClassVar[int] = 2
    others: ClassVar[int] = 1
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN)

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """Two if the last product waits for the reset gate."""
        return ((0, 1, 2),) if self.linear_before_reset else ((0, 1), (2,))

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Types of the returned values."""
        biased = len(inputs) > 5 and inputs[5] is not None
        fits = self.linear_before_reset or not biased
        require(fits, self, "a separate bias is meaningful only with linear_before_reset")
        return super().infer(*inputs)

    def step(
        self, direction: int, y: RefArray, multiply: Multiply, given: F32, c: F32,
        others: Sequence[F32],
    ) -> tuple[RefArray, F32]:  # fmt: skip
        """As written above."""
        of_gate, of_input = self.tables(direction)
        unit, _, _ = self.units
        first, last = slice(2 * self.cells), slice(2 * self.cells, None)
        gates = f32(multiply(y, first) + given[:, first])
        z, r = (f32(self.gate(of_gate, half) * unit) for half in np.split(gates, 2, axis=1))
        if self.linear_before_reset:
            inner = multiply(y, last)
            inner = f32(r * (f32(inner + others[0]) if others else inner))
        else:
            inner = multiply(self.rounded(f32(r * c)), last)
        g = f32(self.gate(of_input, f32(inner + given[:, last])) * unit)
        c = f32(f32(g + np.float32(TINY)) + f32(z * f32(c - g)))
        return self.rounded(c), c
