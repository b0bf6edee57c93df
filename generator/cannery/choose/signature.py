"""What two steps must share to be tuned once, and a step and a record's line to match."""

from __future__ import annotations

import hashlib

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.printer import format_attributes, format_graph
from cannery.schedule.program import Step


def step_text(graph: Graph, step: Step) -> str:
    """The step without names and weights: operators, attributes, types, and connections."""
    names: dict[str, str] = {}

    def short(value: str) -> str:
        if not value:
            return "-"
        if value not in names:
            names[value] = f"{'c' if value in graph.constants else 'v'}{len(names)}"
        stored = " as float16" if value in graph.halves else ""
        return f"{names[value]}:{graph.types[value]}{stored}"

    lines = [f"in {' '.join(map(short, step.inputs))}"]
    for node in step.nodes:
        inputs, outputs = (" ".join(map(short, v)) for v in (node.inputs, node.outputs))
        lines.append(f"{outputs} = {node.op.kind} {inputs} {format_attributes(node)}".rstrip())
    lines += ["depth first"] if step.depth_first else []
    lines += [f"part of {len(part.nodes)}" for part in step.parts]
    lines.append(f"out {' '.join(map(short, step.outputs))}")
    return "\n".join(lines)


def step_kind(graph: Graph, step: Step) -> str:
    """What makes candidates equally fast: `step_text`, and the number of nonzero weights in each
    array.

    Kernels may leave out weights that are zero.
    """
    constants = graph.constants
    weights = (constants[v] for n in step.nodes for v in n.inputs if v in constants)
    counts = " ".join(str(np.count_nonzero(w)) for w in weights)
    return f"{step_text(graph, step)}\n{counts}"


def step_signature(graph: Graph, step: Step) -> str:
    """Twelve hex digits that are equal for equal `step_text`."""
    return hashlib.sha256(step_text(graph, step).encode()).hexdigest()[:12]


def graph_key(graph: Graph, *options: str) -> str:
    """Sixteen hex digits for a graph without its weights, and everything else that affects a
    plan.
    """
    text = "\n".join([format_graph(graph), *options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
