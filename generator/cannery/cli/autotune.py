"""`cannery autotune`: variants of every layer are built and timed; the best become the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options
from cannery.cli.files import check_output_file
from cannery.cli.output import json_option, note, print_json
from cannery.cli.tuning_progress import live_progress
from cannery.cli.tuning_report import as_dict, print_report
from cannery.options import make_options


@click.command("autotune")
@generating_options()
@click.option(
    "--budget",
    type=click.FloatRange(min=0.0),
    metavar="SECONDS",
    help="Begin nothing new after so much time; what is left is estimated.",
)
@click.option("--exhaustive", is_flag=True, help="Measure every candidate, not the likely ones.")
@click.option("--all-layers", is_flag=True, help="Show layers without arithmetic, too.")
@json_option
def command(
    model: Path,
    budget: float | None,
    exhaustive: bool,
    all_layers: bool,
    as_json: bool,
    **raw: Any,
) -> int:
    """Measure variants of every layer of MODEL, and write the best plan as its tuning record.

    The record lies beside the model unless --tuning says otherwise. Exit code 1 if the network's
    error exceeds --max-error.
    """
    from cannery.tune.tuner import Settings, tune

    options = make_options(model, raw)
    if options.tuning is not None and not options.tuning.is_dir():
        check_output_file(options.tuning, "--tuning")
    with live_progress() as progress:
        outcome = tune(options, Settings(budget, exhaustive), progress)
    if as_json:
        print_json(as_dict(outcome))
    else:
        print_report(outcome, all_layers=all_layers)
        state = "written" if outcome.changed else "confirmed, not a byte changed"
        note(f"{outcome.path}: {state}")
    return int(outcome.error > options.max_error)
