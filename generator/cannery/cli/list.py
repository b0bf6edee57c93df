"""`cannery list`: what the registries hold."""

from __future__ import annotations

import click

from cannery.cli.output import json_option, print_json, print_table
from cannery.ops.registry import all_ops
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import ISAS


@click.command("list")
@json_option
def command(as_json: bool) -> None:
    """List operators, their schedules, and the instruction sets that kernels are written for."""
    schedules = all_schedules()
    found = {
        "operators": sorted(all_ops()),
        "schedules": {name: _summary(schedule) for name, schedule in schedules.items()},
        "isas": {name: sorted(isa.capabilities) for name, isa in ISAS.items()},
    }
    if as_json:
        print_json(found)
        return
    click.echo("Operators\n  " + "\n  ".join(sorted(all_ops())))
    click.echo("\nSchedules")
    print_table(
        ["id", "version", "what"], [[k, s.version, _summary(s)] for k, s in schedules.items()]
    )
    click.echo("\nInstruction sets")
    rows = [[i.name, i.bits, i.widest, " ".join(sorted(i.capabilities))] for i in ISAS.values()]
    print_table(["name", "bits", "lanes", "capabilities"], rows)


def _summary(thing: object) -> str:
    return (type(thing).__doc__ or "").strip().partition("\n")[0]
