"""Checks that a graph keeps its own rules; run after the frontend and after every pass."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.ir.graph import Graph
from cannery.ir.half import infer_types


def verify(graph: Graph, *, after: str) -> None:
    """Raises ModelError if a value is undefined, defined twice, mistyped, untyped, or unknown.

    `after` names the stage that produced the graph. A failure after a pass is a defect of the pass.
    """

    def fail(what: str) -> None:
        raise ModelError(what, where=f"graph {graph.name!r} after {after}")

    defined = {*graph.inputs, *graph.constants}
    if len(set(graph.inputs)) != len(graph.inputs):
        fail("two inputs have the same name")
    computed = [value for node in graph.nodes for value in node.outputs]
    for value in (*graph.inputs, *graph.constants, *computed):
        if value not in graph.types:
            fail(f"{value!r} has no type")
    for name, array in graph.constants.items():
        if name in graph.inputs:
            fail(f"{name!r} is an input and a constant")
        type_ = graph.types[name]
        if array.shape != type_.shape or array.dtype != type_.dtype.numpy:
            fail(f"constant {name!r} is {array.dtype}{array.shape}, its type says {type_}")
    for node in graph.nodes:
        for value in node.inputs:
            if value and value not in defined:
                fail(f"{node.name!r} reads {value!r} before it is defined")
        try:
            inferred = infer_types(node.op, [graph.types[i] if i else None for i in node.inputs])
        except ModelError as error:
            error.where = error.where or f"graph {graph.name!r} after {after}, {node.name!r}"
            raise
        if inferred != tuple(graph.types[o] for o in node.outputs):
            fail(f"{node.name!r} ({node.op.kind}) has other output types than its inputs imply")
        for value in node.outputs:
            if value in defined:
                fail(f"{value!r} is defined twice")
            defined.add(value)
    for value in graph.outputs:
        if value not in defined or value in graph.constants:
            fail(f"output {value!r} is not computed")
