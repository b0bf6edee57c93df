"""`cannery inspect`: what is in a model, before anything is generated from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, print_error, print_json, print_table
from cannery.emit.interface import check_views, interface, parameters
from cannery.errors import CanneryError
from cannery.ir.graph import Graph, Node
from cannery.ir.orders import model_type
from cannery.ops.movement.op import Transpose
from cannery.options import Options
from cannery.options_text import cmake_words
from cannery.pipeline import import_graph
from cannery.target.toolchain import check_processor


@dataclass(frozen=True)
class LayerRow:
    """One node of the simplified graph."""

    name: str
    op: str
    shape: str
    macs: int
    parameters: int


@dataclass(frozen=True)
class Summary:
    """A model in numbers; `activation_bytes` is the least memory that its values need at one time.

    `layout_operations` are the layers that only reorder elements. The last `states` inputs and
    outputs are what a network keeps from step to step; `notes` are further remarks on its
    interface.
    """

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    layers: tuple[LayerRow, ...]
    macs: int
    parameters: int
    parameter_bytes: int
    activation_bytes: int
    layout_operations: int
    states: int = 0
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The model on one line."""
        sides = [
            [f"{name} {type_}" for name, type_ in tensors.items()][: len(tensors) - self.states]
            for tensors in (self.inputs, self.outputs)
        ]
        ends = " -> ".join(map(", ".join, sides))
        ends += f", {self.states} state{'s' * (self.states > 1)}" if self.states else ""
        return (
            f"{self.model}: {ends}, {len(self.layers)} layers, {self.macs:,} MACs, "
            f"{self.parameters:,} parameters ({_size(self.parameter_bytes)}), "
            f"activations {_size(self.activation_bytes)}, "
            f"{self.layout_operations} layout operations"
        )


def _size(count: int) -> str:
    for unit, power in (("MB", 20), ("KB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} B"


def _layer(graph: Graph, node: Node) -> LayerRow:
    outputs = tuple(graph.types[o] for o in node.outputs)
    macs = node.op.macs(tuple(graph.types[i] if i else None for i in node.inputs), outputs)
    parameters = sum(graph.types[i].elements for i in set(node.inputs) if i in graph.constants)
    return LayerRow(node.name, node.op.kind, ", ".join(map(str, outputs)), macs, parameters)


def _activation_bytes(graph: Graph) -> int:
    """The largest sum of the values that are alive while one node runs."""
    last = {value: k for k, node in enumerate(graph.nodes) for value in node.inputs}
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    alive = {name: graph.types[name].bytes for name in graph.inputs}
    most = sum(alive.values())
    for k, node in enumerate(graph.nodes):
        alive.update({value: graph.types[value].bytes for value in node.outputs})
        most = max(most, sum(alive.values()))
        alive = {value: size for value, size in alive.items() if last.get(value, -1) > k}
    return most


def summarise(graph: Graph, model: str) -> Summary:
    """The numbers of a simplified graph."""
    layers = tuple(_layer(graph, node) for node in graph.nodes)
    used = {i for node in graph.nodes for i in node.inputs if i in graph.constants}
    return Summary(
        model,
        {name: str(model_type(graph, name)) for name in graph.inputs},
        {name: str(model_type(graph, name)) for name in graph.outputs},
        layers,
        sum(layer.macs for layer in layers),
        sum(graph.types[name].elements for name in used),
        sum(graph.types[name].bytes for name in used),
        _activation_bytes(graph),
        sum(isinstance(node.op, Transpose) for node in graph.nodes),
        len(graph.states),
        graph.notes,
    )


#: Options that CMake has by other means, or that only say how this command runs.
_NOT_SHOWN = ("name", "target", "isa", "cc", "cflags", "ldflags", "runner", "device", "macros")


def _print(graph: Graph, summary: Summary, options: Options) -> None:
    call = _call(graph, options)
    click.echo(f"{summary.line}\n")
    print_table(
        ["layer", "operator", "output", "MACs", "parameters"],
        [list(vars(layer).values()) for layer in summary.layers],
    )
    words = [options.name, "MODEL", options.model.name, *cmake_words(options, _NOT_SHOWN)]
    for text in summary.notes:
        click.echo(f"\nNote: {text}.")
    if options.project:
        click.echo(f"\nOptions from {options.project} apply (cannery --no-project ignores them).")
    click.echo(f"\nCMake:  add_nn_model({' '.join(words)})")
    click.echo(f'C:      #include "{options.name}.h"\n        {call}')


def _call(graph: Graph, options: Options) -> str:
    """The call in C; a state replaces the tensors that it holds."""
    check_views(graph, options.input_view, options.io_layout)
    inputs, outputs = interface(graph, options.rename, options.io_layout, options.input_view)
    states = len(graph.states)
    if states:
        inputs, outputs = inputs[:-states], outputs[:-states]
    arguments = parameters(inputs, outputs, length=options.variable_length)
    names = [*(["state"] if states else []), *(name for _, name in arguments)]
    return f"{options.name}_{'step' if states else 'run'}({', '.join(names)});"


@click.command(
    "inspect",
    cls=Command,
    examples=(
        "cannery inspect ball.h5",
        "cannery inspect *.onnx --json",
    ),
)
@generating_options(several=True)
@json_option
def command(models: tuple[Path, ...], as_json: bool, **raw: Any) -> int:
    """Show layers, shapes, multiply-accumulates, parameters and memory; for several models, one
    line each.

    It lists all unsupported layers at once. Exit code 2 if a model cannot be used.
    """
    found: list[tuple[Graph, Summary, Options]] = []
    code = 0
    for model in models:
        try:
            options = options_of(model, raw)
            check_processor(options)
            graph = import_graph(options)
            found.append((graph, summarise(graph, str(model)), options))
        except CanneryError as error:
            code = print_error(str(error))
    if as_json:
        print_json([_as_json(summary, options) for _, summary, options in found])
    elif len(models) == 1:
        for graph, summary, options in found:
            _print(graph, summary, options)
    else:
        for _, summary, _ in found:
            click.echo(summary.line)
    return code


def _as_json(summary: Summary, options: Options) -> dict[str, Any]:
    project = str(options.project) if options.project else None
    layers = [vars(layer) for layer in summary.layers]
    return {**vars(summary), "layers": layers, "project": project}
