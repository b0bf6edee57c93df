"""A tuning record by which the float network takes sigmoid and tanh from lookup tables.

Such forms are chosen when a network is tuned, where they are the fastest that MAX_ERROR allows. For
the table in README.md one is chosen anyway; all else is as without tuning.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cannery import __version__
from cannery.choose.record import FORMAT, Record, make_entry, record_path, write_record
from cannery.choose.signature import graph_key
from cannery.ops.recurrent.base import Recurrent
from cannery.options import make_options
from cannery.pipeline import choose, import_graph
from cannery.schedule.schedule import MATH
from cannery.target.toolchain import resolve_target

#: How many pieces tables have by default.
PIECES = 1024


def write_record_of_tables(
    model: Path, folder: Path, target: str, longest: int, pieces: int = PIECES
) -> None:
    """Write the record for a target into a folder; the options are those of CMakeLists.txt."""
    options = make_options(model, {
        "target": target, "variable_length": True, "dims": (f"length={longest}",),
        "input_dtype": ("columns=uint8",), "scale": "-0.015625", "offset": "3",
    })  # fmt: skip
    found, graph = resolve_target(options), import_graph(options)
    chosen = choose(graph, found, options)
    entries = []
    for step, choice in zip(chosen.steps, chosen.choices, strict=True):
        recurrent = isinstance(step.anchor.op, Recurrent)
        params = {**choice.params, MATH: f"lut{pieces}"} if recurrent else choice.params
        own = replace(choice, params=params)
        entries.append(make_entry(graph, step, found.isa, own, error=None, runner_up=None))
    record = Record(
        FORMAT, __version__, model.stem, found.name, found.isa.name, found.isa.bits,
        graph_key(graph), {}, entries,
    )  # fmt: skip
    write_record(record_path(model, found.name, folder), record)
