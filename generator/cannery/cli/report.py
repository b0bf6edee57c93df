"""`cannery report`: a page about a generated network, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.api.report import report_network
from cannery.choose.lookup import untuned_note
from cannery.cli.arguments import FILE, Seconds, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, remark
from cannery.measure.measure import Context
from cannery.reporting.measuring import DEFAULT_SECONDS


@click.command(
    "report",
    cls=Command,
    examples=(
        "cannery report ball.h5 -o report.html",
        "cannery report ball.h5 -o report.html --candidates tried.json",
        "cannery report ball.h5 -o report.html --onnx choices.onnx",
        "cannery report ball.h5 -o robot.html --tuning ball.native.tuning.json",
    ),
)
@generating_options()
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="FILE.html",
    help="Where to write the report: one self-contained file.",
)
@click.option(
    "--candidates",
    type=FILE,
    metavar="FILE",
    help="Output of `cannery autotune --json`: all candidates (default: the record's).",
)
@click.option(
    "--onnx",
    type=FILE,
    metavar="FILE",
    help="Also write an ONNX file for Netron: the steps, with the choices as metadata.",
)
@click.option(
    "--seconds",
    type=Seconds(min=0.01),
    default=DEFAULT_SECONDS,
    show_default=True,
    help="How long to time the network.",
)
@click.option(
    "--context",
    type=click.Choice([c.value for c in Context]),
    default=Context.WARM.value,
    show_default=True,
    help="Time calls with warm caches, or with cold ones, as when called once per frame.",
)
@json_option
def command(
    model: Path, output: Path, candidates: Path | None, onnx: Path | None, seconds: float,
    context: str, as_json: bool, **raw: Any,
) -> None:  # fmt: skip
    """Build MODEL's generated code, measure it, and write a page about it.

    It shows the network as a picture; the time of each layer against its roofline; the candidates
    that tuning tried; memory over time; sizes, errors and the machine. It says which figures are
    measured, exact or estimated.
    """
    options = options_of(model, raw)
    caches = Context(context)
    found = report_network(
        options, output, candidates, onnx, seconds, caches, where="--output", tell=note
    )
    if never := untuned_note(options):
        remark(never)
    if as_json:
        print_json({"report": str(output), **found.as_dict()})
    note(f"{output}: open it in a browser")
