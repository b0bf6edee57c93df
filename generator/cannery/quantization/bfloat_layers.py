"""Layers that multiply bfloat16: convolutions and products with constant matrices.

Only their operator changes, and their weights are rounded; all values of the graph stay float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np

from cannery.ir.bfloat import rounded_to_bfloat
from cannery.ir.graph import Array, Graph, Node
from cannery.ir.tensor import DType
from cannery.lowering.lower import cut
from cannery.ops.bfloat.op import bfloat_form
from cannery.quantization.precision import Precision, compute_as
from cannery.schedule.program import Step
from cannery.schedule.schedule import estimates, legal
from cannery.target.isa import isa

#: What processors with products of bfloat16 have at least.
ISA = isa("neon64bf16")


def compute_in_bfloat(graph: Graph, max_error: float, samples: Path | None = None) -> Graph:
    """The graph with those layers in bfloat16 that bear it, see `compute_as`."""
    return compute_as(BFLOAT, graph, max_error, samples)


def able_bfloat_steps(graph: Graph) -> tuple[Step, ...]:
    """The steps of a float32 graph that kernels can compute with products of bfloat16."""
    return tuple(step for step in cut(graph) if _able(graph, step))


def _able(graph: Graph, step: Step) -> bool:
    form = _in_form(step)
    values = (*step.inputs, *step.outputs)
    if form is None or any(graph.types[value].dtype is not DType.FLOAT32 for value in values):
        return False
    weight = graph.constants.get(step.anchor.inputs[1])
    if weight is None or not np.isfinite(rounded_to_bfloat(weight)).all():
        return False
    return bool(legal(graph, form, ISA))


def _in_form(step: Step) -> Step | None:
    """The same step with products of bfloat16; None if there is none."""
    op = bfloat_form(step.anchor.op)
    if op is None or len(step.anchors) != 1 or step.parts:
        return None
    return replace(step, anchors=(replace(step.anchor, op=op),))


def gaining_steps(graph: Graph, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Those of the steps that take less time so than in float32, by the cost model.

    Winograd's algorithm, for example, has a quarter of the products, and inputs are not rounded.
    """
    return tuple(step for step in steps if _cycles(graph, _in_form(step)) < _cycles(graph, step))


def _cycles(graph: Graph, step: Step | None) -> float:
    """The cost of the cheapest kernel."""
    if step is None:
        return inf
    found = (each for able in legal(graph, step, ISA) for each in estimates(graph, step, ISA, able))
    return min((estimate.total(ISA) for _, estimate in found), default=inf)


def in_bfloat(graph: Graph, steps: Sequence[Step]) -> Graph:
    """The graph with the products of these steps in bfloat16."""
    chosen = {step.anchor.name for step in steps}
    readers = [n for n in graph.nodes if n.name not in chosen]
    others = {name for node in readers for name in node.inputs} | set(graph.outputs)
    constants, types = dict(graph.constants), dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        form = bfloat_form(node.op) if node.name in chosen else None
        if form is None:
            nodes.append(node)
            continue
        weight = node.inputs[1]
        new = f"{weight}/bfloat16" if weight in others else weight
        constants[new] = _rounded(graph.constants[weight])
        types[new] = graph.types[weight]
        nodes.append(replace(node, op=form, inputs=(node.inputs[0], new, *node.inputs[2:])))
    return replace(graph, nodes=tuple(nodes), constants=constants, types=types)


def _rounded(array: Array) -> Array:
    return rounded_to_bfloat(array).astype(np.float32)


def _weight(step: Step) -> tuple[str, ...]:
    return (step.anchor.inputs[1],)


BFLOAT = Precision(
    "bfloat16", "bfloat16", "no layer takes less time in bfloat16",
    "it has no kernel for bfloat16, or none that takes less time",
    able_bfloat_steps, gaining_steps, in_bfloat, _weight,
)  # fmt: skip
