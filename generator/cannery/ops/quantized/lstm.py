"""LSTM layers in integers: weights and outputs; cells stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ops.quantized.arithmetic import F32, f32, quantised
from cannery.ops.quantized.recurrent import TINY, QuantizedRecurrent
from cannery.ops.recurrent.base import CELL, HIDDEN, SEQUENCE
from cannery.ops.registry import RefArray, register


@register
@dataclass(frozen=True)
class QuantizedLstm(QuantizedRecurrent):
    """LSTM, see `QuantizedRecurrent`; gates i, o, f, c, the other input are peepholes of i, o, f.

    i = table_f((scale_i float32(h R_i) + p_i) + P_i c)       likewise f, and o with c'
    c' = ((f unit) c + TINY) + (i table_g(scale_c float32(h R_c) + p_c)) unit^2
    h' = round((o table_h(c' scale_h)) (bound unit^2))
    """

    gates: ClassVar[int] = 4
    functions: ClassVar[int] = 3
    others: ClassVar[int] = 3
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN, CELL)

    def step(
        self, direction: int, sums: F32, given: F32, c: F32, others: Sequence[F32]
    ) -> tuple[RefArray, F32]:
        """As written above."""
        of_gate, of_input, of_cell = self.tables(direction)
        unit, square, outer = self.units
        i, o, f, g = np.split(f32(sums + given), 4, axis=1)
        if others:
            i, f = f32(i + f32(others[0] * c)), f32(f + f32(others[2] * c))
        kept = f32(f32(f32(of_gate.lookup(f) * unit) * c) + np.float32(TINY))
        c = f32(kept + f32(f32(of_gate.lookup(i) * of_input.lookup(g)) * square))
        if others:
            o = f32(o + f32(others[1] * c))
        of_output = of_cell.lookup(f32(c * np.float32(of_cell.scale)))
        y = f32(f32(of_gate.lookup(o) * of_output) * outer)
        return quantised(y, self.bound, self.dtype), c
