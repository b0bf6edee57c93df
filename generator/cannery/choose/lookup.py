"""Choices from tuning records: takes what fits, and reports what does not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cannery.choose.owner import check_used, owner_text
from cannery.choose.plan import Segment
from cannery.choose.record import Found, Record, find_choices, read_record, record_path
from cannery.choose.stacks import Known, record_stacks
from cannery.errors import RecordError, warn
from cannery.ir.graph import Graph
from cannery.options import Options
from cannery.options_text import option_words
from cannery.schedule.program import Choice, Step
from cannery.target.targets import ANY, NATIVE, Target, plain_target
from cannery.target.toolchain import resolve_target, resolve_targets


def find_record(options: Options, target: Target) -> tuple[Path, Record | None]:
    """The record for a model and target, and where it is or belongs.

    A record named after the instruction set serves `native`, and one of `native` its instruction
    set, if it is the same. Raises RecordError if a record is damaged.
    """
    plain = plain_target(target.isa).name
    paths = _places(options, target)
    record = read_record(paths[0])
    if record is None and target.name in (NATIVE, plain) and paths[1] != paths[0]:
        other = read_record(paths[1])
        if other is not None and (other.isa, other.bits) == (target.isa.name, target.isa.bits):
            return paths[1], other
    return paths[0], record


def _places(options: Options, target: Target) -> list[Path]:
    """Where to look for the record: under the target's name, then under the other one."""
    plain = plain_target(target.isa).name
    names = [target.name, plain if target.name == NATIVE else NATIVE]
    return [record_path(options.model, name, options.tuning, options.form) for name in names]


def record_places(options: Options) -> list[Path]:
    """All files that may be the network's records, whether or not they exist."""
    targets = record_targets(options)
    return [p for each in options.each_block for t in targets for p in _places(each, t)]


def record_targets(options: Options) -> tuple[Target, ...]:
    """The targets whose records count: for several instruction sets, one each."""
    return resolve_targets(options) if len(options.isa) > 1 else (resolve_target(options),)


def untuned(options: Options) -> list[Target]:
    """The targets for which there is no record."""
    return [t for t in record_targets(options) if find_record(options, t)[1] is None]


def untuned_note(options: Options) -> str:
    """A note that a network was never tuned for its targets, with the command that does it; empty
    if it was.

    If `options.tuning` names a folder, `recorded_choices` has already warned.
    """
    targets = untuned(options) if options.tuning is None else []
    if not targets:
        return ""
    names = ", ".join(target.name for target in targets)
    commands = "; ".join(autotune_command(options, target) for target in targets)
    advice = options.tuned_by or f"run {commands}"
    name = options.model.name
    return f"{name} was never tuned for {names}: the cost model chose ({advice})"


def recorded_choices(
    graph: Graph, segments: Sequence[Segment], target: Target, options: Options
) -> tuple[Path | None, dict[int, Choice]]:
    """The record that was used, if any, and what it chooses, by segment.

    Warns (CanneryWarning) about steps for which it has no usable entry; with `options.locked`, that
    is a RecordError, and so is a missing record. Raises RecordError if the record is damaged,
    belongs to another model, or is not where `options.tuning` says.
    """
    path, record = find_record(options, target)
    if record is None:
        _miss(path, options, target)
        return None, {}
    check_used(path, record, options, graph, segments)
    found = find_choices(path, record, graph, segments, target.isa, options.max_error)
    if found.unusable:
        _tell(_problem(found, segments, owner_text(record, options.model)), options, target)
    return path, dict(found.choices)


def _miss(path: Path, options: Options, target: Target) -> None:
    """Raise RecordError if a record must exist, warn if one was looked for."""
    what, cure = "there is no tuning record", _advice(options, target)
    place = options.tuning
    if place is not None and not place.is_dir():
        if place.suffix != ".json":
            what = "there is no folder or tuning record of that name"
            cure = f"make the folder, then {cure}"
        raise RecordError(what, where=str(place), cure=cure)
    if options.locked or place is not None:
        _tell(f"{path}: {what}", options, target)


def recorded_stacks(
    graph: Graph,
    steps: Sequence[Step],
    choices: Sequence[Choice],
    target: Target,
    options: Options,
) -> Known | None:
    """What the record says about several images at once, for the steps and choices of a plan.

    If it says nothing, warns, or raises RecordError with `options.locked`.
    """
    path, record = find_record(options, target)
    if record is None or options.many < 2:
        return None
    found = record_stacks(record, graph, steps, choices, target.isa, options.many)
    if isinstance(found, str):
        _tell(f"{path}: {found}", options, target)
        return None
    return found


def _problem(found: Found, segments: Sequence[Segment], owner: str) -> str:
    """What is wrong with a record; `owner` is the remark about its model."""
    index, reason = next(iter(found.unusable.items()))
    text = f"{found.path}: {owner}{': ' if owner else ''}"
    text += f"layer {segments[index].step.name!r}: {reason}"
    if more := len(found.unusable) - 1:
        text += f"; {more} more {'steps have' if more > 1 else 'step has'} no usable entry"
    return text


def _advice(options: Options, target: Target) -> str:
    return options.tuned_by or f"run {autotune_command(options, target)}"


def _tell(problem: str, options: Options, target: Target) -> None:
    cure = _advice(options, target)
    if options.locked:
        where, _, what = problem.partition(": ")
        raise RecordError(what, where=where, cure=cure)
    text = f"{problem}; the cost model chooses instead ({cure})"
    warn(text)


#: Options without influence on a plan and on the place of its record.
_NO_MATTER = (
    "name", "rename", "input_view", "locked", "tuned_by", "parallel", "openmp", "shared",
    "same_everywhere", "max_size", "max_ram", "max_flash", "fast_ram", "split", "compiled_nn",
    "class_names", "metadata", "trace_steps", "dump_values",
)  # fmt: skip


def autotune_command(options: Options, target: Target) -> str:
    """The command that makes the record that `options` look for, for one of their targets."""
    listed = options.target == ANY and options.macros is not None
    if len(options.isa) > 1 or (listed and not options.isa):
        isa = plain_target(target.isa).name
        options = replace(options, isa=(isa,), target=NATIVE, macros=None)
    words = ["cannery", "autotune", str(options.model), *option_words(options, _NO_MATTER)]
    return shlex.join(words)
