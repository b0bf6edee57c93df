"""Which buffers are in the workspace, how long they live, and which halos are kept zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cannery.layouts import image_dims
from cannery.lowering.memory_plan import Allocation, align, plan_memory
from cannery.lowering.rings import Ring
from cannery.schedule.program import Program

#: Halos are pinned (in their own memory, zero forever) while all of them fit into this.
PINNED_BYTES = 256 * 1024


@dataclass(frozen=True)
class Workspace:
    """Where buffers and scratch are. `zeroed` are the roots whose halo every run must clear.

    `lower_bound` is the least size that any placement could reach with these lifetimes.
    """

    offsets: Mapping[str, int]
    scratch: Mapping[int, int]
    zeroed: Mapping[str, int]
    bytes: int
    lower_bound: int
    pinned: frozenset[str] = frozenset()


def plan_workspace(
    program: Program, scratch_bytes: Sequence[int], rings: Sequence[Ring] = (),
    most: int | None = None,
) -> Workspace:  # fmt: skip
    """Offsets of all arena buffers, and of the scratch memory of each step; without what a program
    that only runs with its windows in `rings` does without.

    If that takes more than `most` bytes, fewer halos are pinned, or none.
    """
    plan = _plan_pinned(program, scratch_bytes, rings, PINNED_BYTES)
    while most is not None and plan.bytes > most and plan.pinned:
        held = sum(align(buffer_bytes(program, name)) for name in plan.pinned)
        plan = _plan_pinned(program, scratch_bytes, rings, held - 1)  # without the largest of them
    return plan


def _plan_pinned(
    program: Program, scratch_bytes: Sequence[int], rings: Sequence[Ring], most_pinned: int
) -> Workspace:
    """The same with halos of up to `most_pinned` bytes pinned."""
    first, last = lifetimes(program, frozenset().union(*(ring.spared for ring in rings)))
    for ring in rings:
        first.pop(ring.window, None)
    halos = [n for n in first if program.buffers[n].layout.halo]
    pinned = _pinned(program, halos, most_pinned)
    end = len(program.steps)
    blocks = []
    for name in first:
        life = (0, end) if name in pinned else (first[name], last[name])
        blocks.append(Allocation(name, buffer_bytes(program, name), *life))
    for index, size in enumerate(scratch_bytes):
        if size:
            blocks.append(Allocation(f"scratch {index}", size, index, index))
    plan = plan_memory(blocks)
    scratch = {k: plan.offsets[f"scratch {k}"] for k, size in enumerate(scratch_bytes) if size}
    zeroed = {n: first[n] for n in halos if n not in pinned}
    return Workspace(plan.offsets, scratch, zeroed, plan.bytes, plan.lower_bound, frozenset(pinned))


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
