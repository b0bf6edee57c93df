"""LSTM layers with integer weights and outputs; cells stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ops.quantized.arithmetic import F32, f32, quantised
from cannery.ops.quantized.recurrent import EVERY, TINY, Multiply, QuantizedRecurrent
from cannery.ops.recurrent.base import CELL, HIDDEN, SEQUENCE


@register
@dataclass(frozen=True)
class QuantizedLstm(QuantizedRecurrent):
    """LSTM, see `QuantizedRecurrent`; gates i, o, f, c, the other input are peepholes of i, o, f.

    i = table_f((scale_i float32(h R_i) + p_i) + P_i c)       likewise f, and o with c'
    c' = ((f unit) c + TINY) + (i table_g(scale_c float32(h R_c) + p_c)) unit^2
    h' = round((o table_h(c' scale_h)) (bound unit^2))

    If `coupled`, 1 - i unit takes the place of f unit.
    """

    coupled: bool = False

    gates: ClassVar[int] = 4
    functions: ClassVar[int] = 3
    others: ClassVar[int] = 3
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN, CELL)

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """One, without the forget gate if there is none."""
        return ((0, 1, 3),) if self.coupled else super().passes

    def step(
        self, direction: int, y: RefArray, multiply: Multiply, given: F32, c: F32,
        others: Sequence[F32],
    ) -> tuple[RefArray, F32]:  # fmt: skip
        """As written above."""
        of_gate, of_input, of_cell = self.tables(direction)
        unit, square, outer = self.units
        i, o, f, g = np.split(f32(multiply(y, EVERY) + given), 4, axis=1)
        if others:
            i, f = f32(i + f32(others[0] * c)), f32(f + f32(others[2] * c))
        i = self.gate(of_gate, i)
        f = f32(1.0 - f32(i * unit)) if self.coupled else f32(self.gate(of_gate, f) * unit)
        kept = f32(f32(f * c) + np.float32(TINY))
        c = f32(kept + f32(f32(i * self.gate(of_input, g)) * square))
        if others:
            o = f32(o + f32(others[1] * c))
        of_output = of_cell.lookup(f32(c * np.float32(of_cell.scale)))
        output = f32(f32(self.gate(of_gate, o) * of_output) * outer)
        return quantised(output, self.bound, self.dtype), c
