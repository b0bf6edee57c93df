"""What a library counted of its steps (TRACE_STEPS), as `cannery/trace_file.h` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.user_files import read_file

_FORMAT = 1
_CURE = "write it with cannery_trace_write of cannery/trace_file.h"


class _Step(msgspec.Struct):
    function: str
    calls: int
    ticks: int


class _File(msgspec.Struct):
    cannery_trace: int
    hash: str
    ticks_per_second: int
    steps: list[_Step]


class OtherCodeError(OptionError):
    """The file is of other code."""


@dataclass(frozen=True)
class Counted:
    """Microseconds of each step in one run, and how many runs were counted (the most of a step)."""

    us: tuple[float, ...]
    runs: int


def read_counted(path: Path, source: Source) -> Counted:
    """What a file says of the steps of a network.

    Raises OptionError if it is missing or damaged, of other code, or of no run.
    """
    where = str(path)
    try:
        found = msgspec.json.decode(read_file(path), type=_File)
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=_CURE) from None
    except msgspec.MsgspecError as error:
        raise OptionError(f"not a trace of steps: {error}", where=where, cure=_CURE) from None
    functions = [call.symbol for call in source.calls]
    if found.cannery_trace != _FORMAT or found.ticks_per_second <= 0:
        raise OptionError("not a trace of steps that is known", where=where, cure=_CURE)
    if found.hash != source.hash or [step.function for step in found.steps] != functions:
        raise OtherCodeError(
            "counted by other code", where=where,
            cure="name the model, options and record from which the library was made",
        )  # fmt: skip
    runs = max((step.calls for step in found.steps), default=0)
    ticks = sum(step.ticks for step in found.steps)
    if min(runs, ticks) <= 0 or any(step.calls < 0 or step.ticks < 0 for step in found.steps):
        raise OptionError("no run was counted", where=where, cure="run the network first")
    scale = 1e6 / found.ticks_per_second
    return Counted(
        tuple(scale * step.ticks / step.calls if step.calls else 0.0 for step in found.steps), runs
    )
