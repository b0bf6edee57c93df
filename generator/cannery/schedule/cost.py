"""The cost model: cycles of inner loops, from what they do and what a processor does per cycle.

It ranks candidates where nothing was measured; it does not predict times. All that depends on the
processor comes from its table, see `cannery.target.machine`.
"""

from __future__ import annotations

from math import gcd

from cannery.target.isa import Isa

#: Where a whole tile is few instructions, the next one fills the gaps of a chain of sums.
GAP_FROM_MACS = 256

#: Cycles of a call that changes the order of a value.
REORDER_CALL = 30.0

#: Bytes of a cache line.
LINE_BYTES = 64

#: Lines per way of a set that are not missed when they are read: a few more than there is room for.
KEPT_IN_SETS = 1.25

#: With so few registers, compilers spill sums for inputs to rotate, which they load all at once.
EARLY_ROTATED = 8


def slowest(isa: Isa, *cycles: float) -> float:
    """Cycles of what a core does at once: of the slowest, and a part of the next, by friction."""
    *_, second, most = sorted(cycles)
    return most + isa.core.friction * second


def busy_cycles(
    isa: Isa, arithmetic: float, loads: float, stores: float = 0.0, *, beside: float = 0.0,
    lanes: int = 0, macs: float = 0.0,
) -> float:  # fmt: skip
    """Cycles in which a core does so much with vectors of `lanes` (0: the widest), all at once.

    `macs` are the multiply-accumulates that `arithmetic` has, `beside` counts instructions of no
    vectors.
    """
    core = isa.rates(lanes)
    return slowest(
        isa,
        macs / core.macs,
        arithmetic / core.arithmetic,
        loads / core.loads,
        stores / core.stores,
        (arithmetic + loads + stores + beside) / isa.core.issue,
    )


def mac_instructions(isa: Isa) -> float:
    """Instructions of one vector multiply-accumulate."""
    return 1.0 if isa.has("fma") or isa.has("lane_fma") else 2.0


def vector_registers(isa: Isa) -> int:
    """Registers for vectors: of the processor, where it has others than its instruction set."""
    return int(isa.core.registers) or isa.registers


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
    lanes: int = 0,
) -> float:
    """Cycles of `k` rank-1 updates of a register tile of `rows` x `vectors` accumulators.

    `loads` counts memory reads per update, `work` its instructions beside multiply and add,
    `held` values that are kept beside accumulators, vectors and one input; `early`: see
    `early_inputs`; `lanes` of the vectors (0: the widest). What is beyond the registers is spilled:
    each costs a load and a store per update. The next update waits for spilled sums.
    """
    macs = rows * vectors
    if not k:
        return 0.0
    core, machine, registers = isa.rates(lanes), isa.core, vector_registers(isa)
    arithmetic = macs * (mac_instructions(isa) + core.copies) + work
    needed = macs + (vectors if rows > 1 else 1) + 1 + early  # used once: loaded one by one
    late = needed > registers
    spills = max(needed + held - registers, 0)
    instructions = arithmetic + loads + 2 * spills
    latency = core.latency + machine.spill_latency * late
    chain = latency * (machine.chain_gap if macs * k >= GAP_FROM_MACS else 1.0)
    return k * slowest(
        isa,
        macs / core.macs,
        arithmetic / core.arithmetic,
        (loads + 2 * spills) / core.loads,
        instructions / isa.core.issue,
        chain / max(machine.window / (instructions * k), 1.0),
    )


def scalar_gain(isa: Isa, rows: int, sums: int) -> float:
    """What is left of a scalar tile's cycles where compilers vectorise it by themselves.

    gcc and clang join the eight sums of one dot product in line on 64-bit processors, all of which
    have vectors. Other tiles they vectorise now and then only.
    """
    joined = isa.joins_scalars and rows == 1 and sums % 8 == 0
    return 0.4 if joined else 1.0


def stream_cycles(isa: Isa, elements: float, loads: float, stores: float, work: float) -> float:
    """Cycles of a pass over `elements` with so many loads, stores and operations per vector."""
    return elements / isa.widest * busy_cycles(isa, work, loads, stores)


def elementwise_cycles(isa: Isa, elements: float, loads: int, nodes: int) -> float:
    """Cycles of a pass of so many elementwise nodes: some four operations each."""
    return stream_cycles(isa, elements, loads, 1, 4.0 * nodes)


def reorder_cycles(isa: Isa, elements: float) -> float:
    """Cycles of a change of order: a call, then squares of four by four are transposed.

    It is written along one axis and read along another: nothing hides what leaves the first level.
    """
    squares = elements / 16.0 * busy_cycles(isa, 8.0, 4.0, 4.0, beside=12.0, lanes=4)
    return REORDER_CALL + squares + stored_cycles(isa, 4.0 * elements)


def conflict_cycles(isa: Isa, rows: int, pitch: float, passes: float) -> float:
    """Cycles of reading one line of each of `rows` that lie `pitch` bytes apart, `passes` times.

    Where the pitch is a multiple of a large power of two they share few sets of the first-level
    cache, and displace one another before they are read.
    """
    caches = isa.core.caches
    way = int(caches.l1_bytes / caches.l1_ways)
    sets = way // max(gcd(int(pitch), way), LINE_BYTES)
    lost = max(rows - KEPT_IN_SETS * sets * caches.l1_ways, 0.0)
    return lost * passes * caches.l2_latency


def stored_cycles(isa: Isa, size: float) -> float:
    """Cycles that a value of `size` bytes costs because it leaves the first-level cache.

    It is written and read once each. What fits is free: kernels count their own loads and stores.
    """
    caches = isa.core.caches
    beyond_l1, beyond_l2 = max(size - caches.l1_bytes, 0.0), max(size - caches.l2_bytes, 0.0)
    return 2.0 * (beyond_l1 / caches.l2_rate + beyond_l2 / caches.l3_rate)


def passed_cycles(isa: Isa, size: float, room: float) -> float:
    """Cycles that a value of `size` bytes costs that goes through `room` bytes of line buffers.

    As these are used again and again, it costs an eighth of what `stored_cycles` says.
    """
    caches = isa.core.caches
    by_l2 = size / caches.l2_rate if room > caches.l1_bytes else 0.0
    by_l3 = size / caches.l3_rate if room > caches.l2_bytes else 0.0
    return (by_l2 + by_l3) / 4.0


def reread_cycles(isa: Isa, size: float, passes: float) -> float:
    """Cycles that reading `size` bytes costs `passes` times over, beside the arithmetic on them.

    What stays in the first-level cache is free. Streams are prefetched, so the rest costs less
    than its transport alone would. From far, the first pass is what every schedule pays.
    """
    caches = isa.core.caches
    if size <= caches.l1_bytes:
        return 0.0
    if size <= caches.l2_bytes:
        return size * passes / (5.0 * caches.l2_rate)
    again = 4.0 * caches.l3_rate if size <= caches.far_bytes else caches.far_rate
    return size * (1.0 / (4.0 * caches.l3_rate) + (passes - 1.0) / again)


def far_cycles(isa: Isa, size: float) -> float:
    """Cycles of reading `size` bytes once that other schedules do not read, from far."""
    caches = isa.core.caches
    return max(size - caches.far_bytes, 0.0) / caches.far_rate


def weights_cycles(isa: Isa, size: float, network: float) -> float:
    """Cycles of reading weights of `size` bytes once in a run of a network with so many bytes.

    None where all of them stay in the second level from run to run; others come from the third, or
    from memory, as what ran before has displaced them.
    """
    caches, all_bytes = isa.core.caches, max(size, network)
    if all_bytes <= caches.l2_bytes:
        return 0.0
    return size / (caches.l3_rate if all_bytes <= caches.far_bytes else caches.far_rate)
