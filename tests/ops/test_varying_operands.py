"""Schedules that need constants say so: with an input instead, everything legal works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.measure.trial import make_trial, random_inputs, step_data
from cannery.schedule.schedule import legal
from cannery.target.targets import find_target
from ops.cases import all_cases

#: Nodes of the largest case that is tried: later parts of larger ones are separate cases too.
NODES = 3


def varying(graph: Graph, name: str) -> Graph:
    """The graph with a constant as an input."""
    left = {other: array for other, array in graph.constants.items() if other != name}
    return replace(graph, inputs=(*graph.inputs, name), constants=left)


def kernels(graph: Graph, name: str, isa: str, seen: set[object]) -> int:
    """How many schedules make a kernel of the steps that read the constant as an input."""
    changed, machine, made = varying(graph, name), find_target(isa).isa, 0
    given = {**random_inputs(graph, 0), name: graph.constants[name]}
    for step in (step for step in cut(changed) if name in step.inputs):
        for each in legal(changed, step, machine):
            types = tuple(changed.types[value] for value in step.inputs)
            key = (each.id, step.anchor.op, types, step.inputs.index(name))
            if key in seen:
                continue
            seen.add(key)
            params = each.candidates(changed, step, machine)[0]
            with np.errstate(all="ignore"):
                values = evaluate_all(changed, given)
                data = step_data(changed, step, {v: values[v] for v in step.inputs})
            each.cost(changed, step, params, machine)
            made += make_trial(changed, step, each, params, machine, data) is not None
    return made


@pytest.mark.parametrize("isa", ["generic", "avx2", "neon64dot"])
def test_what_is_legal_for_varying_operands_has_a_kernel(isa: str) -> None:
    seen: set[object] = set()
    graphs = [case.make() for case in all_cases()]
    small = [graph for graph in graphs if len(graph.nodes) <= NODES]
    assert sum(kernels(g, name, isa, seen) for g in small for name in g.constants) > 300
