"""`cannery verify`: the generated network against the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import FILE, generating_options
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.execution.layers import check_layers
from cannery.execution.program import Sample, network_program
from cannery.execution.samples import (
    errors_by_output,
    read_samples,
    reference_outputs,
    seeded_samples,
)
from cannery.ir.orders import from_model, model_type
from cannery.options import make_options
from cannery.pipeline import compile_model, judge_graph
from cannery.target.toolchain import find_toolchain


def _from_file(source: Source, path: Path, names: Sequence[str]) -> Sequence[Sample]:
    """Inputs or outputs that lie in a file as the model has them."""
    types = {name: model_type(source.graph, name) for name in names}
    return [from_model(source.graph, sample) for sample in read_samples(path, types)]


@click.command("verify")
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
    compiled = compile_model(options)
    source = compiled.source
    samples = (
        _from_file(source, inputs, source.graph.inputs) if inputs else seeded_samples(source.graph)
    )
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    note(f"building {options.name} for {toolchain.target.name}")
    with network_program(source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    expected = (
        _from_file(source, against, source.graph.outputs)
        if against
        else reference_outputs(judge_graph(options), samples)
    )
    if len(expected) != len(samples):
        raise OptionError(
            f"{len(expected)} samples, --inputs has {len(samples)}", where=str(against),
            cure="both need the same number",
        )  # fmt: skip
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
