"""The cost model: cycles of inner loops from issue widths and latencies.

It ranks candidates where nothing was measured; it does not predict times. The figures are those of
current out-of-order cores; a target may replace them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.target.isa import Isa


@dataclass(frozen=True)
class Core:
    """What one cycle can do: arithmetic vectors, loads, stores, and instructions in all."""

    arithmetic: float = 2.0
    loads: float = 2.0
    stores: float = 1.0
    issue: float = 4.0
    latency: float = 4.0


CORE = Core()


def mac_instructions(isa: Isa) -> float:
    """Instructions of one vector multiply-accumulate."""
    return 1.0 if isa.has("fma") or isa.has("lane_fma") else 2.0


def tile_cycles(isa: Isa, rows: int, vectors: int, loads: float, k: float) -> float:
    """Cycles of `k` rank-1 updates of a register tile of `rows` x `vectors` accumulators.

    `loads` counts memory reads per update. Accumulators beyond the registers are spilled: each
    costs a load and a store per update.
    """
    macs = rows * vectors
    arithmetic = macs * mac_instructions(isa)
    needed = macs + vectors + 1
    spills = max(needed - isa.registers, 0)
    if isa.family == "x86" and isa.widest < 16 and not isa.has("fma"):
        arithmetic += 0.25 * macs
    return k * max(
        arithmetic / CORE.arithmetic,
        (loads + 2 * spills) / CORE.loads,
        (arithmetic + loads + 2 * spills) / CORE.issue,
        CORE.latency,
    )


def stream_cycles(isa: Isa, elements: float, loads: float, stores: float, work: float) -> float:
    """Cycles of a pass over `elements` with so many loads, stores and operations per vector."""
    vectors = elements / isa.widest
    return vectors * max(
        loads / CORE.loads,
        stores / CORE.stores,
        work / CORE.arithmetic,
        (loads + stores + work) / 4,
    )
