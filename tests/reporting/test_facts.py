"""Reports on a network match what was generated."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import pytest

from cannery.ctext import arrays
from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.memory_plan import align
from cannery.passes import run_passes
from cannery.reporting.facts import Edge, network_facts
from cannery.target.isa import isa
from lowering.networks import any_choices, shared_network
from reporting.examples import source


def random_source(seed: int) -> Source:
    """Any network, computed in any way."""
    integer, generic = random.Random(seed).randint, isa("avx2")
    graph = run_passes(shared_network(integer))
    steps, choices = any_choices(graph, generic, integer)
    return make_source(assign(graph, steps, choices, generic, nhwc.ORDER), generic, "net", {})


def test_a_chain() -> None:
    net = source()
    facts = network_facts(net)
    steps = [call.planned.step for call in net.calls]
    assert [layer.name for layer in facts.layers] == [step.name for step in steps]
    assert [layer.number for layer in facts.layers] == [*range(len(steps))]
    last = len(steps) - 1
    chain = [Edge(None, 0), *(Edge(k, k + 1) for k in range(last)), Edge(last, None)]
    assert list(facts.edges) == chain
    assert facts.macs == net.macs
    assert facts.weight_bytes >= 4 * (3 * 3 * 3 * 5 + 5 + 45 * 3 + 3)  # and what fills vectors
    assert facts.inputs == ("image: float32[1x7x6x3] (NHWC)",)


def test_weights_of_large_models_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = network_facts(source())
    monkeypatch.setattr(arrays, "BLOB_FROM_BYTES", 1)
    monkeypatch.setattr(arrays, "is_large", lambda constant: constant.values.nbytes > 64)
    net = source()
    assert net.blob.data
    for one, other in zip(before.layers, network_facts(net).layers, strict=True):
        assert one.weight_bytes <= other.weight_bytes < one.weight_bytes + 2 * arrays.ALIGNMENT
        assert bool(other.weight_bytes) == bool(one.weight_bytes)


@pytest.mark.parametrize("seed", range(40))
def test_memory_of_random_networks(seed: int) -> None:
    net = random_source(seed)
    facts = network_facts(net)
    assert max(facts.alive, default=0) == facts.lower_bound == net.workspace.lower_bound
    assert (
        max((b.offset + align(b.bytes) for b in facts.blocks), default=0) == facts.workspace_bytes
    )
    for k, one in enumerate(facts.blocks):
        assert 0 <= one.first <= one.last < len(facts.layers)
        for other in facts.blocks[:k]:
            together = one.first <= other.last and other.first <= one.last
            below = other.offset + other.bytes <= one.offset
            above = one.offset + one.bytes <= other.offset
            assert not together or below or above


def closure(before: Mapping[int, Collection[int]]) -> dict[int, set[int]]:
    """All that each number depends on; smaller numbers come first."""
    found: dict[int, set[int]] = {}
    for number in sorted(before):
        found[number] = {*before[number]}.union(*(found[k] for k in before[number]))
    return found


def dependencies(net: Source) -> dict[int, set[int]]:
    """The steps that each step needs, by the graph alone."""
    graph = net.graph
    owner = {
        node.name: number
        for number, call in enumerate(net.calls)
        for node in call.planned.step.nodes
    }
    index = {node.name: k for k, node in enumerate(graph.nodes)}
    made = {value: index[node.name] for node in graph.nodes for value in node.outputs}
    nodes = closure({
        index[node.name]: {made[value] for value in node.inputs if value in made}
        for node in graph.nodes
    })  # fmt: skip
    found: dict[int, set[int]] = {number: set() for number in owner.values()}
    for node in graph.nodes:
        if node.name in owner:
            names = (graph.nodes[k].name for k in nodes[index[node.name]])
            found[owner[node.name]] |= {owner[name] for name in names if name in owner}
    return {number: needed - {number} for number, needed in found.items()}


@pytest.mark.parametrize("seed", range(60))
def test_edges_of_random_networks(seed: int) -> None:
    net = random_source(seed)
    facts = network_facts(net)
    inner = [e for e in facts.edges if e.source is not None and e.target is not None]
    assert all(edge.source < edge.target for edge in inner)  # type: ignore[operator]
    before: dict[int, set[int]] = {layer.number: set() for layer in facts.layers}
    for edge in inner:
        before[edge.target].add(edge.source)  # type: ignore[index,arg-type]
    drawn, names = closure(before), {node.name for node in net.graph.nodes}
    own = {x.number for x in facts.layers if names & {*x.nodes}}  # no change of order
    assert {number: drawn[number] & own for number in own} == {
        number: needed for number, needed in dependencies(net).items() if number in own
    }
    ends = {edge.port for edge in facts.edges if edge.target is None}
    assert ends == {*range(len(facts.outputs))}
