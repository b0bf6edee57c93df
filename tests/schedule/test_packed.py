"""Packed weights that the second-level cache has no room for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from cannery.choose.plan import make_segments
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ops.conv.op import Conv
from cannery.options import make_options
from cannery.pipeline import choose, import_graph
from cannery.schedule.packed import packed_cycles, total_cycles
from cannery.schedule.schedule import Schedule, estimates, legal
from cannery.target.isa import ISAS, Isa
from cannery.target.targets import find_target
from networks import write_network

KB = 1024


def network(side: int = 8, layers: int = 1) -> Graph:
    """Convolutions 3x3 of 16 channels: 9 KB of weights each, 36 KB for F(4x4, 3x3)."""
    builder = GraphBuilder("net")
    value = builder.input("x", (1, side, side, 16))
    for k in range(layers):
        weights = builder.constant("w", np.ones((3, 3, 16, 16), np.float32))
        conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        value = builder.node(conv, (value, weights), name=f"conv{k}")
    builder.output(value)
    return builder.build()


def core(l2: int, far: int) -> Isa:
    """SSSE3 with caches of these sizes; far ones are read at two bytes per cycle."""
    isa = ISAS["ssse3"]
    sizes = replace(isa.core.caches, l2_bytes=l2, far_bytes=far, far_rate=2.0)
    return isa.meant_for(replace(isa.core, caches=sizes))


def cycles(graph: Graph, isa: Isa, name: str) -> float:
    """What packing costs the first candidate of a schedule, in the graph's first step."""
    step = make_segments(graph)[0].step
    (schedule,) = (s for s in legal(graph, step, isa) if s.id == name)
    return packed_cycles(graph, step, isa, schedule, schedule.candidates(graph, step, isa)[0])


@pytest.mark.parametrize(
    ("graph", "l2", "packed"),
    [(network(), 32, True), (network(), 64, False), (network(side=16), 64, True),
     (network(layers=2), 64, True), (network(layers=4), 32, False)],
)  # fmt: skip
def test_transformed_weights_come_from_memory_where_the_network_outgrows_the_cache(
    graph: Graph, l2: int, packed: bool
) -> None:
    """With values and the other layers' weights; not where they are too large as they are."""
    isa = core(l2 * KB, l2 * KB)
    assert cycles(graph, isa, "conv.winograd_oc") == (36 * KB / 2.0 if packed else 0.0)
    assert cycles(graph, isa, "conv.direct_oc") == 0.0


def test_a_third_level_keeps_them() -> None:
    assert cycles(network(), core(32 * KB, 64 * KB), "conv.winograd_oc") == 0.0


def test_they_count_beside_work_and_code() -> None:
    graph, isa = network(), core(32 * KB, 32 * KB)
    step = make_segments(graph)[0].step

    def total(schedule: Schedule) -> float:
        params, estimate = estimates(graph, step, isa, schedule)[0]
        more = total_cycles(graph, step, isa, schedule, params, estimate)
        return more - estimate.total_in(graph, isa)

    (winograd,) = (s for s in legal(graph, step, isa) if s.id == "conv.winograd_oc")
    assert total(winograd) == pytest.approx(36 * KB / 2.0)


def test_packed_weights_of_a_robots_network_stay_in_the_cache_of_a_bonnell(tmp_path: Path) -> None:
    """512 KB, with values of 270 KB; other targets, with more cache, take four times as many."""
    model = write_network("robot_detector", tmp_path)

    def packed(target: str) -> float:
        options = make_options(model, {"target": target})
        graph, row = import_graph(options), find_target(target)
        chosen = choose(graph, row, options)
        return sum(
            choice.schedule.constant_bytes(graph, step, choice.params, row.isa)
            for step, choice in zip(chosen.steps, chosen.choices, strict=True)
        )

    assert packed("atom32") < 128 * KB
    assert packed("ssse3-32") > 256 * KB
