"""Passes that look for an operator that a file spells out keep what networks compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cannery.execution.samples import relative_error
from cannery.ir.graph import Graph
from cannery.passes import run_passes
from passes.networks import Maker
from passes.spellings import BLOCKS, spelt_network
from passes.test_random import TOLERANCE, check_passes, given_out, outputs, shared, varying

#: Networks of each kind.
COUNT = 40

Block = Callable[[Maker], None]
blocks = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)


@blocks
def test_passes_keep_what_is_spelt_out(block: Block) -> None:
    for seed in range(COUNT):
        check_passes(spelt_network(block, seed), f"{block.__name__} {seed}")


@pytest.mark.parametrize("change", [varying, given_out, shared])
@blocks
def test_so_do_they_where_something_is_in_their_way(
    block: Block, change: Callable[[Graph, np.random.Generator], Graph]
) -> None:
    for seed in range(COUNT):
        graph = spelt_network(block, seed)
        if change is varying and not graph.constants:
            continue
        changed = change(graph, np.random.default_rng(seed))
        check_passes(changed, f"{block.__name__} {seed}, {change.__name__}")


@pytest.mark.parametrize("way", ["integers", "weights_vary"])
@blocks
def test_other_ways_to_run_them(block: Block, way: str) -> None:
    for seed in range(COUNT):
        graph = spelt_network(block, seed)
        after = outputs(run_passes(graph, **{way: True}))
        for value, found in outputs(graph).items():
            assert relative_error(after[value], found) <= TOLERANCE, f"{block.__name__} {seed}"
