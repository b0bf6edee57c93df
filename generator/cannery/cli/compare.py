"""`cannery compare`: the values of every layer beside what they should be."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from cannery.cli.arguments import FILE, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.emit.source import model_hash
from cannery.emit.values import seen_values
from cannery.errors import OptionError
from cannery.execution.dump import DUMP_CURE, Shown, read_dump
from cannery.execution.program import Sample, network_program
from cannery.execution.samples import join_samples, model_samples, seeded_samples
from cannery.execution.sequences import input_samples
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ops.same_bits import differing_layers
from cannery.options import Options
from cannery.output_files import check_output_file, write_files
from cannery.pipeline import compile_graph, import_graph, judge_graph, load_model
from cannery.reporting.frameworks import framework_values
from cannery.reporting.layerwise import Compared, Row, compare_values, make_judge
from cannery.target.toolchain import find_toolchain

#: Samples where none are given, and bytes of all their values, which may make them fewer.
SAMPLES = 4
_MAX_BYTES = 2**26

#: Values that are named for each reason why they are not stored.
SHOWN = 3

#: Options by which a network computes something else than a framework makes of the same inputs.
_OTHER_NETWORKS = (
    "input_dtype", "reverse_channels", "streaming", "variable_length", "peepholes",
)  # fmt: skip


@dataclass(frozen=True)
class _Runs:
    """What ran: the samples, and their values by the numbers of `values`."""

    samples: Sequence[Sample]
    values: Sequence[Shown]
    runs: Sequence[Mapping[int, RefArray]]


@click.command(
    "compare",
    cls=Command,
    examples=(
        "cannery compare ball.h5",
        "cannery compare ball.h5 --inputs in.npz --with keras",
        "cannery compare ball.h5 --target aarch64-a72 -o values.npz",
        "cannery compare ball.h5 --dump run.dump",
    ),
)
@generating_options()
@click.option(
    "--inputs",
    type=FILE,
    metavar="IN.npz",
    help=f"One array per input, by its name in the model (default: {SAMPLES} random samples, or "
    "fewer of large networks).",
)
@click.option(
    "--with",
    "beside",
    type=click.Choice(["reference", "onnxruntime", "keras"]),
    default="reference",
    show_default=True,
    help="What to compare with: float64 references, or the framework that reads the model.",
)
@click.option(
    "--dump",
    type=FILE,
    metavar="FILE",
    help="Take the values from a file that a library with --dump-values wrote; run nothing.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="OUT.npz",
    help="Write all values of the code by name, samples along the first axis.",
)
@json_option
def command(
    model: Path, inputs: Path | None, beside: str, dump: Path | None, output: Path | None,
    as_json: bool, **raw: Any,
) -> int:  # fmt: skip
    """Compare what MODEL's generated code computes in every layer with the references.

    The error of a value is max|y - ref| / max|ref|. The first value whose error exceeds --max-error
    is named; exit code 1 if there is one. Images are channels last here.
    """
    options = options_of(model, {**raw, "dump_values": True})
    _check_framework(options, beside)
    if output is not None:
        check_output_file(output, "--output")
    graph = import_graph(options)
    found = _from_file(graph, dump, inputs) if dump else _from_program(options, graph, inputs)
    file = load_model(options)
    judge = make_judge(file, judge_graph(options), graph, found.samples)
    if beside != "reference":
        others = framework_values(beside, model, file, found.samples)
        judge = replace(judge, others=others, title=beside)
    exact = not differing_layers(graph)
    bound = options.max_error if exact else graph.error_bound(options.max_error)
    compared = compare_values(judge, found.values, found.runs, bound)
    if output is not None:
        write_files({output: _npz(found)})
    if as_json:
        print_json(_as_dict(compared))
    else:
        _print(compared)
    return int(compared.first is not None)


def _check_framework(options: Options, beside: str) -> None:
    given = [name for name in _OTHER_NETWORKS if getattr(options, name)]
    if beside != "reference" and given:
        flag = "--" + given[0].replace("_", "-")
        raise OptionError(
            f"{beside} does not know {flag}", where=f"--with {beside}",
            cure="leave it out, or use --with reference",
        )  # fmt: skip


def _from_program(options: Options, graph: Graph, inputs: Path | None) -> _Runs:
    """The values of a program that is built and run on the inputs."""
    toolchain = find_toolchain(options)
    runner = toolchain.runner()
    samples: Sequence[Sample] = (
        seeded_samples(graph, _sample_count(graph))
        if inputs is None
        else input_samples(graph, inputs)
    )
    compiled = compile_graph(graph, options)
    note(f"building {options.name} for {toolchain.target.name}")
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        runs = program.dump(runner)
    return _Runs(samples, [Shown.of(value) for value in seen_values(compiled.source)], runs)


def _sample_count(graph: Graph) -> int:
    """As many samples as do not take much memory."""
    each = sum(graph.types[value].bytes for node in graph.nodes for value in node.outputs)
    return max(1, min(SAMPLES, _MAX_BYTES // max(each, 1)))


def _from_file(graph: Graph, path: Path, inputs: Path | None) -> _Runs:
    """The values that a library wrote, and its inputs; those of views have to be given."""
    dump = read_dump(path)
    if dump.hash != model_hash(graph):
        raise OptionError(
            f"of another network: {dump.hash}, {model_hash(graph)} is compared", where=str(path),
            cure="name the model and the options from which the library was made",
        )  # fmt: skip
    odd = [v.value for v in dump.values if graph.types.get(v.value) != v.type]
    if odd:
        raise OptionError(
            f"not a sound dump: {odd[0]!r} is not such a value", where=str(path), cure=DUMP_CURE
        )
    if inputs is not None:
        samples = model_samples(graph, inputs, graph.inputs)
    else:
        numbers = {v.value: k for k, v in enumerate(dump.values) if v.step < 0}
        views = [name for name in graph.inputs if name not in numbers]
        if views:
            raise OptionError(
                f"input {views[0]!r} is a view, which is not in it", where=str(path),
                cure="name the inputs of its runs with --inputs",
            )  # fmt: skip
        samples = [{name: run[numbers[name]] for name in graph.inputs} for run in dump.runs]
    if len(samples) != len(dump.runs):
        raise OptionError(
            f"{len(samples)} samples, the dump has {len(dump.runs)} runs", where="--inputs",
            cure="name the inputs of its runs",
        )  # fmt: skip
    return _Runs(samples, dump.values, dump.runs)


def _npz(found: _Runs) -> bytes:
    named = [
        {shown.value: run[number] for number, shown in enumerate(found.values)}
        for run in found.runs
    ]
    buffer = io.BytesIO()
    np.savez(buffer, **join_samples(named))  # type: ignore[arg-type]
    return buffer.getvalue()


def _as_dict(compared: Compared) -> dict[str, Any]:
    rows = [_row_dict(row) for row in compared.rows]
    first = compared.first
    return {
        "passed": first is None, "first": _row_dict(first) if first else None, "values": rows,
        "unseen": dict(compared.unseen),
    }  # fmt: skip


def _row_dict(row: Row) -> dict[str, Any]:
    return {**vars(row), "worst": vars(row.worst) if row.worst else None, "deviates": row.deviates}


def _by_reason(unseen: Mapping[str, str]) -> list[list[str]]:
    """Rows of reasons with the first of their values; `--json` lists them all."""
    names: dict[str, list[str]] = {}
    for value, why in unseen.items():
        names.setdefault(why, []).append(value)
    rows = []
    for why, values in names.items():
        more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
        rows.append([why, ", ".join(values[:SHOWN]) + more])
    return rows


def _print(compared: Compared) -> None:
    rows = [
        [row.value, row.kind, row.beside, "" if row.error is None else f"{row.error:.2g}",
         "DEVIATES" if row.deviates else ""]
        for row in compared.rows
    ]  # fmt: skip
    print_table(["value", "layer", "compared with", "error", ""], rows)
    if compared.unseen:
        click.echo("\nnot stored:")
        print_table(["why", "values"], _by_reason(compared.unseen))
    first = compared.first
    if first is None:
        click.echo("\nno value deviates")
        return
    click.echo(f"\nfirst deviation: {first.value}, a {first.kind} ({first.step})")
    if first.worst:
        worst = first.worst
        at = ", ".join(map(str, worst.element))
        click.echo(
            f"  sample {worst.sample}, element [{at}]: {worst.found:.9g}, "
            f"{first.beside}: {worst.expected:.9g}"
        )
    click.echo(f"  error {first.error:.2g}, at most {first.bound:.2g}")
