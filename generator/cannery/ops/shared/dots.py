"""Tiles of dot products, the reduction in the lanes; `dots.c.j2` has their code.

A tile is MR rows times NC columns, one accumulator each (or `split` that take turns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import Params


@dataclass(frozen=True)
class Dots:
    """What the template needs beside the operands: one width, MR x NC, unrolling and sets."""

    lanes: int
    mr: int
    nc: int
    unroll: int
    split: int
    packed: bool

    @staticmethod
    def of(params: Params, *, packed: bool) -> Dots:
        """From a candidate's parameters; `packed` tells that rows of B end with zeros."""
        lanes, mr, nc = (int(params[name]) for name in ("lanes", "mr", "nc"))
        return Dots(lanes, mr, nc, int(params["unroll"]), int(params["split"]), packed)


def accumulator(m: int, n: int, set_: int) -> str:
    """The name of a sum: row m, column n, and which of those that take turns."""
    return f"a{m}_{n}" + (f"s{set_}" if set_ else "")


def walk(k: int, dots: Dots) -> tuple[int, list[tuple[int, int]]]:
    """(passes of the loop, what is left as (offset, valid lanes)); one pass is no loop."""
    passes = k // (dots.unroll * dots.lanes)
    looped = passes * dots.unroll * dots.lanes if passes > 1 else 0
    left = k - looped
    return passes, [(at, min(dots.lanes, left - at)) for at in range(0, left, dots.lanes)]


def columns(nc: int, lanes: int) -> Sequence[Vec]:
    """Columns of a tile as vectors of four sums; a single one stands alone."""
    if lanes < 4:
        return [Vec(k, 1, 1, k) for k in range(nc)]
    fours = [Vec(k, 4, min(4, nc - k), k) for k in range(0, nc, 4)]
    return [Vec(v.start, 1, 1, v.packed) if v.valid == 1 else v for v in fours]


def sum_cycles(dots: Dots, mr: int, nc: int) -> float:
    """Cycles of adding up a tile's accumulators over sets and lanes."""
    folds = max(dots.lanes // 4, 1).bit_length() - 1
    return mr * nc * (0.75 * (dots.split - 1) + folds + 2.0) + 6.0
