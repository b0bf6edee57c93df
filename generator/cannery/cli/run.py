"""`cannery run`: what the generated network computes for given inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from cannery.cli.arguments import FILE, generating_options
from cannery.cli.files import check_output_file, write_files
from cannery.cli.output import json_option, note, print_json
from cannery.execution.program import network_program
from cannery.execution.samples import join_samples, read_samples
from cannery.ir.orders import from_model, model_type, to_model
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain


@click.command("run")
@generating_options()
@click.option(
    "--inputs",
    type=FILE,
    required=True,
    metavar="IN.npz",
    help="One array per input, by its name in the model; a longer first axis: samples.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="OUT.npz",
    help="Where the outputs go, by name, in the model's order.",
)
@json_option
def command(model: Path, inputs: Path, output: Path, as_json: bool, **raw: Any) -> None:
    """Run MODEL's generated code on arrays from a file."""
    options = make_options(model, raw)
    check_output_file(output, "--output")
    compiled = compile_model(options)
    source = compiled.source
    types = {t.source: model_type(source.graph, t.source) for t in source.inputs}
    samples = [from_model(source.graph, sample) for sample in read_samples(inputs, types)]
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    note(f"building {options.name} for {toolchain.target.name}")
    with network_program(source, compiled.files, toolchain, samples) as program:
        found = join_samples(program.run(runner))
    found = to_model(source.graph, found)
    arrays = {tensor.source: found[tensor.source] for tensor in source.outputs}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_files({output: buffer.getvalue()})
    if as_json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"outputs": shapes, "samples": len(samples), "target": toolchain.target.name})
