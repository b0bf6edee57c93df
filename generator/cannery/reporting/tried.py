"""The candidates that tuning tried: the record keeps two per layer, `autotune --json` all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cannery.choose.provenance import served_records
from cannery.choose.record import Entry
from cannery.errors import OptionError
from cannery.options import Options
from cannery.reporting.facts import Facts
from cannery.schedule.schedule import all_schedules
from cannery.user_files import read_file


@dataclass(frozen=True)
class Tried:
    """A candidate: microseconds alone (None: unknown), `estimated` or measured, and its error."""

    schedule: str
    us: float | None
    error: float | None
    chosen: bool
    estimated: bool = False
    fault: str = ""


#: Candidates by number of the layer, fastest first.
TriedByLayer = Mapping[int, tuple[Tried, ...]]


class _Candidate(msgspec.Struct, frozen=True):
    schedule: str
    us: float | None = None
    estimated_us: float | None = None
    error: float | None = None
    fault: str = ""


class _Step(msgspec.Struct, frozen=True):
    name: str
    candidates: list[_Candidate]
    chosen: str


class _Outcome(msgspec.Struct, frozen=True):
    steps: list[_Step]


def tried_of_record(options: Options, facts: Facts) -> TriedByLayer:
    """The candidates in a network's tuning record. Raises RecordError if it is damaged."""
    found: dict[int, tuple[Tried, ...]] = {}
    by_nodes = {layer.nodes: layer for layer in facts.layers}
    for _, _, record in served_records(options):
        estimated = "estimated" in record.provenance
        for entry in record.steps:
            layer = by_nodes.get(tuple(entry.nodes))
            if layer is not None:
                found[layer.number] = _sorted(_of_entry(entry, layer.schedule, estimated))
    return found


def _of_entry(entry: Entry, used: str, estimated: bool) -> list[Tried]:
    """The choice of an entry and its runner-up; `used` is what the network has."""
    rows = [(entry.schedule, entry.params, entry.us, entry.error)]
    other = entry.runner_up
    if other is not None:
        rows.append((other.schedule, other.params, other.us, other.error))
    found = []
    for name, params, us, error in rows:
        schedule = all_schedules().get(name)
        label = schedule.label(params) if schedule else name
        found.append(Tried(label, us, error, label == used, estimated))
    return found


def read_tried(path: Path, facts: Facts) -> TriedByLayer:
    """The output of `cannery autotune --json` in a file. Raises OptionError for anything else."""
    cure = "name a file with the output of cannery autotune --json"
    try:
        outcome = msgspec.json.decode(read_file(path), type=_Outcome)
    except OSError as error:
        raise OptionError(f"cannot be read: {error.strerror}", where=str(path), cure=cure) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OptionError(f"not a report of tuning: {error}", where=str(path), cure=cure) from None
    steps = {step.name: step for step in outcome.steps}
    found = {
        layer.number: _sorted([_tried(c, layer.schedule) for c in steps[layer.name].candidates])
        for layer in facts.layers if layer.name in steps
    }  # fmt: skip
    if facts.layers and not found:
        what = f"it is of another network than {facts.name}: it has none of the layers"
        raise OptionError(what, where=str(path), cure=cure)
    return found


def _tried(candidate: _Candidate, used: str) -> Tried:
    estimated = candidate.us is None and candidate.estimated_us is not None
    us = candidate.estimated_us if estimated else candidate.us
    chosen = candidate.schedule == used
    return Tried(candidate.schedule, us, candidate.error, chosen, estimated, candidate.fault)


def _sorted(found: Sequence[Tried]) -> tuple[Tried, ...]:
    return tuple(sorted(found, key=lambda t: float("inf") if t.us is None else t.us))
