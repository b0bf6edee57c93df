"""Each pass keeps what networks compute, on random patterns that are nearly those it looks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cannery.execution.samples import relative_error
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ir.verify import verify
from cannery.passes import PASSES
from passes.networks import BLOCKS, pattern_network

#: Networks of each kind.
COUNT, FEWER = 24, 8

#: Folding rounds constants, and differences of them may be small; real mistakes are far larger.
TOLERANCE = 3e-3


def outputs(graph: Graph) -> dict[str, RefArray]:
    """What a graph makes of normal random inputs."""
    rng = np.random.default_rng(1)
    inputs = {v: rng.standard_normal(graph.types[v].shape) for v in graph.inputs}
    with np.errstate(all="ignore"):
        return evaluate(graph, inputs)


def varying(graph: Graph, rng: np.random.Generator) -> Graph:
    """A constant, or a few, are inputs."""
    names = [name for name in graph.constants if rng.random() < 0.4] or list(graph.constants)[:1]
    left = {name: array for name, array in graph.constants.items() if name not in names}
    return replace(graph, inputs=(*graph.inputs, *names), constants=left)


def given_out(graph: Graph, rng: np.random.Generator) -> Graph:
    """Inner values are outputs, too."""
    inner = [v for node in graph.nodes for v in node.outputs if v not in graph.outputs]
    chosen = [value for value in inner if rng.random() < 0.3]
    return replace(graph, outputs=(*graph.outputs, *chosen))


def shared(graph: Graph, _: np.random.Generator) -> Graph:
    """Constants of one type and sign are one, which several nodes read, or one node twice."""
    first: dict[object, str] = {}
    one = {
        n: first.setdefault((graph.types[n], bool((a > 0).all())), n)
        for n, a in graph.constants.items()
    }
    nodes = [replace(n, inputs=tuple(one.get(i, i) for i in n.inputs)) for n in graph.nodes]
    constants = {name: graph.constants[name] for name in first.values()}
    return replace(graph, nodes=tuple(nodes), constants=constants)


def check_passes(graph: Graph, what: str) -> None:
    """Each pass in its turn keeps the outputs."""
    expected = outputs(graph)
    for name, run in PASSES:
        after = run(graph)
        if after is graph:
            continue
        verify(after, after=name)
        for value, found in outputs(after).items():
            error = relative_error(found, expected[value])
            assert error <= TOLERANCE, f"{name} changes {value} of {what} by {error:.2g}"
        graph = after


@pytest.mark.parametrize("kind", range(len(BLOCKS)), ids=[b.__name__ for b in BLOCKS])
def test_passes_keep_what_networks_compute(kind: int) -> None:
    for seed in range(kind, kind + COUNT * len(BLOCKS), len(BLOCKS)):
        check_passes(pattern_network(seed), f"network {seed}")


@pytest.mark.parametrize("change", [varying, given_out, shared])
@pytest.mark.parametrize("kind", range(len(BLOCKS)), ids=[b.__name__ for b in BLOCKS])
def test_so_do_they_where_something_is_in_their_way(
    kind: int, change: Callable[[Graph, np.random.Generator], Graph]
) -> None:
    for seed in range(kind, kind + FEWER * len(BLOCKS), len(BLOCKS)):
        changed = change(pattern_network(seed), np.random.default_rng(seed))
        check_passes(changed, f"network {seed}, {change.__name__}")
