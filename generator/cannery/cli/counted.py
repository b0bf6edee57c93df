"""What `cannery bench --from` shows: the time of each step, as a library counted it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cannery.cli.output import print_json, print_table
from cannery.emit.dispatch import part_name
from cannery.emit.source import Source
from cannery.execution.counted import Counted, OtherCodeError, read_counted
from cannery.options import Options
from cannery.pipeline import compile_model
from cannery.target.targets import parse_isa


def show_counted(options: Options, path: Path, *, as_json: bool) -> None:
    """Print the mean times in a file. Raises OptionError if it is of other code."""
    source, found = _counted(options, path)
    together = sum(found.us)
    steps: list[dict[str, Any]] = [
        {
            "name": call.planned.step.name, "op": call.planned.step.kind,
            "schedule": str(call.planned.choice), "us": us,
            "macs": call.planned.step.macs(source.graph),
        }
        for call, us in zip(source.calls, found.us, strict=True)
    ]  # fmt: skip
    if as_json:
        print_json({"runs": found.runs, "steps_us": together, "steps": steps})
        return
    rows = [
        [s["name"], s["schedule"], s["macs"], f"{s['us']:.3g}", f"{100 * s['us'] / together:.1f}"]
        for s in steps
    ]
    print_table(["step", "schedule", "MACs", "us", "% of all"], rows)
    click.echo(
        f"\n{found.runs:,} runs counted by the library ({source.isa.name}), "
        f"steps together {together:.2f} us"
    )


def _counted(options: Options, path: Path) -> tuple[Source, Counted]:
    """What was counted, and the code; of several instruction sets, the one that ran."""
    if len(options.isa) < 2:
        source = compile_model(options).source
        return source, read_counted(path, source)
    for given in options.isa:
        name = part_name(options.name, parse_isa(given))
        source = compile_model(replace(options, name=name, isa=(given,))).source
        try:
            return source, read_counted(path, source)
        except OtherCodeError as error:
            last = error
    raise last
