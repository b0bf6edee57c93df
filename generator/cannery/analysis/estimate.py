"""Cycles of a program's functions: how often their code runs x how long it takes.

An emulator counts the former, a model of the pipeline estimates the latter. It ignores caches and
mispredicted branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Function, Instruction, Machine
from cannery.analysis.estimator import Estimator, Task
from cannery.analysis.loops import find_regions, split_blocks


@dataclass(frozen=True)
class Counted:
    """A function with those that it calls; `runs` says how often each instruction runs in one call,
    by address.
    """

    functions: tuple[Function, ...]
    runs: Mapping[int, float]


@dataclass(frozen=True)
class _Run:
    """Code that runs `passes` times."""

    task: Task
    passes: float


def estimate(
    machine: Machine, counted: Sequence[Counted], estimator: Estimator
) -> list[float | None]:
    """Cycles of one call of each function.

    None if the model does not know an instruction. Raises ToolchainError if it cannot be run.
    """
    runs = [
        [run for function in one.functions for run in _of_function(function, machine, one.runs)]
        for one in counted
    ]
    distinct = list(dict.fromkeys(run.task for found in runs for run in found))
    cycles = dict(zip(distinct, estimator.batch(distinct), strict=True))
    return [_total(found, cycles) for found in runs]


def _total(runs: Sequence[_Run], cycles: Mapping[Task, float | None]) -> float | None:
    total = 0.0
    for run in runs:
        each = cycles[run.task]
        if each is None:
            return None
        total += each * run.passes
    return total


def _of_function(function: Function, machine: Machine, runs: Mapping[int, float]) -> Iterator[_Run]:
    """Blocks of one loop that run equally often are one piece of code."""
    blocks = split_blocks(function, machine)
    for region in find_regions(blocks):
        code: dict[float, list[Instruction]] = {}
        for number in region.blocks:
            instructions = blocks[number].instructions
            passes = runs.get(instructions[0].address, 0)
            if passes:
                code.setdefault(passes, []).extend(instructions)
        for passes, found in code.items():
            yield _Run(Task(tuple(found), loop=passes > 1), passes)
