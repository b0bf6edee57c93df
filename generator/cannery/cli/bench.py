"""`cannery bench`: how long the generated network takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.execution.layers import LayerTime, time_layers
from cannery.execution.program import Latency, network_program
from cannery.execution.samples import seeded_samples
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.target.runner import Origin
from cannery.target.toolchain import find_toolchain
from cannery.tune.measure import Protocol


@click.command("bench")
@generating_options()
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="How long the whole network is timed.",
)
@json_option
def command(model: Path, seconds: float, as_json: bool, **raw: Any) -> None:
    """Time MODEL's generated code: the whole network, then every step by itself."""
    options = make_options(model, raw)
    compiled = compile_model(options)
    source = compiled.source
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    samples = seeded_samples(source.graph)
    note(f"building {options.name} for {toolchain.target.name}")
    with network_program(source, compiled.files, toolchain, samples) as program:
        latency = program.time(runner, seconds)
    steps, peak = time_layers(source, toolchain, runner, samples[0], Protocol(limit=seconds))
    gflops = 2e-3 * source.macs / latency.p50 if latency.p50 else 0.0
    percent = 100 * gflops / peak if peak else 0.0
    if as_json:
        print_json({
            "latency_us": vars(latency), "macs": source.macs, "percent_of_peak": percent,
            "gflops": gflops, "target": toolchain.target.name, "origin": runner.origin.value,
            "isa": source.isa.name, "compiler": toolchain.compiler.version,
            "steps": [vars(step) for step in steps],
        })  # fmt: skip
        return
    _print(latency, steps)
    emulated = ", which says nothing about speed" if runner.origin is Origin.EMULATED else ""
    click.echo(
        f"\n{source.macs:,} MACs, {gflops:.1f} GFLOP/s, {percent:.0f}% of the peak; "
        f"{toolchain.target.name} ({source.isa.name}), {runner.origin.value}{emulated}"
    )


def _print(latency: Latency, steps: tuple[LayerTime, ...]) -> None:
    rows = [[s.name, s.schedule, s.macs, _number(s.us), _number(s.percent_of_peak)] for s in steps]
    print_table(["step", "schedule", "MACs", "us", "% of peak"], rows)
    click.echo(f"\nwhole: {latency.p50:.2f} us (p25 {latency.p25:.2f}, p99 {latency.p99:.2f})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
