"""How a network is written makes no difference to what passes make of it.

Random networks of what passes look for, and the same ones written in another way: operands the
other way round, constants in another shape that means the same, nodes in another order. As many
nodes of each kind are left; and what has gone through the passes once stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Graph, Node
from cannery.ir.verify import verify
from cannery.ops.elementwise import Add, Max, Min, Mul
from cannery.passes import PASSES, run_passes
from passes.networks import BLOCKS, pattern_network, twice

#: Networks of each kind.
COUNT = 12

#: What is the same whichever operand is the first.
COMMUTE = (Add, Max, Min, Mul)


def swapped(graph: Graph, _: np.random.Generator) -> Graph:
    """All operands the other way round where that is the same."""
    return graph.with_nodes(
        [
            replace(node, inputs=node.inputs[::-1]) if isinstance(node.op, COMMUTE) else node
            for node in graph.nodes
        ]
    )


def reshaped(graph: Graph, rng: np.random.Generator) -> Graph:
    """Constants of elementwise nodes with more or fewer axes of one element before the others."""
    readers = {name: [n for n in graph.nodes if name in n.inputs] for name in graph.constants}
    constants, types = dict(graph.constants), dict(graph.types)
    for name, array in graph.constants.items():
        if all(isinstance(node.op, COMMUTE) for node in readers[name]):
            shape = array.shape
            while shape[:1] == (1,) and rng.random() < 0.7:
                shape = shape[1:]
            rank = min(len(graph.types[node.output].shape) for node in readers[name])
            shape = (1,) * int(rng.integers(0, rank - len(shape) + 1)) + shape
            constants[name] = array.reshape(shape)
            types[name] = replace(types[name], shape=shape)
    return replace(graph, constants=constants, types=types)


def reordered(graph: Graph, rng: np.random.Generator) -> Graph:
    """The nodes in any order in which they can be computed."""
    left, there, nodes = list(graph.nodes), {*graph.inputs, *graph.constants, ""}, list[Node]()
    while left:
        ready = [node for node in left if there.issuperset(node.inputs)]
        node = ready[int(rng.integers(len(ready)))]
        left.remove(node)
        nodes.append(node)
        there |= {*node.outputs}
    return graph.with_nodes(nodes)


def kinds(graph: Graph) -> Counter[str]:
    """How many nodes of each kind there are."""
    return Counter(node.op.kind for node in graph.nodes)


def again(graph: Graph, _: np.random.Generator) -> Graph:
    """What has gone through the passes."""
    return run_passes(graph)


@pytest.mark.parametrize("change", [swapped, reshaped, reordered, again])
@pytest.mark.parametrize("kind", range(len(BLOCKS)), ids=[b.__name__ for b in BLOCKS])
def test_passes_find_the_same(
    change: Callable[[Graph, np.random.Generator], Graph], kind: int
) -> None:
    if change is again and BLOCKS[kind] is twice:
        pytest.skip("an activation that is computed twice is one when activations were looked for")
    for seed in range(kind, kind + COUNT * len(BLOCKS), len(BLOCKS)):
        graph = pattern_network(seed)
        other = change(graph, np.random.default_rng(seed))
        verify(other, after="the change")
        assert kinds(run_passes(other)) == kinds(run_passes(graph)), seed


def test_passes_leave_nothing_that_no_output_needs() -> None:
    """A value with a reader of no use has two, and most passes want to be the only one."""
    for seed in range(COUNT * len(BLOCKS)):
        graph = pattern_network(seed)
        for name, run in PASSES:
            before, graph = graph, run(graph)
            assert graph is before or eliminate_dead(graph) is graph, (name, seed)


#: By block how many nodes, and numbers in constants, its networks have left; less is right, too.
LEFT = {
    "fused": (211, 2585),
    "pruned": (189, 2663),
    "padded": (231, 2181),
    "moved": (119, 202),
    "reversed_channels": (80, 1459),
    "twice": (199, 891),
    "joined": (154, 551),
    "upsampled": (254, 3953),
    "constants": (88, 408),
    "recurrent": (116, 1038),
    "flattened": (87, 1858),
    "in_one_dimension": (100, 396),
    "merged": (70, 1734),
}


@pytest.mark.parametrize("block", dict.fromkeys(BLOCKS), ids=lambda block: block.__name__)
def test_passes_leave_no_more_than_they_did(block: Callable[..., None]) -> None:
    left = [0, 0]
    for seed in (s for s in range(2 * COUNT * len(BLOCKS)) if BLOCKS[s % len(BLOCKS)] is block):
        graph = run_passes(pattern_network(seed))
        left[0] += len(graph.nodes)
        left[1] += sum(array.size for array in graph.constants.values())
    nodes, numbers = LEFT[block.__name__]  # of these very networks: new blocks change them all
    assert left[0] <= nodes
    assert left[1] <= numbers
