"""The cost model: cycles of inner loops, from their work and the processor's work per cycle.

It ranks candidates that were not measured; it does not predict times. Everything that depends on
the processor comes from its table, see `cannery.target.machine`.
"""

from __future__ import annotations

from math import gcd

from cannery.target.isa import Isa
from cannery.target.machine import Loading

#: If a whole tile is only a few instructions, the next one fills the gaps in a chain of sums.
GAP_FROM_MACS = 256

#: Cycles of a call that changes the order of a value.
REORDER_CALL = 30.0

#: Registers beside those of a tile that let vectors be loaded early enough: as the model of a
#: Cortex-A53 says of tiles of 8x2, 4x4 and 12x1, beside 7x3, 10x2, 9x2, 5x4 and 6x3.
AHEAD = 6

#: Bytes of a cache line.
LINE_BYTES = 64

#: Lines per way of a set that can be read without misses: a few more than there is room for.
KEPT_IN_SETS = 1.25

#: Shuffles for each input of vectors that slide, of which there are three for twelve or more.
SLID_SHUFFLES = 0.2

#: With so few registers, compilers load all inputs to rotate at once, and spill sums for them.
EARLY_ROTATED = 8


def slowest(isa: Isa, *cycles: float) -> float:
    """Cycles of work that a core does at once: those of the slowest kind, and a part of the next,
    as friction.
    """
    *_, second, most = sorted(cycles)
    return most + isa.core.friction * second


def busy_cycles(
    isa: Isa, arithmetic: float, loads: float, stores: float = 0.0, *, beside: float = 0.0,
    lanes: int = 0, macs: float = 0.0,
) -> float:  # fmt: skip
    """Cycles that a core takes for this work with vectors of `lanes` (0: the widest), all at once.

    `macs` are the multiply-accumulates in `arithmetic`; `beside` counts instructions without
    vectors. A processor that issues in order does nothing with vectors beside a load or a store.
    """
    core = isa.rates(lanes)
    if not isa.core.window:
        issued = (arithmetic + loads + stores + beside) / isa.core.issue
        return max(arithmetic / core.arithmetic + loads / core.loads + stores / core.stores, issued)
    return slowest(
        isa,
        macs / core.macs,
        arithmetic / core.arithmetic,
        loads / core.loads,
        stores / core.stores,
        (arithmetic + loads + stores + beside) / isa.core.issue,
    )


def load_way(isa: Isa) -> Loading:
    """How a processor that issues in order loads whole vectors; others wait for nothing."""
    each = 1.0 / isa.rates().loads
    return isa.core.loading.get("whole", Loading(each, each, 0.0))


def mac_instructions(isa: Isa) -> float:
    """Instructions of one vector multiply-accumulate."""
    return 1.0 if isa.has("fma") or isa.has("lane_fma") else 2.0


def vector_registers(isa: Isa) -> int:
    """Vector registers: the processor's, if it has a different number than its instruction set."""
    return int(isa.core.registers) or isa.registers


def mac_bytes(isa: Isa) -> float:
    """Bytes of the instructions of one vector multiply-accumulate, with its share of the loads."""
    return 12.0 if mac_instructions(isa) > 1 else 8.0


def broadcast_work(isa: Isa, broadcast: str) -> tuple[float, float]:
    """Loads and arithmetic instructions that bring one input to all lanes.

    set1: from memory, which costs SSE an extra shuffle and Arm processors a vector pipeline (ld1r),
    and those that issue in order half a load of a vector; pairs: likewise, without these costs;
    rotate, lane, dual, beside: four inputs by one load; slide: a vector at any address, and three
    shuffles for all inputs.
    """
    if broadcast == "slide":
        return isa.rates(4).unaligned, SLID_SHUFFLES
    if broadcast == "pairs":
        return 1.0, 0.0
    if broadcast == "set1" and not isa.core.window:
        return 0.5, 0.0
    if broadcast == "set1":
        return 1.0, 1.0 if isa.widest == 4 or isa.has("wide_lane_fma") else 0.0
    return 0.25, 0.75 if broadcast == "rotate" else 0.0


def early_inputs(isa: Isa, broadcast: str, rows: int) -> int:
    """Inputs of a tile, besides one, that stay in registers until all four channels of a load are
    used.
    """
    if rows > 1 and broadcast == "rotate" and isa.registers <= EARLY_ROTATED:
        return rows
    return rows - 1 if broadcast in ("lane", "dual", "beside") else 0


def waiting_cycles(isa: Isa, macs: float, free: float) -> float:
    """Cycles of `macs` products that are then added, with `free` registers for products.

    A core that renames no registers holds each product until it was added, and only then begins
    another one in its register.
    """
    if mac_instructions(isa) == 1.0:
        return 0.0
    return macs * isa.core.product_held / max(free, 1.0)


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
    *,
    broadcast: str = "",
) -> float:
    """Cycles of `k` rank-1 updates of a register tile of `rows` x `vectors` accumulators.

    `loads` counts memory reads per update, `work` its instructions besides multiply and add, `held`
    values kept besides accumulators, vectors and one input; `early`: see `early_inputs`; `lanes` of
    the vectors (0: the widest). Values beyond the registers are spilled: each costs a load and a
    store per update. The next update waits for spilled sums. `broadcast`: dual and beside load
    vectors by halves, between multiply-adds, see `cannery.ops.shared.dual`.
    """
    macs = rows * vectors
    if not k:
        return 0.0
    core, machine, registers = isa.rates(lanes), isa.core, vector_registers(isa)
    arithmetic = macs * (mac_instructions(isa) + core.copies) + work
    needed = macs + (vectors if rows > 1 else 1) + 1 + early  # used once: loaded one by one
    late = needed > registers
    spills = max(needed + held - registers, 0)
    latency = core.latency + machine.spill_latency * late
    chain = latency * (machine.chain_gap if macs * k >= GAP_FROM_MACS else 1.0)
    if not machine.window:
        way = machine.loading.get(broadcast, load_way(isa))
        busy = max(arithmetic / core.arithmetic + loads * way.cycles, loads * way.least)
        waits = way.waits + way.short * max(AHEAD - registers + needed, 0)
        return k * max(busy + 2 * spills / core.loads + waits, chain)
    if broadcast in ("dual", "beside"):  # two more instructions for each load
        arithmetic, loads = arithmetic + loads, 2.0 * loads
    instructions = arithmetic + loads + 2 * spills
    return k * slowest(
        isa,
        macs / core.macs,
        arithmetic / core.arithmetic,
        (loads + 2 * spills) / core.loads,
        instructions / isa.core.issue,
        chain / max(machine.window / (instructions * k), 1.0),
        waiting_cycles(isa, macs, registers - needed + 1),
    )


def scalar_gain(isa: Isa, rows: int, sums: int) -> float:
    """The share of a scalar tile's cycles that remains if compilers vectorise it on their own.

    gcc and clang join the eight sums of one dot product in line on 64-bit processors, all of which
    have vectors. They vectorise other tiles only now and then.
    """
    joined = isa.joins_scalars and rows == 1 and sums % 8 == 0
    return 0.4 if joined else 1.0


def stream_cycles(isa: Isa, elements: float, loads: float, stores: float, work: float) -> float:
    """Cycles of a pass over `elements` with these loads, stores and operations per vector."""
    return elements / isa.widest * busy_cycles(isa, work, loads, stores)


def elementwise_cycles(isa: Isa, elements: float, loads: int, nodes: int) -> float:
    """Cycles of a pass with this many elementwise nodes: about four operations each."""
    return stream_cycles(isa, elements, loads, 1, 4.0 * nodes)


def reorder_cycles(isa: Isa, elements: float) -> float:
    """Cycles of a change of order: a call, then squares of four by four are transposed.

    It is written along one axis and read along another, so nothing hides traffic beyond the first
    level.
    """
    # In order, the first and the second half of the shuffles wait for what is before them.
    waits = 2.0 * load_way(isa).waits
    squares = elements / 16.0 * (busy_cycles(isa, 8.0, 4.0, 4.0, beside=12.0, lanes=4) + waits)
    return REORDER_CALL + squares + stored_cycles(isa, 4.0 * elements)


def conflict_cycles(isa: Isa, rows: int, pitch: float, passes: float) -> float:
    """Cycles of reading one line of each of `rows` rows, `pitch` bytes apart, `passes` times.

    If the pitch is a multiple of a large power of two, they share few sets of the first-level
    cache, and evict one another before they are read.
    """
    caches = isa.core.caches
    way = int(caches.l1_bytes / caches.l1_ways)
    sets = way // max(gcd(int(pitch), way), LINE_BYTES)
    lost = max(rows - KEPT_IN_SETS * sets * caches.l1_ways, 0.0)
    return lost * passes * caches.l2_latency


def stored_cycles(isa: Isa, size: float) -> float:
    """Cycles that a value of `size` bytes costs because it leaves the first-level cache.

    It is written once and read once. Values that fit are free: kernels count their own loads and
    stores.
    """
    caches = isa.core.caches
    beyond_l1, beyond_l2 = max(size - caches.l1_bytes, 0.0), max(size - caches.l2_bytes, 0.0)
    return 2.0 * (beyond_l1 / caches.l2_rate + beyond_l2 / caches.l3_rate)


def passed_cycles(isa: Isa, size: float, room: float) -> float:
    """Cycles that a value of `size` bytes costs when it goes through `room` bytes of line buffers.

    Because these are reused, it costs an eighth of what `stored_cycles` says.
    """
    caches = isa.core.caches
    by_l2 = size / caches.l2_rate if room > caches.l1_bytes else 0.0
    by_l3 = size / caches.l3_rate if room > caches.l2_bytes else 0.0
    return (by_l2 + by_l3) / 4.0


def reread_cycles(isa: Isa, size: float, passes: float) -> float:
    """Cycles of reading `size` bytes `passes` times, in addition to the arithmetic on them.

    Data that stays in the first-level cache is free. Streams are prefetched, so the rest costs less
    than its transport alone would. From far away, every schedule pays for the first pass.
    """
    caches = isa.core.caches
    if size <= caches.l1_bytes:
        return 0.0
    if size <= caches.l2_bytes:
        return size * passes / (5.0 * caches.l2_rate)
    again = 4.0 * caches.l3_rate if size <= caches.far_bytes else caches.far_rate
    return size * (1.0 / (4.0 * caches.l3_rate) + (passes - 1.0) / again)


def far_cycles(isa: Isa, size: float) -> float:
    """Cycles of reading once, from far away, `size` bytes that other schedules do not read."""
    caches = isa.core.caches
    return max(size - caches.far_bytes, 0.0) / caches.far_rate


def weights_cycles(isa: Isa, size: float, network: float) -> float:
    """Cycles of reading `size` bytes of weights once in a run of a network with `network` bytes.

    There are none if all weights stay in the second level from run to run; otherwise they come from
    the third level or from memory, because earlier layers have evicted them.
    """
    caches, all_bytes = isa.core.caches, max(size, network)
    if all_bytes <= caches.l2_bytes:
        return 0.0
    return size / (caches.l3_rate if all_bytes <= caches.far_bytes else caches.far_rate)
