"""Functions of int16 by tables, between whose entries results are interpolated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_shape, require_type
from cannery.ops.fixed_point.arithmetic import I64, away
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Entries of a table: one for every 128 numbers, and one at the end.
ENTRIES = 513

#: Entries of the table of the sigmoid, from 0 in steps of 1/24, in units of 2^-16.
SIGMOID_ENTRIES = 256

#: Which entries of that table are one more than the nearest integer, in LiteRT; bit 0 is the first.
_ONE_MORE = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110


def short_table(
    function: Callable[[Any], Any], low: Any, high: Any, unit: Any, *, zero: int = 0
) -> NDArray[np.int16]:
    """A function from low to high in units of `unit`, less half of the error between two entries.

    All arithmetic has the type of `low`, float32 or float64.
    """
    kind = np.asarray(low).dtype.type
    step, places = kind((high - low) / kind(ENTRIES - 1)), np.arange(ENTRIES).astype(kind)
    top, bottom = kind(unit) * kind(32767 - zero), kind(unit) * kind(-32768 - zero)
    scale = kind(65536) / kind(top - bottom)
    with np.errstate(all="ignore"):
        values = function(low + places * step)
        between = function(low + places * step + kind(step / kind(2)))
    here, after, middle = (
        np.asarray(v * scale, kind) for v in (values[:-1], values[1:], between[:-1])
    )
    rounded = away(here).astype(kind)
    line = away(np.asarray((after + rounded) / kind(2), kind))
    error = away((line - away(middle)) / 2)
    last = away(np.asarray(function(np.asarray([high], kind)) * scale, kind))
    found = np.concatenate([rounded - error, last])
    return np.asarray(np.clip(found, -32768, 32767), np.int16)


def looked_up(x: I64, table: I64) -> I64:
    """Entries and what is between them, wrapped to 16 bits."""
    at = 256 + (x >> 7)
    slope = _wrapped(table[at + 1] - table[at])
    return _wrapped(table[at] + ((slope * (x & 127) + 64) >> 7))


def _wrapped(x: I64) -> I64:
    return x.astype(np.int16).astype(np.int64)


def sigmoid_table() -> NDArray[np.uint16]:
    """Sigmoids in units of 2^-16."""
    exact = 65536 / (1 + np.exp(-np.arange(SIGMOID_ENTRIES) / 24))
    more = [_ONE_MORE >> place & 1 for place in range(SIGMOID_ENTRIES)]
    return np.asarray(np.floor(exact + 0.5) + more, np.uint16)


@dataclass(frozen=True)
class _OfShorts(ScalarOp):
    """x int16, a table -> int16 of the same shape."""

    scalar_math: ClassVar[bool] = True

    @property
    def table(self) -> TensorType:
        """What the table is."""
        return TensorType((ENTRIES,), DType.INT16)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x, table), _ = operands(self, inputs, 2)
        fits = x.dtype is DType.INT16 and table.dtype is self.table.dtype
        require_type(fits, self, f"of {x.dtype.value} by {table.dtype.value}")
        require_shape(self, "table", table, self.table.shape)
        return (x,)

    def write_each(self, c: Body, word: str, more: str = "") -> None:
        """A call of `word` for each element."""
        x, table = c.input(0), c.input(1)
        with c.loop("i", x.type.elements) as i:
            c(f"{c.output.name}[{i}] = {word}({x.name}[{i}], {table.name}{more});")


@register
@dataclass(frozen=True)
class ShortTable(_OfShorts):
    """x int16, table int16[513] -> the function that the table has."""

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x, table), _ = operands(self, inputs, 2)
        return (looked_up(x.astype(np.int64), table.astype(np.int64)).astype(np.int16),)

    def write(self, c: Body) -> None:
        """Element by element."""
        self.write_each(c, "cannery_looked_up")


@register
@dataclass(frozen=True)
class ShortSigmoid(_OfShorts):
    """x int16, table uint16[256] -> the sigmoid of x, or its hyperbolic tangent, in 2^-15.

    x times multiplier / 2^shift is in units of 2^-12 / 3; tables are as `sigmoid_table`.
    """

    multiplier: int
    shift: int
    tanh: bool = False

    @property
    def table(self) -> TensorType:
        """What the table is."""
        return TensorType((SIGMOID_ENTRIES,), DType.UINT16)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        sound = 0 <= self.multiplier < 2**15 and 0 <= self.shift <= 31
        require(sound, self, f"a factor {self.multiplier} / 2^{self.shift}")
        return super().infer(*inputs)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x, entries), _ = operands(self, inputs, 2)
        half = (1 << self.shift) >> 1
        at = (x.astype(np.int64) * self.multiplier + half) >> self.shift
        bits = 8 if self.tanh else 9
        table, size = entries.astype(np.int64), np.abs(at)
        place = np.minimum(size >> bits, SIGMOID_ENTRIES - 2)
        slope = table[place + 1] - table[place]
        found = (table[place] << bits) + (size & ((1 << bits) - 1)) * slope
        most = 0xFFFF << 8 if self.tanh else 0x7FFF << 10
        found = np.where(size >> bits >= SIGMOID_ENTRIES - 1, most, found)
        if self.tanh:
            above, below = found - 2**23 + 2**7, -found + 2**23 + 2**7 - 1
            return ((np.where(at >= 0, above, below) >> 8).astype(np.int16),)
        above, below = found + 2**9, 2**25 - found + 2**9 - 1
        return ((np.where(at >= 0, above, below) >> 10).astype(np.int16),)

    def write(self, c: Body) -> None:
        """Element by element."""
        word = "cannery_tanh_of_shorts" if self.tanh else "cannery_sigmoid_of_shorts"
        self.write_each(c, word, f", {self.multiplier}, {self.shift}")
