"""Replaces float layers by integer ones, and keeps the values between them as integers.

Dense layers, convolutions and recurrent layers with constant weights become integer layers,
together with the activation after them if it is exact in float32 or has a table; so do means, sums
and concatenations between them. A value that only such layers read, even if moved on the way, never
exists as floats. All other layers stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cannery.ir.graph import FloatLayer, Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.ops.quantized.softmax import QuantizedSoftmax
from cannery.ops.softmax.op import Softmax
from cannery.quantization.calibration import Observed
from cannery.quantization.codes import Coding
from cannery.quantization.dense import (
    EXACT,
    activation_behind,
    factors_of,
    is_dense,
    joins,
    rewrite_dense,
)
from cannery.quantization.draft import Draft
from cannery.quantization.floats import float_layers
from cannery.quantization.flow import Flow, pasts_of
from cannery.quantization.functions import LOSES_TOO_MUCH, Function, find_functions, source_of
from cannery.quantization.means import is_sum, mean_limit, rewrite_mean, rewrite_sum
from cannery.quantization.pasts import rewrite_past
from cannery.quantization.ranges import Ranges
from cannery.quantization.recurrent import is_recurrent, rewrite_recurrent
from cannery.quantization.tables import rewrite_function


@dataclass(frozen=True)
class Rewritten:
    """The graph, the names of the integer layers, those that compute with floats, the ranges of
    values, the bytes that codes save, by layer that has them, and the functions that may be tables.
    """

    graph: Graph
    layers: tuple[str, ...]
    floats: tuple[FloatLayer, ...]
    ranges: tuple[tuple[int, float], ...]
    coded: Mapping[str, int]
    functions: tuple[Function, ...]


def rewrite(
    graph: Graph, seen: Observed, dtype: DType, ranges: Ranges, *, raw: bool,
    coding: Coding | None = None,
) -> Rewritten:  # fmt: skip
    """Rewrites all layers that can be integers; `ranges` says how fine their values are.

    `raw`: inputs are quantised before they are moved, and outputs are floats made of integers.
    `coding`: which weights have few levels.
    """
    draft = _draft(graph, seen, dtype, ranges, raw=raw)
    draft.coding = coding
    for node in graph.nodes:
        name = node.outputs[0]
        if is_recurrent(graph, node):
            rewrite_recurrent(draft, node)
        elif name in draft.factors:
            rewrite_dense(draft, node)
        elif name in draft.limits:
            rewrite_mean(draft, node)
        elif name in draft.functions:
            rewrite_function(draft, node)
        elif name in draft.flow.sums:
            rewrite_sum(draft, node)
        elif name in draft.flow.pasts and draft.exists(name) and draft.flow.only_integers(name):
            rewrite_past(draft, node)
        elif _is_softmax(graph, node):
            draft.rewriter.update(node, op=QuantizedSoftmax())
    if raw:
        _round_outputs(draft)
    made = draft.rewriter.finish()
    floats = float_layers(graph, made, draft)
    tables = tuple(f for f in draft.functions.values() if f.nodes[-1].name not in draft.kept)
    return Rewritten(made, tuple(draft.layers), floats, ranges.finish(), draft.coded, tables)


def _draft(
    graph: Graph, seen: Observed, dtype: DType, ranges: Ranges, *, raw: bool
) -> Draft:  # fmt: skip
    """Everything that can be integers, before anything is."""
    factors, limits, sums = {}, {}, {}
    fused: dict[str, tuple[Node, ...]] = {}
    sources: dict[str, str] = {}
    taken = set[str]()
    for node in graph.nodes:
        name = node.outputs[0]
        if is_dense(graph, seen, dtype, node):
            factors[name], fused[name] = factors_of(graph, node), activation_behind(graph, node)
        elif limit := mean_limit(graph, seen, node):
            limits[name] = limit
        elif name in taken:
            continue
        elif source := source_of(graph, seen, sources, node):
            sources[name] = source
        elif is_sum(graph, seen, node):
            behind = activation_behind(graph, node)
            fused[name] = tuple(n for n in behind if isinstance(n.op, EXACT))
            sums[name] = (node, *fused[name])[-1].output
        taken.update(n.output for n in fused.get(name, ()))
    found, kept = find_functions(graph, seen, sources), list[Function]()
    functions = {value: f for value, f in found.items() if not _is_activation(f)}
    if (steepest := ranges.steepest) is not None:
        kept = [f for f in functions.values() if f.sensitivity(seen) > steepest]
        functions = {k: f for k, f in functions.items() if f not in kept}
    inside = {n.output: f.source for f in functions.values() for n in f.nodes}
    reasons = {n.name: LOSES_TOO_MUCH for f in kept for n in f.nodes}
    for function in kept:
        for node in function.nodes:
            inside.pop(node.output, None)
    flow = Flow(graph, {*factors, *limits}, sums, raw, pasts_of(graph), inside)
    return Draft(
        graph, seen, dtype, flow, factors, limits, fused, ranges, functions=functions, kept=reasons
    )


def _is_activation(function: Function) -> bool:
    """Whether layers take in a function themselves: where one cannot, because others read its
    result, too, that may be otherwise in calls of another size.
    """
    last = function.nodes[-1]
    alone = len(function.nodes) == 1 == len(last.inputs)
    return alone and isinstance(last.op, Elementwise) and joins(last.op)


def _is_softmax(graph: Graph, node: Node) -> bool:
    """Whether a node is a softmax along the last axis."""
    shape = graph.types[node.outputs[0]].shape
    along = isinstance(node.op, Softmax) and node.op.axis == len(shape) - 1
    return along and shape[-1] <= 2**16 and node.inputs[0] not in graph.constants


def _round_outputs(draft: Draft) -> None:
    """Outputs that layers compute as floats become integers, and floats again."""
    for value in draft.graph.outputs:
        node = draft.rewriter.producer(value)
        known = value in draft.integers or value not in draft.seen.spreads
        if node is None or known or len(node.outputs) > 1:
            continue
        floats = draft.rewriter.value(f"{value}/exact", draft.rewriter.types[value])
        new = [replace(node, outputs=(floats,))]
        integers = draft.rounded(floats, f"{value}/raw", draft.bound_of(value), new)
        draft.floats(integers, value, new)
        draft.rewriter.replace_node(node, new)
