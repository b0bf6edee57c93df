"""The layers of a network as separate networks, one of each kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from cannery.choose.signature import step_signature
from cannery.errors import CanneryError
from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.schedule.program import Step
from rivals.exchange import exchange_graph
from rivals.onnx_writer import onnx_model

#: What computes nothing, or only moves.
_IDLE = ("Reshape", "Identity", "Concat", "Transpose")


@dataclass(frozen=True)
class Layer:
    """A layer with its activation: its name, how many are like it, and its ONNX file."""

    name: str
    kind: str
    count: int
    file: Path


def write_layers(model: Path, folder: Path) -> Iterator[Layer]:
    """Write every kind of layer of a model; those without a form are left out."""
    graph = exchange_graph(model)
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, list[Step]] = {}
    for step in cut(graph):
        if step.anchor.op.kind not in _IDLE:
            kinds.setdefault(step_signature(graph, step), []).append(step)
    for number, steps in enumerate(kinds.values()):
        name = steps[0].name
        file = folder / f"{number:02d}_{re.sub(r'[^A-Za-z0-9]+', '_', name)}.onnx"
        try:
            onnx.save(onnx_model(layer_graph(graph, steps[0]), "nchw"), str(file))
        except CanneryError:
            continue
        yield Layer(name, steps[0].kind, len(steps), file)


def layer_graph(graph: Graph, step: Step) -> Graph:
    """The nodes of one step, with its own inputs."""
    read = {value for node in step.nodes for value in node.inputs if value}
    made = {value for node in step.nodes for value in node.outputs}
    return Graph(
        "layer",
        step.nodes,
        step.inputs,
        step.outputs,
        {value: graph.types[value] for value in read | made},
        {value: graph.constants[value] for value in read if value in graph.constants},
    )
