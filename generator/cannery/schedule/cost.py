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

#: Tiles with just enough accumulators to hide the latency still have gaps: 8 reach 85% of the peak,
#: 12 reach 97%. Where a whole tile is few instructions, the next one fills the gaps.
CHAIN_GAP, GAP_FROM_MACS = 1.15, 256

#: Tiles of fewer instructions wait for each other less: processors work on so many at once.
WINDOW = 96.0

#: With so few registers, compilers spill sums for inputs to rotate, which they load all at once.
EARLY_ROTATED = 8

#: What a sum waits for each time it is stored and loaded again.
SPILL_LATENCY = 5.0

#: Caches of current cores, as far as `stored_cycles` needs them.
L1_BYTES, L2_BYTES = 32 * 1024, 512 * 1024
L2_BYTES_PER_CYCLE, L3_BYTES_PER_CYCLE = 32.0, 12.0

#: Second-level cache that processors have at least, per lane of their vectors.
L2_BYTES_PER_LANE = 64 * 1024

#: What is larger comes from the third level or from memory, which no prefetching hides: a core gets
#: no more than this of it while it computes.
FAR_BYTES, FAR_BYTES_PER_CYCLE = 4 * 1024 * 1024, 8.0


def mac_instructions(isa: Isa) -> float:
    """Instructions of one vector multiply-accumulate."""
    return 1.0 if isa.has("fma") or isa.has("lane_fma") else 2.0


def mac_bytes(isa: Isa) -> float:
    """Bytes of the instructions of one vector multiply-accumulate, with its share of the loads."""
    return 12.0 if mac_instructions(isa) > 1 else 8.0


def broadcast_work(isa: Isa, broadcast: str) -> tuple[float, float]:
    """Loads and arithmetic instructions that bring one input to all lanes.

    set1: from memory, which takes SSE a shuffle more and Arm's processors a vector pipeline (ld1r);
    pairs: likewise, without; rotate, lane: four inputs by one load.
    """
    if broadcast == "pairs":
        return 1.0, 0.0
    if broadcast == "set1":
        return 1.0, 1.0 if isa.widest == 4 else 0.0
    return 0.25, 0.75 if broadcast == "rotate" else 0.0


def early_inputs(isa: Isa, broadcast: str, rows: int) -> int:
    """Inputs of a tile, beside one, in registers until all four channels of one load are used."""
    if rows > 1 and broadcast == "rotate" and isa.registers <= EARLY_ROTATED:
        return rows
    return rows - 1 if broadcast == "lane" else 0


def tile_cycles(
    isa: Isa,
    rows: int,
    vectors: float,
    loads: float,
    k: float,
    work: float = 0.0,
    held: int = 0,
    early: int = 0,
) -> float:
    """Cycles of `k` rank-1 updates of a register tile of `rows` x `vectors` accumulators.

    `loads` counts memory reads per update, `work` its instructions beside multiply and add,
    `held` values that are kept beside accumulators, vectors and one input; `early`: see
    `early_inputs`. What is beyond the registers is spilled: each costs a load and a store per
    update. The next update waits for spilled sums.
    """
    macs = rows * vectors
    if not k:
        return 0.0
    arithmetic = macs * mac_instructions(isa) + work
    needed = macs + (vectors if rows > 1 else 1) + 1 + early  # used once: loaded one by one
    late = needed > isa.registers
    spills = max(needed + held - isa.registers, 0)
    if isa.family == "x86" and isa.widest < 16 and not isa.has("fma"):
        arithmetic += 0.25 * macs
    instructions = arithmetic + loads + 2 * spills
    latency = CORE.latency + SPILL_LATENCY * late
    chain = latency * (CHAIN_GAP if macs * k >= GAP_FROM_MACS else 1.0)
    return k * max(
        arithmetic / CORE.arithmetic,
        (loads + 2 * spills) / CORE.loads,
        instructions / CORE.issue,
        chain / max(WINDOW / (instructions * k), 1.0),
    )


def scalar_gain(isa: Isa, rows: int, sums: int) -> float:
    """What is left of a scalar tile's cycles where compilers vectorise it by themselves.

    gcc and clang join the eight sums of one dot product in line on 64-bit processors, all of which
    have vectors. Other tiles they vectorise now and then only.
    """
    joined = isa.widest == 1 and isa.bits == 64 and rows == 1 and sums % 8 == 0
    return 0.4 if joined else 1.0


def stream_cycles(isa: Isa, elements: float, loads: float, stores: float, work: float) -> float:
    """Cycles of a pass over `elements` with so many loads, stores and operations per vector."""
    vectors = elements / isa.widest
    return vectors * max(
        loads / CORE.loads,
        stores / CORE.stores,
        work / CORE.arithmetic,
        (loads + stores + work) / 4,
    )


def elementwise_cycles(isa: Isa, elements: float, loads: int, nodes: int) -> float:
    """Cycles of a pass of so many elementwise nodes: some four operations each."""
    return stream_cycles(isa, elements, loads, 1, 4.0 * nodes)


def stored_cycles(size: float) -> float:
    """Cycles that a value of `size` bytes costs because it leaves the first-level cache.

    It is written and read once each. What fits is free: kernels count their own loads and stores.
    """
    beyond_l1, beyond_l2 = max(size - L1_BYTES, 0.0), max(size - L2_BYTES, 0.0)
    return 2.0 * (beyond_l1 / L2_BYTES_PER_CYCLE + beyond_l2 / L3_BYTES_PER_CYCLE)


def passed_cycles(size: float, room: float) -> float:
    """Cycles that a value of `size` bytes costs that goes through `room` bytes of line buffers.

    As these are used again and again, it costs an eighth of what `stored_cycles` says.
    """
    by_l2 = size / L2_BYTES_PER_CYCLE if room > L1_BYTES else 0.0
    by_l3 = size / L3_BYTES_PER_CYCLE if room > L2_BYTES else 0.0
    return (by_l2 + by_l3) / 4.0


def reread_cycles(size: float, passes: float) -> float:
    """Cycles that reading `size` bytes costs `passes` times over, beside the arithmetic on them.

    What stays in the first-level cache is free. Streams are prefetched, so the rest costs less
    than its transport alone would. From far, the first pass is what every schedule pays.
    """
    if size <= L1_BYTES:
        return 0.0
    if size <= L2_BYTES:
        return size * passes / (5.0 * L2_BYTES_PER_CYCLE)
    again = 4.0 * L3_BYTES_PER_CYCLE if size <= FAR_BYTES else FAR_BYTES_PER_CYCLE
    return size * (1.0 / (4.0 * L3_BYTES_PER_CYCLE) + (passes - 1.0) / again)


def near_bytes(isa: Isa) -> int:
    """What stays in the second-level cache of processors that have such vectors."""
    return L2_BYTES_PER_LANE * isa.widest


def far_cycles(size: float) -> float:
    """Cycles of reading `size` bytes once that other schedules do not read, from far."""
    return max(size - FAR_BYTES, 0.0) / FAR_BYTES_PER_CYCLE
