"""`cannery report`: all there is to know of a generated network, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.choose.lookup import untuned_note
from cannery.cli.arguments import FILE, Seconds, generating_options
from cannery.cli.files import check_output_file, write_files
from cannery.cli.output import note, remark
from cannery.measure.measure import Context, refuse_emulated
from cannery.options import make_options
from cannery.reporting.measuring import make_subject, measure_all
from cannery.reporting.page import Side, render_page
from cannery.reporting.plotly_bundle import plotly_text
from cannery.reporting.tried import read_tried, tried_of_record


@click.command("report")
@generating_options()
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="FILE.html",
    help="Where the report goes; one file, which needs nothing else.",
)
@click.option(
    "--candidates",
    type=FILE,
    metavar="FILE",
    help="What `cannery autotune --json` printed: all that was tried (default: the record's two).",
)
@click.option(
    "--seconds",
    type=Seconds(min=0.01),
    default=2.0,
    show_default=True,
    help="How long the network is timed.",
)
@click.option(
    "--context",
    type=click.Choice([c.value for c in Context]),
    default=Context.WARM.value,
    show_default=True,
    help="Whether each timed call finds its data in the caches, or cold ones, as once per frame.",
)
def command(
    model: Path, output: Path, candidates: Path | None, seconds: float, context: str, **raw: Any
) -> None:
    """Build MODEL's generated code, measure it, and write what there is to know of it.

    The network as a picture; the time of each layer against its roofline; the candidates that
    tuning tried; what lies where in memory; sizes, errors, the machine; what of all that is
    measured, and what estimated. The page works without any network.
    """
    plotly_text()  # its absence is told before anything is built
    check_output_file(output, "--output")
    options = make_options(model, raw)
    subject = make_subject(options)
    caches = Context(context)
    refuse_emulated(caches, subject.runner)
    facts = subject.facts
    tried = read_tried(candidates, facts) if candidates else tried_of_record(options, facts)
    note(f"building {options.name} for {subject.toolchain.target.name}")
    (measured,), _ = measure_all([subject], seconds, caches)
    page = render_page([Side("A", model.name, facts, measured, tried)])
    write_files({output: page.encode("utf-8", "replace")})
    if never := untuned_note(options):
        remark(never)
    note(f"{output}: open it in a browser")
