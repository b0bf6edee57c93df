"""`cannery run`: what the generated network computes for given inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from cannery.cli.arguments import FILE, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json
from cannery.execution.program import network_program
from cannery.execution.samples import join_samples
from cannery.execution.sequences import input_samples
from cannery.ir.orders import to_model
from cannery.output_files import check_output_file, write_files
from cannery.pipeline import compile_graph, import_graph
from cannery.target.toolchain import find_toolchain


@click.command(
    "run",
    cls=Command,
    examples=("cannery run ball.h5 --inputs in.npz -o out.npz",),
)
@generating_options()
@click.option(
    "--inputs",
    type=FILE,
    required=True,
    metavar="IN.npz",
    help="One array per input, by its name in the model; a longer first axis counts samples. Of a "
    "network that runs step by step: one sequence.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="OUT.npz",
    help="Where to write the outputs, by name, in the model's order.",
)
@json_option
def command(model: Path, inputs: Path, output: Path, as_json: bool, **raw: Any) -> None:
    """Run MODEL's generated code on arrays from a file.

    The steps of a sequence begin with the states that the references compute.
    """
    options = options_of(model, raw)
    check_output_file(output, "--output")
    toolchain = find_toolchain(options)
    runner = toolchain.runner()
    graph = import_graph(options)
    samples = input_samples(graph, inputs)
    compiled = compile_graph(graph, options)
    source = compiled.source
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
