"""What `cannery bench --from` shows: the time of each step, as a library counted it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.cli.output import print_json, print_table
from cannery.execution.counted import read_counted
from cannery.options import Options
from cannery.pipeline import compile_model


def show_counted(options: Options, path: Path, *, as_json: bool) -> None:
    """Print the mean times in a file. Raises OptionError if it is of other code."""
    source = compile_model(options).source
    found = read_counted(path, source)
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
    click.echo(f"\n{found.runs:,} runs counted by the library, steps together {together:.2f} us")
