"""Which buffers are in the workspace, how long they live, and which halos are kept zero.

With two memories, the workspace has two regions: its first bytes are those of the fast memory, all
others those of the slow one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from cannery.layouts import image_dims
from cannery.lowering.accesses import accesses, scratch_name
from cannery.lowering.fast_memory import choose_fast
from cannery.lowering.memory_plan import (
    ALIGNMENT,
    Allocation,
    MemoryPlan,
    align,
    most_alive,
    plan_memory,
)
from cannery.lowering.rings import Ring
from cannery.schedule.program import Program

#: How much larger a workspace may be so that steps need little of it; their next states then need
#: no memory after it.
_MORE_FOR_STEPS = 1.02

#: Halos are pinned (in their own memory, zero forever) while all of them fit into this.
PINNED_BYTES = 256 * 1024


@dataclass(frozen=True)
class FastRegion:
    """The part of a workspace in fast memory: its size in bytes, and what is accessed there.

    Of the bytes that a run accesses, `all`, as `lowering/accesses.py` counts them, `accesses` lie
    there. No choice of the same buffers gets more than `most` into that memory.
    """

    bytes: int
    accesses: int
    most: int
    all: int

    @property
    def share(self) -> str:
        """The part of all accesses that it has."""
        return _percent(self.accesses, self.all)

    @property
    def bound(self) -> str:
        """The largest part that any choice of these buffers gets."""
        return _percent(self.most, self.all)


@dataclass(frozen=True)
class Workspace:
    """Where buffers and scratch are. `zeroed` are the roots whose halo every run must clear.

    `lower_bound` is the least size that any placement could reach with these lifetimes. Functions
    that run a network with its past in place use the first `of_steps` bytes only. With a
    `fast` region, offsets and `bytes` count both: those of the slow one follow.
    """

    offsets: Mapping[str, int]
    scratch: Mapping[int, int]
    zeroed: Mapping[str, int]
    bytes: int
    lower_bound: int
    of_steps: int
    pinned: frozenset[str] = frozenset()
    fast: FastRegion | None = None

    @property
    def fast_bytes(self) -> int:
        """Bytes of the fast region, 0 without one."""
        return self.fast.bytes if self.fast else 0

    def place(self, at: int) -> str:
        """C for the memory at an offset: `ws + 64`, or in the fast region `quick + 64`."""
        return f"quick + {at}" if at < self.fast_bytes else f"ws + {at - self.fast_bytes}"


def plan_workspace(
    program: Program, scratch_bytes: Sequence[int], rings: Sequence[Ring] = (),
    most: int | None = None, fast_ram: int | None = None, kept: Sequence[Ring] = (),
) -> Workspace:  # fmt: skip
    """Offsets of all arena buffers, and of the scratch memory of each step; without what a program
    that only runs with its windows in `rings` does without. What one that may run with those in
    `kept` needs then comes first.

    If that takes more than `most` bytes, fewer halos are pinned, or none. With `fast_ram`, up to so
    many bytes are a region of their own, for what is accessed most; halos are pinned unless more
    of the accesses are there without them.
    """
    made = partial(
        _plan_pinned,
        program,
        scratch_bytes,
        rings,
        fast_ram=fast_ram,
        kept=kept or rings,
        most=inf if most is None else most,
    )
    plan = made(PINNED_BYTES)
    if plan.fast and plan.pinned:
        other = made(0)
        plan = other if other.fast and other.fast.accesses > plan.fast.accesses else plan
    while most is not None and plan.bytes > most and plan.pinned:
        held = sum(align(buffer_bytes(program, name)) for name in plan.pinned)
        plan = made(held - 1)  # without the largest of them
    return plan


def _plan_pinned(
    program: Program, scratch_bytes: Sequence[int], rings: Sequence[Ring], most_pinned: int,
    fast_ram: int | None, kept: Sequence[Ring], most: float,
) -> Workspace:  # fmt: skip
    """The same with halos of up to `most_pinned` bytes pinned."""
    first, last = _lifetimes_with(program, rings)
    halos = [n for n in first if program.buffers[n].layout.halo]
    pinned = _pinned(program, halos, most_pinned)
    end = len(program.steps)
    blocks = []
    for name in first:
        life = (0, end) if name in pinned else (first[name], last[name])
        blocks.append(Allocation(name, buffer_bytes(program, name), *life))
    for index, size in enumerate(scratch_bytes):
        if size:
            blocks.append(Allocation(scratch_name(index), size, index, index))
    if fast_ram is None:
        needed = _needed(program, scratch_bytes, kept)
        (plan, of_steps), fast = _steps_first(blocks, needed, most), None
        of_steps = plan.bytes if pinned - needed else of_steps
    else:
        plan, fast = _two_regions(blocks, accesses(program, scratch_bytes), fast_ram)
        of_steps = plan.bytes
    scratch = {k: plan.offsets[scratch_name(k)] for k, size in enumerate(scratch_bytes) if size}
    zeroed = {n: first[n] for n in halos if n not in pinned}
    return Workspace(
        plan.offsets, scratch, zeroed, plan.bytes, plan.lower_bound, of_steps, frozenset(pinned),
        fast,
    )  # fmt: skip


def _lifetimes_with(
    program: Program, rings: Sequence[Ring]
) -> tuple[dict[str, int], dict[str, int]]:
    """First and last step of what a program needs that runs with its windows in `rings`."""
    first, last = lifetimes(program, _spared(rings))
    for ring in rings:
        first.pop(ring.window, None)
    return first, last


def _spared(rings: Sequence[Ring]) -> frozenset[int]:
    return frozenset().union(*(ring.spared for ring in rings))


def _needed(program: Program, scratch_bytes: Sequence[int], rings: Sequence[Ring]) -> set[str]:
    """The blocks of such a program."""
    spared = _spared(rings)
    scratch = {scratch_name(k) for k, size in enumerate(scratch_bytes) if size and k not in spared}
    return {*_lifetimes_with(program, rings)[0], *scratch}


def _steps_first(
    blocks: Sequence[Allocation], needed: set[str], most: float
) -> tuple[MemoryPlan, int]:
    """A plan, and the bytes up to the end of what is `needed`: as few as can be, if all blocks
    together then take hardly more, and no more than `most`.
    """
    plan, inner = plan_memory(blocks), [block for block in blocks if block.name in needed]
    if len(inner) < len(blocks):
        other = plan_memory(blocks, plan_memory(inner).offsets)
        allowed = max(plan.bytes, min(_MORE_FOR_STEPS * plan.bytes, most))
        plan = other if other.bytes <= allowed else plan
    ends = (plan.offsets[block.name] + align(block.bytes) for block in inner)
    return plan, max(ends, default=0)


def _two_regions(
    blocks: Sequence[Allocation], touched: Mapping[str, int], room: int
) -> tuple[MemoryPlan, FastRegion]:
    """Offsets in both regions, the fast one of up to `room` bytes first; `touched` are accesses."""
    chosen = choose_fast(blocks, touched, room)
    near = plan_memory([block for block in blocks if block.name in chosen.names])
    far = plan_memory([block for block in blocks if block.name not in chosen.names])
    begin = max(near.bytes, ALIGNMENT)
    offsets = {**near.offsets, **{name: begin + at for name, at in far.offsets.items()}}
    every = sum(touched.get(block.name, 0) for block in blocks)
    region = FastRegion(begin, chosen.accesses, chosen.most, every)
    return MemoryPlan(offsets, begin + far.bytes, most_alive(blocks)), region


def _percent(part: int, all_: int) -> str:
    return f"{100 * part / max(all_, 1):.1f} %"


def buffer_bytes(program: Program, name: str) -> int:
    """Bytes of a buffer, all images of the batch."""
    buffer = program.buffers[name]
    return image_dims(buffer.type)[0] * buffer.layout.bytes


def _pinned(program: Program, halos: Sequence[str], most: int) -> set[str]:
    """The smallest halo buffers, as long as they fit into `most` bytes together."""
    pinned: set[str] = set()
    total = 0
    for name in sorted(halos, key=lambda n: (buffer_bytes(program, n), n)):
        total += align(buffer_bytes(program, name))
        if total > most:
            break
        pinned.add(name)
    return pinned


def lifetimes(
    program: Program, spared: frozenset[int] = frozenset()
) -> tuple[dict[str, int], dict[str, int]]:
    """First and last step of every arena root, of the steps that are not `spared`."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, step in enumerate(program.steps):
        if index in spared:
            continue
        for name in (*step.reads, *step.writes):
            root = program.buffers[name].root
            if program.buffers[root].storage == "arena":
                first.setdefault(root, index)
                last[root] = index
    return first, last


def alive(
    program: Program, workspace: Workspace, scratch_bytes: Sequence[int]
) -> list[dict[str, int]]:
    """The bytes of what is alive at each step, by buffer; scratch memory is `scratch`."""
    first, last = lifetimes(program)
    found = []
    for index, scratch in enumerate(scratch_bytes):
        names = (
            n for n in first
            if n in workspace.pinned or first[n] <= index <= last[n]
        )  # fmt: skip
        blocks = {name: buffer_bytes(program, name) for name in names}
        found.append(blocks | ({"scratch": scratch} if scratch else {}))
    return found
