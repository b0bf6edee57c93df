"""Long sums in blocks: after some terms, a tile's accumulators are put aside and start again.

The rounding error of a sum of K terms, one after the other, grows with K; in blocks it grows with
the length of a block and the number of blocks: Higham, "The Accuracy of Floating Point Summation",
1993. Sums put aside are on the stack, which leaves the registers to the tile. Blocks are long
enough that this takes at most one instruction in fifty. How a sum is cut depends only on its length
and the instruction set, never on the tile. The code is in sums.c.j2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cannery.ops.shared import dual
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import mac_instructions
from cannery.target.isa import Isa

#: Fewest terms of a block, by the number of instructions of a multiply-add.
BLOCK_TERMS = {1.0: 96, 2.0: 64}


@dataclass(frozen=True)
class Sum:
    """One accumulator: its name, its vector's width, and where it is put aside (floats)."""

    name: str
    lanes: int
    at: int

    @property
    def t(self) -> str:
        """The vocabulary's type."""
        return f"f32x{self.lanes}"


@dataclass(frozen=True)
class Aside:
    """The accumulators of a tile that are put aside together."""

    sums: tuple[Sum, ...]

    @property
    def room(self) -> int:
        """Floats on the stack."""
        return sum(s.lanes for s in self.sums)


def aside(named: Iterable[tuple[str, int]]) -> Aside:
    """Accumulators by name and width, the widest first, so that all are aligned."""
    found, at = [], 0
    for name, lanes in sorted(named, key=lambda each: -each[1]):
        found.append(Sum(name, lanes, at))
        at += lanes
    return Aside(tuple(found))


def tile_sums(vecs: Sequence[Vec], rows: int, sets: int = 1) -> Aside:
    """The accumulators `a<row>_<vector>[s<set>]` of a register tile."""
    return aside(
        (f"a{m}_{k}" + (f"s{s}" if s else ""), v.lanes)
        for m in range(rows)
        for k, v in enumerate(vecs)
        for s in range(sets)
    )


def block_steps(steps: int, terms: int, isa: Isa) -> int:
    """After how many of `steps`, with this many terms each, sums are put aside; 0: never.

    Blocks are equal, except the last one, which may be shorter. Where products are put in order,
    as many terms are one order as possible.
    """
    blocks = min(int(steps * terms // BLOCK_TERMS[mac_instructions(isa)]), steps)
    if blocks < 2:
        return 0
    at_once = dual.LANES * dual.MOST
    whole = at_once // terms if isa.has("ordered") and at_once % terms == 0 else 1
    length = -(-steps // (blocks * whole)) * whole
    return length if length < steps else 0


def even_steps(steps: int, terms: int, isa: Isa) -> int:
    """The same where all blocks must be equal; 0 also if no such length exists."""
    least = block_steps(steps, terms, isa)
    fits = range(least, min(2 * least, steps // 2) + 1) if least else range(0)
    return next((length for length in fits if steps % length == 0), 0)
