"""Networks with strides that run in short calls: which calls need a step of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from cannery.ir.graph import Graph
from cannery.schedule.program import Program


def step_periods(program: Program) -> Sequence[int]:
    """For each step the number n of which it runs in every n-th call: counted from the first call,
    in the n-th, the 2n-th and so on.
    """
    needed = value_periods(program.graph)
    return [gcd(*(needed.get(v, 1) for v in step.step.outputs)) or 1 for step in program.steps]


def value_periods(graph: Graph) -> Mapping[str, int]:
    """For each value that anything is made of the number n of calls that need it once.

    A value is needed in the calls of what is made of it. In other calls it is nothing that may be
    used.
    """
    periods = graph.calls.periods if graph.calls else {}
    found: dict[str, int] = {}
    for value in graph.outputs:
        found[value] = gcd(found.get(value, 0), periods.get(value, 1))
    for node in reversed(graph.nodes):
        own = gcd(*(found.get(value, 0) for value in node.outputs))
        for value in filter(None, node.inputs):
            found[value] = gcd(found.get(value, 0), own)
    return found
