"""Shuffled channels are where they are needed, in random networks too."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.execution.samples import relative_error
from cannery.ir.evaluate import evaluate
from cannery.ir.verify import verify
from cannery.ops.movement.op import Slice, Transpose
from cannery.passes.order_channels import order_channels
from nets.shuffles import shuffle_graph


@pytest.mark.parametrize("seed", range(30))
def test_shuffles_go_where_nothing_needs_the_old_order(seed: int) -> None:
    graph = shuffle_graph(seed)
    after = order_channels(graph)
    verify(after, after="order_channels")
    kinds = {type(node.op) for node in after.nodes}
    assert (Transpose in kinds) == (seed % 3 == 2)
    slices = [node.op for node in after.nodes if isinstance(node.op, Slice)]
    assert all(set(op.steps) == {1} for op in slices)
    rng = np.random.default_rng(seed)
    inputs = {v: rng.standard_normal(graph.types[v].shape) for v in graph.inputs}
    expected, found = evaluate(graph, inputs), evaluate(after, inputs)
    for value in graph.outputs:
        assert relative_error(found[value], expected[value]) <= 1e-6
