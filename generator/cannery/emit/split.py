"""The steps of a large network in several C files, which a build compiles at once.

`<name>.c` keeps what calls the steps; `<name>_steps1.c` and so on have the steps, in their order.
Build systems name all sources before the model is read, so there are as many files as requested,
even if some are empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cannery.ctext.arrays import format_array
from cannery.ctext.environment import render
from cannery.ctext.tidy import tidy
from cannery.emit.many import StackedStep
from cannery.emit.steps import Call
from cannery.schedule.schedule import TURNED

if TYPE_CHECKING:
    from cannery.emit.source import Source


@dataclass(frozen=True)
class StepFile:
    """File `number`, from 1, with the functions of some steps, single or stacked."""

    number: int
    calls: tuple[Call, ...] = ()
    stacked: tuple[StackedStep | Call, ...] = ()

    @property
    def prototypes(self) -> list[str]:
        """The prototypes of the functions that `<name>.c` calls."""
        parts: tuple[Call | StackedStep, ...] = (*self.calls, *self.stacked)
        heads = (_head(part.symbol).findall(part.kernel.code) for part in parts)
        return [f"{head};" for found in heads for head in dict.fromkeys(found)]

    def code(self, part: Call | StackedStep) -> str:
        """The code of a step, with what calls it visible to other files."""
        return _head(part.symbol).sub(r"\1", part.kernel.code)


def step_files(source: Source) -> tuple[StepFile, ...]:
    """The files, with about equal amounts of code; none if the steps are in `<name>.c`.

    Stacked steps, and those of further blocks, use constants of single ones, so if there are any,
    everything is in the first file.
    """
    if source.split < 2:
        return ()
    if source.more_steps:
        rest = (StepFile(number) for number in range(2, source.split + 1))
        return (StepFile(1, source.calls, tuple(source.more_steps)), *rest)
    sizes = [len(call.kernel.code) for call in source.calls]
    found, at = [], 0
    for number, count in enumerate(even_parts(sizes, source.split), 1):
        found.append(StepFile(number, source.calls[at : at + count]))
        at += count
    return tuple(found)


def even_parts(sizes: Sequence[int], parts: int) -> list[int]:
    """How many neighbours each part gets, so that the largest part is as small as possible."""
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(sizes, middle)) <= parts else (middle + 1, high)
    counts = _filled(sizes, high)
    return [*counts, *([0] * (parts - len(counts)))]


def _filled(sizes: Sequence[int], room: int) -> list[int]:
    """The same with parts that take as much as fits."""
    counts, left = [0], room
    for size in sizes:
        if size > left:
            counts.append(0)
            left = room
        counts[-1] += 1
        left -= size
    return counts


def step_texts(source: Source) -> dict[str, str]:
    """Their texts by name."""
    return {name: _text(source, file) for name, file in _named(source)}


def step_sources(source: Source) -> Sequence[str]:
    """Their names."""
    return [name for name, _ in _named(source)]


def _named(source: Source) -> list[tuple[str, StepFile]]:
    return [(f"{source.name}_steps{file.number}.c", file) for file in step_files(source)]


def _text(source: Source, file: StepFile) -> str:
    text = render(
        "emit/steps.c.j2", s=source, file=file, calls=file.calls, stacked=file.stacked,
        code=file.code, format_array=format_array,
    )  # fmt: skip
    return tidy(text)


def _head(symbol: str) -> re.Pattern[str]:
    """The beginnings of a step's functions; their parameters have no parentheses."""
    return re.compile(rf"^static (void {symbol}(?:{TURNED})?\([^()]*\))", re.MULTILINE)
