"""The stable text forms of a graph: for dumps and hashes, and the one that `parser.py` reads."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import RARE
from cannery.ir.tensor import DType

#: Names that are written as they are; others are quoted, as in JSON.
PLAIN_NAME = re.compile(r"[\w./][\w./-]*", re.ASCII)


@dataclass(frozen=True)
class _Form:
    """How the parts of a text are written: names of values, and what follows a constant or a
    node.
    """

    name: Callable[[str], str]
    attribute: Callable[[object], str]
    constant: Callable[[Array], str]
    layer: Callable[[Node], str]


def format_attributes(node: Node, attribute: Callable[[object], str] = repr) -> str:
    """The attributes of a node, as `strides=(1, 1) group=1`, in the order of declaration; RARE ones
    only where they are not the default.
    """
    found = [(f, getattr(node.op, f.name)) for f in dataclasses.fields(node.op)]
    shown = [(f.name, value) for f, value in found if f.metadata != RARE or value != f.default]
    return " ".join(f"{name}={attribute(value)}" for name, value in shown)


def format_graph(graph: Graph, *, weights: bool = False) -> str:
    """One line per input, constant, node and output; `weights` adds constants' mean, norm."""
    form = _Form(str, repr, _summary if weights else lambda _: "", lambda _: "")
    lines = list(_lines(graph, form))
    if graph.length:
        lines.append(f"up to {graph.length.steps} steps")
    lines += _states(graph, form)
    return "\n".join(lines) + "\n"


def write_graph(graph: Graph, *, most: int | None = None) -> str:
    """The text that `parse_graph` makes the same graph of.

    Constants of more than `most` elements are given only by mean and norm. The losses of
    quantisation and the names of the files that were read are left out.
    """

    def constant(array: Array) -> str:
        return _listed(array) if most is None or array.size <= most else _summary(array)

    form = _Form(_quoted, literal, constant, _layer)
    lines = [*_lines(graph, form), *_length(graph), *_calls(graph, form), *_states(graph, form)]
    for name, scale in graph.scales.items():
        lines.append(f"scale {_quoted(name)}: {scale.scale!r}, {scale.zero_point}")
    if graph.unit_error:
        lines.append(f"unit error {graph.unit_error!r}")
    lines += [f"integer layer {_quoted(name)}" for name in graph.integer_layers]
    lines += [f"note {json.dumps(note)}" for note in graph.notes]
    return "\n".join(lines) + "\n"


def _lines(graph: Graph, form: _Form) -> Iterator[str]:
    """The parts that both forms share, in the same order."""
    types, name = graph.types, form.name
    yield f"graph {name(graph.name)}"
    yield from (f"input {name(v)}: {types[v]}" for v in graph.inputs)
    for constant in sorted(graph.constants):
        yield f"const {name(constant)}: {types[constant]}{form.constant(graph.constants[constant])}"
    for node in graph.nodes:
        results = ", ".join(f"{name(o)}: {types[o]}" for o in node.outputs)
        inputs = ", ".join(name(i) if i else "-" for i in node.inputs)
        attributes = format_attributes(node, form.attribute)
        line = f"{results} = {node.op.kind}({inputs}) {attributes}".rstrip()
        yield line + form.layer(node)
    yield from (f"output {name(v)}" for v in graph.outputs)
    for value in sorted(graph.channels_first):
        yield f"channels first in the model: {name(value)}"
    yield from (f"stored as float16: {name(value)}" for value in sorted(graph.halves))


def _states(graph: Graph, form: _Form) -> Iterator[str]:
    for state in graph.states:
        begins = f", begins with {list(state.initial)}" if state.initial else ""
        yield f"state {form.name(state.output)} -> {form.name(state.input)}{begins}"


def _calls(graph: Graph, form: _Form) -> Iterator[str]:
    if graph.calls:
        yield f"calls of {graph.calls.steps} steps, {graph.calls.latency} late"
        if graph.calls.settled or graph.calls.lasting:
            yield f"settled after {graph.calls.settled}{', or later' * graph.calls.lasting}"
        if graph.calls.every > 1:
            begun = f", {graph.calls.phase} before the first" if graph.calls.phase else ""
            yield f"every {graph.calls.every} calls{begun}"
        for value, period in graph.calls.periods.items():
            yield f"every {period} calls: {form.name(value)}"


def _length(graph: Graph) -> Iterator[str]:
    """The most steps, and their axis in each value."""
    if graph.length:
        times = ", ".join(f"{_quoted(v)} {axis}" for v, axis in graph.length.times.items())
        yield f"up to {graph.length.steps} steps: {times}"


def _layer(node: Node) -> str:
    """The name of a node, if its first output has a different one."""
    return "" if node.name == node.outputs[0] else f" named {_quoted(node.name)}"


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else json.dumps(name)


def _summary(array: Array) -> str:
    """Mean and norm of floats."""
    if array.dtype.kind != "f":
        return ""
    wide = array.astype(np.float64)
    mean = float(wide.mean()) if wide.size else 0.0
    return f"  mean={mean:.6g} norm={float(np.sqrt((wide * wide).sum())):.6g}"


def _listed(array: Array) -> str:
    """All elements in order; only one, if all are equal to the bit."""
    elements = [_element(value) for value in array.reshape(-1)]
    if elements and len(set(elements)) == 1:
        return f" = {elements[0]}"
    return f" = [{', '.join(elements)}]"


def _element(value: np.generic) -> str:
    """The shortest decimal that gives the same number."""
    return str(value) if isinstance(value, np.floating) else literal(value)


def literal(value: object) -> str:
    """The text of an attribute."""
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, DType):
        return value.value
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        inside = ", ".join(f"{f.name}={literal(getattr(value, f.name))}" for f in fields)
        return f"{type(value).__name__}({inside})"
    return repr(value)
