"""Several cores inside one run: which steps are cut into pieces, and into how many at most.

Two things cost time besides the work. Threads must synchronise after each step that is cut, and
data that another core has written comes from its cache. A small uncut step between two large cut
ones reads half of its input from another core, which may take longer than the step itself. So steps
are chosen together: `cut_steps` looks for the least time of two threads. Small networks stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.schedule.program import PlannedStep, Program
from cannery.target.isa import Isa

#: Microseconds that synchronising costs. Threads that wait actively take half a microsecond, those
#: of OpenMP one; threads that sleep take five to fifty to wake up.
MEET_US = 2.0

#: Least microseconds of a piece with more than two threads.
PIECE_US = 5.0

#: Bytes per microsecond that a core reads from the caches of another.
MOVED_BYTES_PER_US = 10_000.0

#: Cycles per microsecond, for steps whose time only the cost model knows.
CYCLES_PER_US = 2000.0

#: More pieces than any pool has threads.
MAX_PIECES = 1024

#: Runs of steps up to this length change together in the search.
MAX_RUN = 12

#: Axes along which a step is cut; tiles are bands of rows of each unit.
ROWS, UNITS, TILES, IMAGES = "rows", "units", "tiles", "images"


@dataclass(frozen=True)
class Cores:
    """Settings for a network that may use several cores; `openmp`: with OpenMP's pool.

    `piece_us` is like PIECE_US; 0: every step that can be cut is, into as many pieces as it has
    parts.
    """

    openmp: bool = False
    piece_us: float = PIECE_US


@dataclass(frozen=True)
class Work:
    """A step: its microseconds, and the `parts` that it could be cut into along an axis.

    `reads` lists the step that wrote each input (-1: the caller) and the input's bytes.
    """

    us: float
    axis: str = ROWS
    parts: int = 1
    reads: tuple[tuple[int, int], ...] = ()


def step_us(graph: Graph, planned: PlannedStep, isa: Isa) -> float:
    """Microseconds that a step takes for one image: as measured, else as estimated."""
    choice = planned.choice
    if choice.us is not None:
        return choice.us
    if planned.step.inputs == planned.step.outputs or not planned.step.inputs:
        return 0.0  # moves a value between layouts, or writes a constant
    cost = choice.schedule.cost(graph, planned.step, choice.params, isa)
    return cost.cycles / CYCLES_PER_US


def samples_per_piece(program: Program, isa: Isa, cores: Cores) -> int:
    """How many inputs are worth a thread, when many inputs are divided up."""
    if cores.piece_us <= 0:
        return 1
    us = sum(step_us(program.graph, planned, isa) for planned in program.steps)
    return max(1, min(int(cores.piece_us / max(us, 1e-3)) + 1, 4096))


def cut_steps(works: Sequence[Work], cores: Cores) -> list[int]:
    """The most pieces into which each step is cut; 1: not at all."""
    if cores.piece_us <= 0:
        return [min(work.parts, MAX_PIECES) for work in works]
    whole = (False,) * len(works)
    all_cut = tuple(work.parts > 1 for work in works)
    found = [_improved(works, start) for start in (whole, all_cut)]
    best = min(found, key=lambda cut: two_thread_us(works, cut))
    return [_pieces(w, cores) if cut else 1 for w, cut in zip(works, best, strict=True)]


def _pieces(work: Work, cores: Cores) -> int:
    """At least two; more if each has enough to compute or to fetch."""
    us = work.us + sum(size for _, size in work.reads) / MOVED_BYTES_PER_US
    return min(max(int(us / cores.piece_us), 2), work.parts, MAX_PIECES)


def two_thread_us(works: Sequence[Work], cut: Sequence[bool]) -> float:
    """Microseconds that two threads take, if those steps are cut."""
    return sum(_step_time(works, cut, index) for index in range(len(works)))


def _step_time(works: Sequence[Work], cut: Sequence[bool], index: int) -> float:
    work = works[index]
    us = work.us
    if cut[index]:
        us = us * -(-work.parts // 2) / work.parts + MEET_US
    for writer, size in work.reads:
        before = works[writer].axis if writer >= 0 and cut[writer] else ""
        us += _moved(before, work.axis if cut[index] else "") * size / MOVED_BYTES_PER_US
    return us


def _moved(before: str, now: str) -> float:
    """The part of a value that the busier of two threads reads from the other core.

    The arguments are the axes along which it is written and read; empty: by the calling thread.
    """
    if not now:
        return 0.5 if before else 0.0
    if now in (UNITS, TILES):  # each thread reads everything
        return 0.5 if before else 1.0
    if before in (UNITS, TILES):
        return 0.25
    return 0.0 if before else 0.5


def _improved(works: Sequence[Work], start: Sequence[bool]) -> tuple[bool, ...]:
    """Cuts runs of steps, or undoes it, as long as that saves time."""
    cut = list(start)
    readers = _readers(works)
    improved = True
    while improved:
        improved = False
        for first in range(len(works)):
            for end in range(first + 1, min(first + MAX_RUN, len(works)) + 1):
                for value in (True, False):
                    improved |= _try_run(works, cut, readers, range(first, end), value)
    return tuple(cut)


def _readers(works: Sequence[Work]) -> list[set[int]]:
    """For each step, the steps whose time depends on it: itself, and the readers of its outputs."""
    found = [{index} for index in range(len(works))]
    for index, work in enumerate(works):
        for writer, _ in work.reads:
            if writer >= 0:
                found[writer].add(index)
    return found


def _try_run(
    works: Sequence[Work], cut: list[bool], readers: Sequence[set[int]], run: range, value: bool
) -> bool:
    """Set a run of steps to `value` (those that can be cut) if that saves time; returns whether it
    does.
    """
    changed = [k for k in run if cut[k] != value and (works[k].parts > 1 or not value)]
    if not changed or changed[0] != run.start or changed[-1] != run.stop - 1:
        return False  # a shorter run does the same
    affected = sorted(set().union(*(readers[k] for k in changed)))
    before = sum(_step_time(works, cut, k) for k in affected)
    for k in changed:
        cut[k] = value
    if sum(_step_time(works, cut, k) for k in affected) < before - 1e-9:
        return True
    for k in changed:
        cut[k] = not value
    return False
