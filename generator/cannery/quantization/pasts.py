"""Networks that run step by step: the past of what integer layers read is kept as integers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Graph, Node, State
from cannery.ir.tensor import TensorType
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.scale import Quantize
from cannery.quantization.draft import Draft


def rewrite_past(draft: Draft, node: Node) -> None:
    """The node that makes the next past of a value that nothing needs as floats."""
    new = list[Node]()
    draft.floats(draft.as_integers(node.output, new), node.output, new)
    draft.rewriter.replace_node(node, new)


def integer_states(graph: Graph, pasts: Collection[str]) -> Graph:
    """Of these states, those that are only quantised, and made of integers, as integers: both have
    the scale of the value.
    """
    graph = eliminate_dead(graph)
    for state in graph.states:
        if state.output in pasts:
            graph = _as_integers(graph, state)
    return graph


def _as_integers(graph: Graph, state: State) -> Graph:
    readers, made = graph.consumers(state.input), graph.producer(state.output)
    if len(readers) != 1 or not isinstance(readers[0].op, Quantize):
        return graph
    if made is None or not isinstance(made.op, DequantizeLinear):
        return graph
    (quantised,), source = readers, made.inputs[0]
    first = np.asarray(state.initial, np.float32)
    factor = graph.constants[quantised.inputs[1]]
    initial = quantised.op.reference(first, factor)[0] if state.initial else first
    names = {quantised.output: state.input, source: state.output}
    types = {v: type_ for v, type_ in graph.types.items() if v not in names}
    for name in (state.input, state.output):
        types[name] = TensorType(types[name].shape, graph.types[source].dtype)
    nodes = tuple(
        node.renamed(lambda v: names.get(v, v))
        for node in graph.nodes
        if node is not quantised and node is not made
    )
    states = tuple(
        replace(s, initial=tuple(map(float, initial))) if s == state else s for s in graph.states
    )
    return replace(graph, nodes=nodes, types=types, states=states)
