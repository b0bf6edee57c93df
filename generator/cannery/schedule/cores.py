"""Several cores inside one run: which steps are cut into pieces, and into how many at most.

Between two steps all threads have to meet. Handing over the pieces and waiting for the last of them
costs some microseconds, so a piece has to be worth more than that, and small networks stay on one
thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.schedule.program import PlannedStep, Program
from cannery.target.isa import Isa

#: Least microseconds of a piece. Two threads that wait actively meet within half a microsecond,
#: those of OpenMP within one to three, threads that sleep need five and more to wake up.
PIECE_US = 5.0

#: Cycles per microsecond, where only the cost model tells how long a step takes.
CYCLES_PER_US = 2000.0

#: More pieces than any pool has threads.
MAX_PIECES = 1024


@dataclass(frozen=True)
class Cores:
    """That a network may use several cores; `piece_us` as PIECE_US, `openmp` with such a pool."""

    openmp: bool = False
    piece_us: float = PIECE_US


def step_us(graph: Graph, planned: PlannedStep, isa: Isa) -> float:
    """Microseconds that a step takes for one image: as measured, else as estimated."""
    choice = planned.choice
    if choice.us is not None:
        return choice.us
    if planned.step.inputs == planned.step.outputs or not planned.step.inputs:
        return 0.0  # moves a value between layouts, or writes a constant
    cost = choice.schedule.cost(graph, planned.step, choice.params, isa)
    return cost.cycles / CYCLES_PER_US


def pieces(us: float, parts: int, cores: Cores) -> int:
    """Into how many pieces work of so many microseconds and parts is cut at most; 1: not at all."""
    worth = MAX_PIECES if cores.piece_us <= 0 else int(min(us / cores.piece_us, MAX_PIECES))
    return max(min(worth, parts), 1)


def samples_per_piece(program: Program, isa: Isa, cores: Cores) -> int:
    """Inputs that are worth a thread of their own, where many inputs are shared out."""
    if cores.piece_us <= 0:
        return 1
    us = sum(step_us(program.graph, planned, isa) for planned in program.steps)
    return max(1, min(int(cores.piece_us / max(us, 1e-3)) + 1, 4096))
