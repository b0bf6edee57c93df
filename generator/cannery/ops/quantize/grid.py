"""Floats that become multiples of a scale and remain floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.checks import require_type
from cannery.ops.scalar.base import Pointwise, write_pointwise
from cannery.ops.scalar.body import Body

#: Ways to round: numpy's function, and the word of vec_scalar.h.
ROUNDINGS = {
    "ROUND": (np.rint, "f32x1_round"),
    "CEIL": (np.ceil, "f32x1_ceil"),
    "FLOOR": (np.floor, "f32x1_floor"),
}


@register
@dataclass(frozen=True)
class Grid(Pointwise):
    """x, scale, zero -> (round(x / scale + zero, within low..high) - zero) * scale.

    All in float32, also in the reference: a quotient at the border of two steps has to be on the
    same side everywhere.
    """

    low: float
    high: float
    rounding: str = "ROUND"

    arity: ClassVar[int] = 3
    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """Floats."""
        require_type(set(dtypes) == {DType.FLOAT32}, self, "works on float32")
        return DType.FLOAT32

    def value(self, *arrays: Numeric) -> Numeric:
        """In float32; NaN remains."""
        x, scale, zero = (a.astype(np.float32) for a in arrays)
        function, _ = ROUNDINGS[self.rounding]
        inside = np.clip(x / scale + zero, np.float32(self.low), np.float32(self.high))
        return np.asarray((function(inside) - zero) * scale, np.float32)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """What remains after the statements of `write`."""
        _, scale, zero = args
        return f"({ROUNDINGS[self.rounding][1]}(v) - {zero}) * {scale}"

    def write(self, c: Body) -> None:
        """One loop nest."""

        def statements(args: tuple[str, ...]) -> str:
            x, scale, zero = args
            c(f"float v = {x} / {scale} + {zero};")
            c(f"v = v > {c_float(self.high)} ? {c_float(self.high)} : v;")
            c(f"v = v < {c_float(self.low)} ? {c_float(self.low)} : v;")
            return self.expression((), args)

        write_pointwise(c, statements)
