"""GRU layers in integers whose reset gate applies behind the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ops.quantized.arithmetic import F32, f32
from cannery.ops.quantized.recurrent import TINY, QuantizedRecurrent
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE
from cannery.ops.registry import RefArray, register


@register
@dataclass(frozen=True)
class QuantizedGru(QuantizedRecurrent):
    """GRU with `linear_before_reset`, see `QuantizedRecurrent`; gates z, r, h.

    The other input is the recurrent bias of the third. The next step multiplies the rounded output,
    and adds the one that is not.

        z = unit table_f(scale_z float32(h R_z) + p_z)            likewise r
        g = unit table_g(r (scale_h float32(h R_h) + b) + p_h)
        h' = (g + TINY) + z (h - g)
    """

    gates: ClassVar[int] = 3
    functions: ClassVar[int] = 2
    others: ClassVar[int] = 1
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN)

    def step(
        self, direction: int, sums: F32, given: F32, c: F32, others: Sequence[F32]
    ) -> tuple[RefArray, F32]:
        """As written above."""
        of_gate, of_input = self.tables(direction)
        unit, _, _ = self.units
        n = self.cells
        gates = f32(sums[:, : 2 * n] + given[:, : 2 * n])
        z, r = (f32(of_gate.lookup(half) * unit) for half in np.split(gates, 2, axis=1))
        inner = f32(sums[:, 2 * n :] + others[0]) if others else sums[:, 2 * n :]
        g = f32(of_input.lookup(f32(f32(r * inner) + given[:, 2 * n :])) * unit)
        c = f32(f32(g + np.float32(TINY)) + f32(z * f32(c - g)))
        return self.rounded(c), c
