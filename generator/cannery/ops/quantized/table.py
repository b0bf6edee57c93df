"""Lookup tables of activation functions, with linear interpolation, in integers.

A table cuts the range in which a function changes into equal pieces, a power of two of them.
Arguments are in steps of 2^-14 pieces, results in units of 1/32767 * 2^-14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import F64, f64
from cannery.ops.quantized.arithmetic import F32, Activation, f32

#: The integer for an entry of 1.0, and the steps of a piece.
ONE, STEPS = 32767, 2**14

#: Largest error between entries: equal to that of rounding an entry.
PRECISE = 0.5 / ONE

#: Pieces of the largest table: with more, its places are no longer exact in float32.
MOST_PIECES = 1024

#: The ranges to try: a function must be constant beyond them.
RANGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass(frozen=True)
class Table:
    """`entries` [pieces] for the range from -limit to limit, and their error."""

    entries: NDArray[np.int32]
    limit: float
    error: float

    @property
    def middle(self) -> int:
        """The place of the argument 0."""
        return len(self.entries) // 2 * STEPS

    def c(self, symbol: str, t: str, value: str) -> str:
        """C expression of `lookup` for a vector of steps; `symbol` names the array of entries."""
        return f"{t}_by_table({symbol} + {len(self.entries) // 2}, {self.middle}, {value})"

    @property
    def scale(self) -> float:
        """The factor that turns an argument into steps: a power of two, so that nothing is
        rounded.
        """
        return self.middle / self.limit

    @property
    def unit(self) -> float:
        """The factor that turns a result into a number."""
        return 1.0 / (ONE * STEPS)

    def lookup(self, t: F32) -> F32:
        """The results at t, in steps, as generated code computes them: whole numbers in float32."""
        high, low = np.float32(self.middle - 1), np.float32(-self.middle)
        inside = np.minimum(np.maximum(np.nan_to_num(t, nan=0.0), low), high)
        place = np.rint(inside).astype(np.int32) + np.int32(self.middle)
        entry = self.entries[place >> 14]
        slope = (entry & 0xFFFF).astype(np.uint16).astype(np.int16).astype(np.int32)
        return f32((entry >> 16) * STEPS + slope * (place & (STEPS - 1)))


def _function(activation: Activation, x: F64) -> F64:
    for op in activation:
        (y,) = op.reference(x)
        x = f64(y)
    return x


def _entries(values: F64) -> NDArray[np.int32]:
    """Of numbers from -1 to 1 where pieces begin and end."""
    whole = np.rint(values * ONE).astype(np.int32)
    return np.asarray((whole[:-1] << 16) | (np.diff(whole) & 0xFFFF), np.int32)


def _make(activation: Activation, limit: float, pieces: int) -> Table:
    places = np.linspace(-limit, limit, pieces + 1)
    table = Table(_entries(_function(activation, places)), limit, 0.0)
    far = np.linspace(-RANGES[-1], RANGES[-1], 2049)
    between = np.concatenate([np.linspace(-limit, limit, 16 * pieces + 1), far])
    found = f64(table.lookup(f32(between * table.scale))) * table.unit
    error = float(np.abs(found - _function(activation, between)).max())
    return Table(table.entries, limit, error)


@cache
def make_table(activation: Activation) -> Table | None:
    """The smallest table of a function that is as precise as its entries.

    None if there is none: the function leaves -1 to 1, or keeps changing.
    """
    if not activation:
        return None
    far = np.linspace(-RANGES[-1], RANGES[-1], 4097)
    values = _function(activation, far)
    if not np.isfinite(values).all() or np.abs(values).max() > 1.0:
        return None
    beyond = _function(activation, far[[0, -1]] * 1e6)
    if np.abs(beyond - values[[0, -1]]).max() > PRECISE:
        return None
    changing = np.abs(values - np.where(far < 0, values[0], values[-1])) > PRECISE
    reach = float(np.abs(far[changing]).max(initial=0.0))
    limit = next((r for r in RANGES if r >= reach), 0.0)
    if not limit or reach >= RANGES[-1]:
        return None
    pieces = 64
    table = _make(activation, limit, pieces)
    while table.error > 2 * PRECISE and pieces < MOST_PIECES:
        pieces *= 2
        table = _make(activation, limit, pieces)
    return table


@cache
def sized_table(activation: Activation, pieces: int) -> Table | None:
    """A table of this many pieces, for the range with the least error; None if there is none."""
    if make_table(activation) is None:
        return None
    return min((_make(activation, limit, pieces) for limit in RANGES), key=lambda t: t.error)


def tabulated(
    function: Callable[[F64], F64], limit: float, worst: float
) -> tuple[Table, float] | None:
    """The smallest table of a function from -limit to limit, in units of its largest magnitude, and
    that magnitude.

    It is as precise as its entries; if none is, the largest table, if its error is at most `worst`.
    """
    between = np.linspace(-limit, limit, 16 * MOST_PIECES + 1)
    exact = function(between)
    largest = float(np.abs(exact).max())
    if not np.isfinite(largest) or largest < np.finfo(np.float32).tiny:
        return None
    for pieces in (64, 128, 256, 512, MOST_PIECES):
        values = function(np.linspace(-limit, limit, pieces + 1)) / largest
        if np.abs(np.diff(np.rint(values * ONE))).max() > ONE:
            continue
        table = Table(_entries(values), limit, 0.0)
        found = f64(table.lookup(f32(between * table.scale))) * table.unit
        error = float(np.abs(found - exact / largest).max())
        if error <= 2 * PRECISE or (pieces == MOST_PIECES and error <= worst):
            return Table(table.entries, limit, error), largest
    return None
