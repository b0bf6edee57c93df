"""Checks that a graph keeps its own rules; run after the frontend and after every pass."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.ir.graph import Graph


def verify(graph: Graph, *, after: str) -> None:
    """Raises ModelError if a value is undefined, defined twice, mistyped, or unknown.

    `after` names the stage that produced the graph. A failure after a pass is a defect of the pass.
    """

    def fail(what: str) -> None:
        raise ModelError(what, where=f"graph {graph.name!r} after {after}")

    defined = {*graph.inputs, *graph.constants}
    if len(set(graph.inputs)) != len(graph.inputs):
        fail("two inputs have the same name")
    for name, array in graph.constants.items():
        type_ = graph.types[name]
        if array.shape != type_.shape or array.dtype != type_.dtype.numpy:
            fail(f"constant {name!r} is {array.dtype}{array.shape}, its type says {type_}")
    for node in graph.nodes:
        for value in node.inputs:
            if value and value not in defined:
                fail(f"{node.name!r} reads {value!r} before it is defined")
        inferred = node.op.infer(*(graph.types[i] if i else None for i in node.inputs))
        if inferred != tuple(graph.types[o] for o in node.outputs):
            fail(f"{node.name!r} ({node.op.kind}) has other output types than its inputs imply")
        for value in node.outputs:
            if value in defined:
                fail(f"{value!r} is defined twice")
            defined.add(value)
    for value in graph.outputs:
        if value not in defined:
            fail(f"output {value!r} is not computed")
