"""`cannery list`: what the registries hold."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

import click

from cannery.cli.help import Command
from cannery.cli.output import json_option, print_json, print_table
from cannery.frontends.keras.layers.base import layer_names
from cannery.frontends.onnx.operators.base import operator_names
from cannery.frontends.tflite.scope import operator_names as tflite_names
from cannery.ir.registry import all_ops
from cannery.layouts import ORDERS
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import ISAS


@click.command("list", cls=Command)
@json_option
def command(as_json: bool) -> None:
    """List model layers, operators, schedules, layouts and instruction sets."""
    schedules = all_schedules()
    layers = list(layer_names())
    if as_json:
        print_json(
            {
                "keras_layers": layers,
                "onnx_operators": list(operator_names()),
                "tflite_operators": list(tflite_names()),
                "operators": sorted(all_ops()),
                "schedules": {name: _summary(schedule) for name, schedule in schedules.items()},
                "layouts": list(ORDERS),
                "isas": {name: sorted(isa.capabilities) for name, isa in ISAS.items()},
            }
        )
        return
    _print_names("Keras layers", layers)
    _print_names("ONNX operators", operator_names())
    _print_names("TensorFlow Lite operators", tflite_names())
    _print_names("Operators", sorted(all_ops()))
    _print_names("Layouts", ORDERS)
    click.echo("Schedules")
    print_table(
        ["id", "version", "what"], [[k, s.version, _summary(s)] for k, s in schedules.items()]
    )
    click.echo("\nInstruction sets")
    rows = [[i.name, i.bits, i.widest, " ".join(sorted(i.capabilities))] for i in ISAS.values()]
    print_table(["name", "bits", "lanes", "capabilities"], rows)


def _print_names(title: str, names: Sequence[str]) -> None:
    text = textwrap.fill(", ".join(names), 96, initial_indent="  ", subsequent_indent="  ")
    click.echo(f"{title}\n{text}\n")


def _summary(thing: object) -> str:
    """The first lines about a schedule: of its module, and of its class where that says more."""
    docs = (sys.modules[type(thing).__module__].__doc__, type(thing).__doc__)
    lines = ((doc or "").strip().partition("\n")[0] for doc in docs)
    return " ".join(line for line in lines if line != "See the module docstring.")
