"""Whose record a file holds: another model's record is neither used by accident nor overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cannery.choose.plan import Segment
from cannery.choose.record import Record, match
from cannery.errors import RecordError
from cannery.ir.graph import Graph
from cannery.options import Options
from cannery.target.targets import Target


def owner_text(record: Record, model: Path) -> str:
    """`this is the record of cnn_old, not of ball`; empty if it is the model's own."""
    if record.model == model.stem:
        return ""
    return f"this is the record of {record.model}, not of {model.stem}"


def check_used(
    path: Path, record: Record, options: Options, graph: Graph, segments: Sequence[Segment]
) -> None:
    """Raise RecordError if --tuning names another model's record without an entry for any step.

    A model that was renamed, retrained or partly changed keeps its record.
    """
    other = owner_text(record, options.model)
    if (
        other
        and record.steps
        and path == options.tuning
        and not any(match(record, graph, segments).values())
    ):
        cure = f"--tuning must name the record of {options.model.stem}, or leave it out"
        raise RecordError(f"{other}: it has none of the layers", where=str(path), cure=cure)


def check_replaced(
    path: Path,
    record: Record,
    options: Options,
    target: Target,
    graph: Graph,
    segments: Sequence[Segment],
) -> str:
    """The remark about a record that tuning replaces; empty if it is the network's own.

    The record of a renamed model says the same about all layers. Raises RecordError if --tuning
    names a record that belongs to another model or target.
    """
    if not record.steps:
        return ""
    entries = match(record, graph, segments)
    used = {entry.signature for entry in entries.values() if entry}
    same = None not in entries.values() and used == {entry.signature for entry in record.steps}
    problem = "" if same else owner_text(record, options.model)
    elsewhere = (record.isa, record.bits) != (target.isa.name, target.isa.bits)
    if not problem and elsewhere and record.target != target.name:
        problem = f"this is the record for {record.target}, not for {target.name}"
    if problem and path == options.tuning:
        cure = "name another file, or a folder, with --tuning; or delete this one first"
        raise RecordError(f"{problem}, and would be overwritten", where=str(path), cure=cure)
    if not used:
        problem = problem or "the record had nothing for this network"
    return problem and f"{problem}; it is replaced"
