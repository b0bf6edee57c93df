"""Chains that are computed depth first: which steps they take, and how many rows they keep."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.lowering.depth import depth_first_chains
from cannery.lowering.lower import cut
from cannery.ops.chains.pulling import Stage, kept_rows
from cannery.ops.chains.sliced import Window
from cannery.passes import run_passes
from lowering.networks import shared_network
from nets.random_graphs import random_graph
from ops.cases_depth_first import byte_network, depth_first_shortcuts

SAME3, POINT = Window(1, 2, 1, 1), Window()


def check_chains(graph: Graph) -> int:
    """How many chains there are; only what the last part computes is read outside."""
    steps = cut(graph)
    found = depth_first_chains(graph, steps)
    for chain in found:
        first = steps.index(chain.parts[0])
        assert chain.depth_first
        assert chain.parts == steps[first : first + len(chain.parts)]
        assert len(chain.parts) > 1
        outside = [s for s in steps if s not in chain.parts]
        inner = {v for part in chain.parts for v in part.outputs} - {*chain.outputs}
        read = {v for step in outside for v in step.inputs} | {*graph.outputs}
        assert inner.isdisjoint(read), (chain.name, inner & read)
        needs = {v for part in chain.parts for v in part.inputs}
        assert {*chain.inputs} == needs - inner
    return len(found)


def test_only_the_last_value_is_read_outside() -> None:
    found = 0
    for seed in range(100):
        draw = np.random.default_rng(seed).integers
        found += check_chains(shared_network(lambda a, b, draw=draw: int(draw(a, b + 1))))
        if seed < 15:
            found += check_chains(run_passes(random_graph(seed)))
    assert found > 10


def test_whole_networks_are_chains() -> None:
    for graph in (byte_network(DType.INT8, 21, 13), depth_first_shortcuts()):
        steps = cut(graph)
        longest = max(depth_first_chains(graph, steps), key=lambda chain: len(chain.parts))
        assert longest.parts == steps


def test_no_more_rows_are_kept_than_windows_read() -> None:
    """However long the chain is: rows are not computed for windows that come later."""
    stages = [Stage(40, 1, ()), *(Stage(40, 1, ((k, SAME3),)) for k in range(9))]
    assert kept_rows(stages) == [3] * 9 + [1]


@pytest.mark.parametrize(("rows", "kept"), [(1, 3), (2, 5), (4, 9)])
def test_several_rows_at_a_time(rows: int, kept: int) -> None:
    """A window reaches one row into the next rows, which are made together."""
    stages = [Stage(40, rows, ()), *(Stage(40, rows, ((k, SAME3),)) for k in range(4))]
    assert kept_rows(stages) == [kept] * 4 + [rows]


def test_strides_keep_their_windows() -> None:
    stages = [Stage(41, 1, ()), Stage(21, 1, ((0, Window(2, 2, 1, 1)),)),
              Stage(11, 1, ((1, Window(2, 0)),))]  # fmt: skip
    assert kept_rows(stages) == [3, 1, 1]


def test_a_shortcut_keeps_rows_until_the_sum() -> None:
    """A sum after n windows of three rows is n rows behind the newest row of its image."""
    for n, kept in ((1, 3), (2, 3), (3, 4), (4, 5)):
        windows = [Stage(20, 1, ((k, SAME3),)) for k in range(n)]
        stages = [Stage(20, 1, ()), *windows, Stage(20, 1, ((n, POINT), (0, POINT)))]
        assert kept_rows(stages)[0] == kept
