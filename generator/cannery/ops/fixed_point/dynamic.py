"""Floats as whole numbers of 8 bits in units that depend on them, row by row.

TensorFlow Lite multiplies floats with integer weights like that. The range of a row has 255 units
and a zero point, or if it is `symmetric` 127 on each side of 0. Whole numbers are float32 here,
less their zero point.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.fixed_point.arithmetic import away
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

_F32 = NDArray[np.float32]
_Units = tuple[_F32, _F32, _F32]


@dataclass(frozen=True)
class _Dynamic(ScalarOp):
    symmetric: bool = False

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Rows of floats."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank == 2 and x.shape[1] > 0, self, f"of {x.shape}, not of rows")
        return (TensorType(self.shape(x.shape)),)

    @abstractmethod
    def shape(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """That of the result."""

    def units(self, x: _F32) -> _Units:
        """What a unit is worth, its inverse, and the zero point, for each row."""
        low = np.minimum(x.min(axis=1, keepdims=True), np.float32(0))
        high = np.maximum(x.max(axis=1, keepdims=True), np.float32(0))
        one, nothing = np.ones_like(low), np.zeros_like(low)
        with np.errstate(all="ignore"):
            if self.symmetric:
                largest = np.maximum(-low, high)
                unit, inverse = largest / np.float32(127), np.float32(127) / largest
                return _where(largest == 0, (one, nothing, nothing), (unit, inverse, nothing))
            wide: Any = (high.astype(np.float64) - low) / 255.0
            below, above = low / wide, high / wide
            near = 128.0 + np.abs(below) < 127.0 + np.abs(above)
            zero = np.clip(away(np.where(near, -128.0 - below, 127.0 - above)), -128, 127)
            unit = wide.astype(np.float32)
            found = (unit, np.float32(1) / unit, zero.astype(np.float32))
            return _where(low == high, (one, nothing, nothing), found)

    def begin(self, c: Body, row: str) -> None:
        """Statements that find the units of a row: `unit`, `inverse` and `zero`."""
        x = c.input(0)
        c("float low = 0.0f, high = 0.0f, unit, inverse, zero;")
        with c.loop("k", x.shape[1]) as k:
            c(f"const float v = {x.at(row, k)};")
            c("low = v < low ? v : low;")
            c("high = v > high ? v : high;")
        word = "symmetric" if self.symmetric else "asymmetric"
        c(f"unit = cannery_{word}_unit(low, high, &inverse, &zero);")


def _where(condition: Any, first: _Units, second: _Units) -> _Units:
    unit, inverse, zero = (
        np.where(condition, a, b) for a, b in zip(first, second, strict=True)
    )  # fmt: skip
    return unit, inverse, zero


@register
@dataclass(frozen=True)
class DynamicUnit(_Dynamic):
    """x[R,K] -> [R,1], what a unit of each row is worth."""

    def shape(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """One number for each row."""
        return (rows[0], 1)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Like the kernels: float64 for the range, float32 for the rest."""
        (x,), _ = operands(self, inputs, 1)
        return (self.units(x.astype(np.float32))[0],)

    def write(self, c: Body) -> None:
        """Row by row."""
        with c.loop("i", c.input(0).shape[0]) as row:
            self.begin(c, row)
            c("(void)inverse, (void)zero;")
            c(f"{c.output.at(row, '0')} = unit;")


@register
@dataclass(frozen=True)
class DynamicWhole(_Dynamic):
    """x[R,K] -> the whole numbers of x in units of its row, less their zero point."""

    def shape(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """That of x."""
        return rows

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float32, halves away from zero."""
        (x,), _ = operands(self, inputs, 1)
        narrow = x.astype(np.float32)
        _, inverse, zero = self.units(narrow)
        least = -127 if self.symmetric else -128
        return (np.clip(away(narrow * inverse + zero), least, 127) - zero,)

    def write(self, c: Body) -> None:
        """Row by row."""
        x, least = c.input(0), -127 if self.symmetric else -128
        with c.loop("i", x.shape[0]) as row:
            self.begin(c, row)
            c("(void)unit;")
            with c.loop("k", x.shape[1]) as k:
                value = f"{x.at(row, k)} * inverse + zero"
                whole = f"(float)cannery_rounded_away({value}, 0, {least}, 127) - zero"
                c(f"{c.output.at(row, k)} = {whole};")
