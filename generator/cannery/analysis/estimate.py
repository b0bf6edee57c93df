"""Cycles of whole functions of a program, without running it: how often code runs x what it takes.

`walk.py` counts, llvm-mca tells the cycles of each piece. It knows neither caches nor mispredicted
branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Instruction
from cannery.analysis.loops import find_regions
from cannery.analysis.mca import Estimator, Task
from cannery.analysis.walk import Walker


@dataclass(frozen=True)
class _Run:
    """Code that runs `passes` times."""

    task: Task
    passes: int


def estimate(walker: Walker, starts: Sequence[int], estimator: Estimator) -> list[float | None]:
    """Cycles of one call of each of the functions that begin at `starts`.

    None where it cannot be seen how often its loops run, or llvm-mca does not know an instruction.
    Raises ToolchainError if llvm-mca cannot be run.
    """
    runs = [_runs(walker, start) for start in starts]
    distinct = list(dict.fromkeys(run.task for found in runs for run in found or ()))
    cycles = dict(zip(distinct, estimator.batch(distinct), strict=True))
    return [None if found is None else _total(found, cycles) for found in runs]


def _total(runs: Sequence[_Run], cycles: dict[Task, float | None]) -> float | None:
    total = 0.0
    for run in runs:
        each = cycles[run.task]
        if each is None:
            return None
        total += each * run.passes
    return total


def _runs(walker: Walker, start: int) -> list[_Run] | None:
    counts = walker.counts(start)
    if counts is None:
        return None
    functions = dict.fromkeys(function for function, _ in counts)
    return [run for function in functions for run in _of_function(walker, function, counts)]


def _of_function(
    walker: Walker, function: int, counts: dict[tuple[int, int], int]
) -> Iterator[_Run]:
    """Blocks of one loop that run equally often are one piece of code."""
    blocks = walker.code(function).blocks
    for region in find_regions(blocks):
        code: dict[int, list[Instruction]] = {}
        for number in region.blocks:
            passes = counts.get((function, number), 0)
            if passes:
                code.setdefault(passes, []).extend(blocks[number].instructions)
        for passes, instructions in code.items():
            yield _Run(Task(tuple(instructions), loop=passes > 1), passes)
