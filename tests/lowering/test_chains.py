"""Chains replace neighbouring steps of a cut: only their results are read outside."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering.lower import chains, cut
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.ops.resize.op import Resize
from cannery.passes import run_passes
from lowering.networks import shared_network
from nets.decoders import decoder_graph
from nets.random_graphs import random_graph


def check_chains(graph: Graph) -> list[int]:
    """How many nodes each chain has that joins channels."""
    steps = cut(graph)
    nodes = [node for step in steps for node in step.nodes]
    joined = []
    for chain in chains(graph, steps):
        assert chain.parts in [steps[k : k + len(chain.parts)] for k in range(len(steps))]
        outside = [node for node in nodes if node not in chain.nodes]
        inner = {v for node in chain.nodes for v in node.outputs} - {*chain.outputs}
        read = {v for node in outside for v in node.inputs} | {*graph.outputs}
        assert inner.isdisjoint(read), (chain.name, inner & read)
        needs = {v for node in chain.nodes for v in node.inputs if v} - {*graph.constants}
        assert {*chain.inputs} == needs - inner
        if any(isinstance(node.op, Concat) for node in chain.anchors):
            joined.append(len(chain.nodes))
    return joined


def joining_network(seed: int) -> Graph:
    """Convolutions of concatenated and upsampled values, which sometimes have other readers."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder("joining")
    values = [
        b.node(Relu(), [b.input(name, (1, 2, 4, 3))], name=f"relu_{name}")
        for name in ("one", "two")
    ]
    for name in map(str, range(rng.integers(3, 8))):
        x = values[-1 - rng.integers(min(3, len(values)))]
        _, h, w, channels = b.types[x].shape
        same = [v for v in values if b.types[v].shape[:3] == (1, h, w)]
        match rng.integers(3):
            case 0 if h < 16:
                values.append(b.node(Resize("nearest", (2 * h, 2 * w)), [x], name=name))
            case 1 if channels < 40:
                values.append(b.node(Concat(3), [x, same[rng.integers(len(same))]], name=name))
            case _:
                weight = b.constant("w", np.ones((3, 3, channels, 2), np.float32))
                values.append(
                    b.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)), [x, weight], name=name)
                )
    for value in {values[-1], *rng.choice(values[2:], rng.integers(2))}:
        b.output(str(value))
    return b.build()


def test_what_is_joined_before_a_convolution() -> None:
    assert sum(len(check_chains(joining_network(seed))) for seed in range(500)) > 40


def test_random_networks() -> None:
    for seed in range(100):
        draw = np.random.default_rng(seed).integers
        check_chains(shared_network(lambda low, high, draw=draw: int(draw(low, high + 1))))


def test_decoders() -> None:
    assert sum(len(check_chains(run_passes(decoder_graph(seed)))) for seed in range(6)) > 5


def test_networks_of_all_kinds() -> None:
    for seed in range(20):
        check_chains(run_passes(random_graph(seed)))
