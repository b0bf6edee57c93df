"""`cannery targets`: what Cannery can generate for, build and run."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cannery.cli.help import Command
from cannery.cli.output import json_option, print_json, print_table
from cannery.errors import CanneryError
from cannery.target.runner import find_runner
from cannery.target.targets import TARGETS, target_names
from cannery.target.toolchain import toolchain_for


@dataclass(frozen=True)
class Row:
    """One target on this machine; `compiler` and `runs` say what is missing."""

    name: str
    isa: str
    bits: int
    cpu: str
    compiler: str
    runs: str


def look(name: str) -> Row:
    """What this machine can do for a target."""
    try:
        toolchain = toolchain_for(name)
    except CanneryError as error:
        target = TARGETS.get(name)
        isa = (target.isa.name, target.isa.bits, target.cpu) if target else ("?", 0, "this machine")
        return Row(name, *isa, str(error), "-")
    target = toolchain.target
    try:
        runs: str = find_runner(target).origin.value
    except CanneryError as error:
        runs = str(error)
    compiler = f"{toolchain.compiler.command[0]} ({toolchain.compiler.version})"
    return Row(name, target.isa.name, target.isa.bits, target.cpu, compiler, runs)


@click.command("targets", cls=Command)
@json_option
def command(as_json: bool) -> None:
    """List the targets: processor, instruction set, compiler found, and how programs run here."""
    rows = [look(name) for name in target_names()]
    if as_json:
        print_json([vars(row) for row in rows])
    else:
        print_table(
            ["target", "isa", "bits", "processor", "compiler", "runs"],
            [list(vars(row).values()) for row in rows],
        )
        click.echo(
            "\nFor any other processor, name a compiler with its flags: "
            "--target any --cc 'arm-none-eabi-gcc -mcpu=cortex-m4'"
        )
