"""The stable text form of a graph, for dumps, golden files and hashes."""

from __future__ import annotations

import dataclasses

import numpy as np

from cannery.ir.graph import Graph, Node


def format_attributes(node: Node) -> str:
    """The attributes of a node, as `strides=(1, 1) group=1`, in the order of declaration."""
    fields = dataclasses.fields(node.op)
    return " ".join(f"{f.name}={getattr(node.op, f.name)!r}" for f in fields)


def format_graph(graph: Graph, *, weights: bool = False) -> str:
    """One line per input, constant, node and output; `weights` adds constants' mean, norm."""
    lines = [f"graph {graph.name}"]
    lines += [f"input {v}: {graph.types[v]}" for v in graph.inputs]
    for name in sorted(graph.constants):
        line = f"const {name}: {graph.types[name]}"
        if weights and graph.constants[name].dtype.kind == "f":
            array = graph.constants[name].astype(np.float64)
            line += f"  mean={float(array.mean()) if array.size else 0.0:.6g}"
            line += f" norm={float(np.sqrt((array * array).sum())):.6g}"
        lines.append(line)
    for node in graph.nodes:
        results = ", ".join(f"{o}: {graph.types[o]}" for o in node.outputs)
        inputs = ", ".join(i or "-" for i in node.inputs)
        attributes = format_attributes(node)
        lines.append(f"{results} = {node.op.kind}({inputs}) {attributes}".rstrip())
    lines += [f"output {v}" for v in graph.outputs]
    lines += [f"channels first in the model: {v}" for v in sorted(graph.channels_first)]
    if graph.length:
        lines.append(f"up to {graph.length.steps} steps")
    for state in graph.states:
        begins = f", begins with {list(state.initial)}" if state.initial else ""
        lines.append(f"state {state.output} -> {state.input}{begins}")
    return "\n".join(lines) + "\n"
