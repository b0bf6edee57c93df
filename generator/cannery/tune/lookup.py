"""Choices from tuning records: what fits is taken, what does not is told."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cannery.errors import CanneryWarning, RecordError
from cannery.ir.graph import Graph
from cannery.options import Options
from cannery.options_text import option_words
from cannery.schedule.program import Choice, Step
from cannery.target.targets import ANY, NATIVE, Target, plain_target
from cannery.tune.plan import Unit
from cannery.tune.record import Found, Record, find_choices, read_record, record_path
from cannery.tune.stacks import Known, record_stacks


def find_record(options: Options, target: Target) -> tuple[Path, Record | None]:
    """The record for a model and target, and where it is or belongs.

    A record named after the instruction set serves `native`, and one of `native` its instruction
    set, if it is the same. Raises RecordError if a record is damaged.
    """
    plain = plain_target(target.isa).name
    names = [target.name, plain if target.name == NATIVE else NATIVE]
    paths = [record_path(options.model, name, options.tuning, options.form) for name in names]
    record = read_record(paths[0])
    if record is None and target.name in (NATIVE, plain) and paths[1] != paths[0]:
        other = read_record(paths[1])
        if other is not None and (other.isa, other.bits) == (target.isa.name, target.isa.bits):
            return paths[1], other
    return paths[0], record


def recorded_choices(
    graph: Graph, units: Sequence[Unit], target: Target, options: Options
) -> tuple[Path | None, dict[int, Choice]]:
    """The record that was used, if any, and what it chooses, by unit.

    Warns (CanneryWarning) about steps for which it has no usable entry; with `options.locked`, that
    is a RecordError, as is a missing record. Raises RecordError if the record is damaged.
    """
    path, record = find_record(options, target)
    if record is None:
        if options.locked or options.tuning is not None:
            _tell(f"{path}: there is no tuning record", options, target)
        return None, {}
    found = find_choices(path, record, graph, units, target.isa, options.max_error)
    if found.unusable:
        _tell(_problem(found, units), options, target)
    return path, dict(found.choices)


def recorded_stacks(
    graph: Graph,
    steps: Sequence[Step],
    choices: Sequence[Choice],
    target: Target,
    options: Options,
) -> Known | None:
    """What the record says of several images at once, for the steps and choices of a plan.

    Warns, or raises RecordError if `options.locked`, where it says nothing.
    """
    path, record = find_record(options, target)
    if record is None or options.many < 2:
        return None
    found = record_stacks(record, graph, steps, choices, target.isa, options.many)
    if isinstance(found, str):
        _tell(f"{path}: {found}", options, target)
        return None
    return found


def _problem(found: Found, units: Sequence[Unit]) -> str:
    index, reason = next(iter(found.unusable.items()))
    text = f"{found.path}: layer {units[index].step.name!r}: {reason}"
    if len(found.unusable) > 1:
        text += f"; so are {len(found.unusable) - 1} more steps"
    return text


def _tell(problem: str, options: Options, target: Target) -> None:
    cure = options.tuned_by or f"run {autotune_command(options, target)}"
    if options.locked:
        where, _, what = problem.partition(": ")
        raise RecordError(what, where=where, cure=cure)
    text = f"{problem}; the cost model chooses instead ({cure})"
    warnings.warn(text, CanneryWarning, stacklevel=2)


#: Options without influence on a plan and on where its record lies.
_NO_MATTER = ("name", "rename", "input_view", "locked", "tuned_by", "parallel", "openmp")


def autotune_command(options: Options, target: Target) -> str:
    """The command that makes the record which `options` look for, for one of their targets."""
    if len(options.isa) > 1 or (options.target == ANY and not options.isa):
        isa = plain_target(target.isa).name
        options = replace(options, isa=(isa,), target=NATIVE, macros=None)
    words = ["cannery", "autotune", str(options.model), *option_words(options, _NO_MATTER)]
    return shlex.join(words)
