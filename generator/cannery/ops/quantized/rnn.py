"""Plain recurrent layers in integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ops.quantized.arithmetic import F32, f32
from cannery.ops.quantized.recurrent import EVERY, Multiply, QuantizedRecurrent
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE


@register
@dataclass(frozen=True)
class QuantizedRnn(QuantizedRecurrent):
    """A plain recurrent layer, see `QuantizedRecurrent`; the last output is the unrounded one.

    h' = unit table_f(scale float32(h R) + p)
    """

    gates: ClassVar[int] = 1
    functions: ClassVar[int] = 1
    others: ClassVar[int] = 0
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN)

    def step(
        self, direction: int, y: RefArray, multiply: Multiply, given: F32, c: F32,
        others: Sequence[F32],
    ) -> tuple[RefArray, F32]:  # fmt: skip
        """As written above."""
        (of_input,) = self.tables(direction)
        unit, _, _ = self.units
        c = f32(self.gate(of_input, f32(multiply(y, EVERY) + given)) * np.float32(unit))
        return self.rounded(c), c
