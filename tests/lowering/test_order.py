"""The order of steps that needs least memory: no other order needs less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.choose.ram import RamBound
from cannery.ir.graph import Graph, Node
from cannery.ir.verify import verify
from cannery.layouts import nhwc
from cannery.lowering import order as ordering
from cannery.lowering.lower import cut
from cannery.lowering.order import least_memory_order, peak
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.options import make_options
from cannery.pipeline import import_graph
from cannery.schedule.program import Step
from cannery.target.isa import isa
from frontends.keras_files import LayerSpec, Model, image, layer, write_h5
from lowering.networks import shared_network
from ops.cases import Net

ONE = Conv((1, 1), ((0, 0), (0, 0)), (1, 1))


def branches() -> Graph:
    """Three branches, each wide in the middle, all of whose middles come first."""
    net = Net()
    x = net.input("x", (1, 8, 8, 4))
    wide = [net.node(ONE, [x, net.weight(1, 1, 4, 40)]) for _ in range(3)]
    narrow = [net.node(ONE, [w, net.weight(1, 1, 40, 3)]) for w in wide]
    joined = net.node(Concat(3), narrow)
    return net.graph(net.node(ONE, [joined, net.weight(1, 1, 9, 2)]))


def all_orders(steps: Sequence[Step], inputs: Sequence[str]) -> Iterator[list[Node]]:
    """The nodes in every order in which steps may run."""
    if not steps:
        yield []
    for k, step in enumerate(steps):
        rest = [*steps[:k], *steps[k + 1 :]]
        made = {v for other in rest for v in other.outputs}
        if made.isdisjoint(step.inputs):
            for nodes in all_orders(rest, inputs):
                yield [*step.nodes, *nodes]


def test_branches_run_one_after_the_other() -> None:
    graph = branches()
    found = least_memory_order(graph)
    verify(found, after="order")
    wide, narrow, whole = 64 * 40 * 4, 64 * 3 * 4, 64 * 9 * 4
    assert peak(graph) == 3 * wide + narrow
    assert peak(found) == max(wide + 3 * narrow, whole)
    target = isa("generic")
    taken = []
    for each in (graph, found):
        segments = make_segments(each)
        plan = Defaults(each, segments, target, nhwc.ORDER, 1e-4).plan()
        taken.append(RamBound(each, segments, target, nhwc.ORDER).ram(plan).bytes)
    assert taken[1] < 0.6 * taken[0]


def test_no_order_needs_less() -> None:
    better = 0
    for seed in range(60):
        draw = np.random.default_rng(seed).integers
        graph = shared_network(lambda a, b, draw=draw: int(draw(a, b + 1)))
        steps = cut(graph)
        if not 2 <= len(steps) <= 7:
            continue
        found = least_memory_order(graph)
        verify(found, after="order")
        # Cut anew, epilogues may differ, so the steps of the first cut are what is compared.
        search = ordering._Search.of(graph, steps)
        least = min(_peak(search, steps, nodes) for nodes in all_orders(steps, graph.inputs))
        best = search.best()
        assert best is not None
        assert search.peak(best) == least
        assert peak(found) <= peak(graph)
        better += peak(found) < peak(graph)
    assert better >= 3


def _peak(search: ordering._Search, steps: Sequence[Step], nodes: Sequence[Node]) -> int:
    place = {node.outputs[0]: k for k, step in enumerate(steps) for node in step.nodes}
    return search.peak(list(dict.fromkeys(place[node.outputs[0]] for node in nodes)))


def test_too_many_orders_leave_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branches()
    monkeypatch.setattr(ordering, "MAX_STATES", 2)
    assert least_memory_order(graph) is graph


def test_networks_under_a_bound_run_in_that_order(tmp_path: Path) -> None:
    def conv(name: str, source: str, channels: int, filters: int) -> LayerSpec:
        arrays = {"kernel": np.ones((1, 1, channels, filters)), "bias": np.zeros(filters)}
        config = {"filters": filters, "kernel_size": [1, 1]}
        return LayerSpec("Conv2D", name, [[source]], config, arrays)

    layers = [image("image", 8, 8, 4)]
    layers += [conv(f"wide_{k}", "image", 4, 40) for k in range(3)]
    layers += [conv(f"narrow_{k}", f"wide_{k}", 40, 3) for k in range(3)]
    joined = layer("Concatenate", "joined", *(f"narrow_{k}" for k in range(3)), axis=-1)
    write_h5(tmp_path / "net.h5", Model("net", [*layers, joined], ["image"], ["joined"]))

    def names(**given: object) -> list[str]:
        options = make_options(tmp_path / "net.h5", {"isa": "generic", **given})
        return [node.name for node in import_graph(options).nodes]

    assert [name[:4] for name in names()][:3] == ["wide"] * 3
    assert [name[:4] for name in names(max_ram="100K")][:3] == ["wide", "narr", "wide"]
