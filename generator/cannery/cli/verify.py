"""`cannery verify`: the generated network against the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import FILE, generating_options
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.errors import OptionError
from cannery.execution.layers import check_layers
from cannery.execution.program import Sample, network_program
from cannery.execution.samples import (
    errors_by_output,
    model_samples,
    reference_outputs,
    seeded_samples,
)
from cannery.ir.graph import Graph
from cannery.measure.identify import ask
from cannery.options import make_options
from cannery.pipeline import compile_graph, import_graph, judge_graph
from cannery.target.toolchain import find_toolchain


def _samples(
    graph: Graph, inputs: Path | None, against: Path | None
) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The inputs, and the outputs that are given for them, if any."""
    samples = model_samples(graph, inputs, graph.inputs) if inputs else seeded_samples(graph)
    given = model_samples(graph, against, graph.outputs) if against else []
    if against and len(given) != len(samples):
        raise OptionError(
            f"{len(given)} samples, --inputs has {len(samples)}", where=str(against),
            cure="both need the same number",
        )  # fmt: skip
    return samples, given


@click.command(
    "verify",
    cls=Command,
    examples=(
        "cannery verify ball.h5",
        "cannery verify ball.h5 --target aarch64-a72 --layers",
        "cannery verify ball.h5 --inputs in.npz --against expected.npz",
    ),
)
@generating_options()
@click.option(
    "--inputs",
    type=FILE,
    metavar="IN.npz",
    help="One array per input, by its name in the model (default: 16 random samples).",
)
@click.option(
    "--against",
    type=FILE,
    metavar="OUT.npz",
    help="With --inputs: expected outputs by name (default: computed in float64).",
)
@click.option("--layers", is_flag=True, help="Also check every step alone.")
@json_option
def command(
    model: Path, inputs: Path | None, against: Path | None, layers: bool, as_json: bool, **raw: Any
) -> int:  # fmt: skip
    """Compare what MODEL's generated code computes with the reference.

    The error of an output is max|y - ref| / max|ref|. Exit code 1 if one exceeds --max-error.
    """
    if against and not inputs:
        raise OptionError(
            "no inputs that belong to these outputs", where=f"--against {against}",
            cure="name them with --inputs",
        )  # fmt: skip
    options = make_options(model, raw)
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    graph = import_graph(options)
    samples, given = _samples(graph, inputs, against)
    compiled = compile_graph(graph, options)
    source = compiled.source
    note(f"building {options.name} for {toolchain.target.name}")
    with network_program(source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
        if as_json:
            runner = ask(toolchain, runner, program.executable)
    expected = given or reference_outputs(judge_graph(options), samples)
    errors, most = errors_by_output(found, expected), source.max_error
    passed = all(error <= most for error in errors.values())
    steps = check_layers(source, toolchain, runner, samples[0]) if layers else ()
    passed &= not any(step.fault for step in steps)
    if as_json:
        print_json({
            "passed": passed, "errors": errors, "max_error": most,
            "samples": len(samples), "target": toolchain.target.name,
            "origin": runner.origin.value, "layers": [vars(step) for step in steps],
        })  # fmt: skip
        return int(not passed)
    if layers:
        header = ["step", "schedule", "error", "fault"]
        print_table(header, [[s.name, s.schedule, s.error, s.fault] for s in steps])
        click.echo()
    rows = [[n, e, "ok" if e <= most else "too large"] for n, e in errors.items()]
    print_table(["output", "error", f"at most {most:g}"], rows)
    return int(not passed)
