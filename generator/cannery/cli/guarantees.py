"""`cannery guarantees`: what is certain about the generated code, for those who must prove it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table, warn
from cannery.errors import OptionError
from cannery.execution.guarantees import SAMPLES, Guarantees, guarantees
from cannery.execution.misra import MisraFindings, misra_findings
from cannery.execution.numbers import UNIT_BOX
from cannery.pipeline import compile_model
from cannery.reporting.sheet import misra_table, sheet, sheet_json
from cannery.target.toolchain import find_toolchain


@click.command(
    "guarantees",
    cls=Command,
    examples=(
        "cannery guarantees ball.h5 --target cortex-m4",
        "cannery guarantees ball.h5 --target cortex-m4 --json",
    ),
)
@generating_options()
@click.option(
    "--box",
    type=(float, float),
    default=UNIT_BOX,
    metavar="LOW HIGH",
    help="Where float inputs lie, for the bound of rounding errors. [default: -1 1]",
)
@click.option("--misra", is_flag=True, help="Count findings of cppcheck's addon for MISRA C:2012.")
@json_option
def command(model: Path, as_json: bool, box: tuple[float, float], misra: bool, **raw: Any) -> int:
    """Say what is certain about MODEL's generated code on a target.

    The stack is the most that any path through the machine code takes; beside it stands what runs
    under the emulator wrote. Everything holds for this compiler, these flags and these libraries.
    The exit code is 1 if a run contradicts a bound.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    runner = toolchain.emulator()
    if not box[0] <= box[1] < float("inf"):
        raise OptionError(
            "the second number must not be smaller", where="--box", cure="for example --box -1 1"
        )
    compiled = compile_model(options)
    note(f"building {options.name} for {toolchain.target.name}")
    found = guarantees(compiled.source, compiled.files, toolchain, runner, SAMPLES, box)
    rules = misra_findings(options.name, compiled.files, toolchain) if misra else None
    isa, compiler = compiled.source.isa.name, toolchain.compiler.version
    if as_json:
        print_json({
            "target": toolchain.target.name, "isa": isa, "compiler": compiler,
            **sheet_json(found),
            **({"misra": dict(rules.counts)} if rules else {}),
        })  # fmt: skip
    else:
        _print(found, rules)
        click.echo(f"{toolchain.target.name} ({isa}), {compiler}")
    for text in found.broken:
        warn(text)
    return 1 if found.broken else 0


def _print(found: Guarantees, rules: MisraFindings | None) -> None:
    for table in (*sheet(found), *([misra_table(rules)] if rules else [])):
        print_table(table.head, table.rows)
        for line in table.after:
            click.echo(f"  {line}")
        click.echo()
