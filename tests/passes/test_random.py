"""Each pass keeps what networks compute, on random patterns that are nearly those it looks for."""

from __future__ import annotations

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
COUNT = 24

#: Folding rounds constants, of which the rest may be small; what is wrong is wrong by far more.
TOLERANCE = 3e-3


def outputs(graph: Graph) -> dict[str, RefArray]:
    """What a graph makes of normal random inputs."""
    rng = np.random.default_rng(1)
    inputs = {v: rng.standard_normal(graph.types[v].shape) for v in graph.inputs}
    with np.errstate(all="ignore"):
        return evaluate(graph, inputs)


@pytest.mark.parametrize("kind", range(len(BLOCKS)), ids=[b.__name__ for b in BLOCKS])
def test_passes_keep_what_networks_compute(kind: int) -> None:
    for seed in range(kind, kind + COUNT * len(BLOCKS), len(BLOCKS)):
        graph = pattern_network(seed)
        expected = outputs(graph)
        for name, run in PASSES:
            after = run(graph)
            if after is graph:
                continue
            verify(after, after=name)
            for value, found in outputs(after).items():
                error = relative_error(found, expected[value])
                assert error <= TOLERANCE, (
                    f"{name} changes {value} of network {seed} by {error:.2g}"
                )
            graph = after
