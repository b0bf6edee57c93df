"""`cannery verify`: the generated network against the float64 reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.api.verify import verify_network
from cannery.cli.arguments import FILE, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table


@click.command(
    "verify",
    cls=Command,
    examples=(
        "cannery verify ball.h5",
        "cannery verify ball.h5 --target aarch64-a72 --layers",
        "cannery verify ball.h5 --inputs in.npz --against expected.npz",
        "cannery verify amp.nam --streaming --inputs x.npz --against y.npz --prewarm",
    ),
)
@generating_options()
@click.option(
    "--inputs",
    type=FILE,
    metavar="IN.npz",
    help="One array per input, by its name in the model (default: 16 random samples). Of a network "
    "that runs step by step: one sequence.",
)
@click.option(
    "--against",
    type=FILE,
    metavar="OUT.npz",
    help="With --inputs: expected outputs by name (default: computed in float64).",
)
@click.option(
    "--prewarm",
    is_flag=True,
    help="With --inputs: the sequence begins after silence, with the state that prewarm makes.",
)
@click.option("--layers", is_flag=True, help="Also check every step on its own.")
@json_option
def command(
    model: Path, inputs: Path | None, against: Path | None, prewarm: bool, layers: bool,
    as_json: bool, **raw: Any,
) -> int:  # fmt: skip
    """Compare what MODEL's generated code computes with the reference.

    The error of an output is max|y - ref| / max|ref|. Exit code 1 if one exceeds --max-error.
    """
    options = options_of(model, raw)
    found = verify_network(
        options, inputs, against, layers=layers, prewarm=prewarm, device=as_json, tell=note
    )
    if as_json:
        print_json({
            "passed": found.passed, "errors": dict(found.errors), "max_error": found.max_error,
            "compared": dict(found.compared), "samples": found.samples, "target": found.target,
            "origin": found.origin,
            "layers": [vars(layer) for layer in found.layers],
        })  # fmt: skip
        return int(not found.passed)
    if layers:
        header = ["step", "schedule", "error", "fault"]
        print_table(header, [[s.name, s.schedule, s.error, s.fault] for s in found.layers])
        click.echo()
    most = found.max_error
    rows = [
        [n, e, "ok" if e <= most else "too large", found.compared[n]]
        for n, e in found.errors.items()
    ]
    print_table(["output", "error", f"at most {most:g}", "compared with"], rows)
    if against and options.streaming and not prewarm and not found.passed:
        click.echo("If the expected outputs begin after silence, add --prewarm.", err=True)
    return int(not found.passed)
