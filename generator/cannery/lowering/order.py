"""The order of steps that needs least memory at its peak, if they run layer by layer.

A network with branches may be computed in many orders. This is an exact search: states are the sets
of steps that are done, the cost of a path is the most that is alive along it, and the cheapest
state is expanded first (Dijkstra's algorithm with the maximum in place of the sum). The first
complete state is the best one. A step is done at once where that needs no more than is alive
anyway and frees memory, which no order can do better.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Reshape
from cannery.schedule.program import Step

#: States that are looked at before the order of the model stays.
MAX_STATES = 5_000


def least_memory_order(graph: Graph) -> Graph:
    """The graph with its nodes in the order that needs least memory; the same if that saves nothing
    or there are too many orders.
    """
    steps = cut(graph)
    found = _Search.of(graph, steps).best()
    if found is None:
        return graph
    other = graph.with_nodes([node for k in found for node in steps[k].nodes])
    return other if peak(other) < peak(graph) else graph


def peak(graph: Graph) -> int:
    """The most bytes that are alive if the steps run one by one in the order of the nodes."""
    steps = cut(graph)
    return _Search.of(graph, steps).peak(range(len(steps)))


@dataclass(frozen=True)
class _Search:
    """What steps read and write, `sizes` of values in bytes, and the sets of steps that read each.

    Sets of steps are bits of an int, such as those that a step `needs`. `views` are the steps whose
    result lies in the memory of what they read.
    """

    reads: tuple[tuple[str, ...], ...]
    writes: tuple[tuple[str, ...], ...]
    sizes: Mapping[str, int]
    readers: Mapping[str, int]
    needs: tuple[int, ...]
    views: frozenset[int]

    @staticmethod
    def of(graph: Graph, steps: Sequence[Step]) -> _Search:
        """Inputs and outputs of the network are in the caller's memory."""
        made = {v: k for k, step in enumerate(steps) for v in step.outputs}
        readers: dict[str, int] = dict.fromkeys(made, 0)
        for k, step in enumerate(steps):
            for value in step.inputs:
                readers[value] = readers.get(value, 0) | 1 << k
        inside = (v for v in made if v not in graph.outputs)
        return _Search(
            tuple(step.inputs for step in steps), tuple(step.outputs for step in steps),
            {v: graph.types[v].bytes for v in inside}, readers,
            tuple(sum(1 << made[v] for v in {*s.inputs} if v in made) for s in steps),
            frozenset(k for k, s in enumerate(steps) if isinstance(s.anchor.op, Reshape | Concat)),
        )  # fmt: skip

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes alive along an order."""
        done = alive = most = 0
        for k in order:
            during, alive = self._run(k, done, alive)
            most, done = max(most, during), done | 1 << k
        return most

    def best(self) -> list[int] | None:
        """The best order; None if there are too many states."""
        whole = (1 << len(self.reads)) - 1
        heap: list[tuple[int, int, int, tuple[int, ...]]] = [(0, 0, 0, ())]
        seen: set[int] = set()
        while heap and len(seen) < MAX_STATES:
            most, alive, done, order = heapq.heappop(heap)
            if done == whole:
                return list(order)
            if done in seen:
                continue
            seen.add(done)
            for k, during, after in self._next(most, done, alive):
                state = max(most, during), after, done | 1 << k, (*order, k)
                heapq.heappush(heap, state)
        return None

    def _next(self, most: int, done: int, alive: int) -> list[tuple[int, int, int]]:
        """The steps that may come next: (step, bytes alive during it, and after it)."""
        found = []
        for k, needed in enumerate(self.needs):
            if done >> k & 1 or needed & ~done:
                continue
            during, after = self._run(k, done, alive)
            if during <= most and after <= alive:
                return [(k, during, after)]
            found.append((k, during, after))
        return found

    def _run(self, k: int, done: int, alive: int) -> tuple[int, int]:
        """Bytes alive during a step and after it."""
        made = sum(self.sizes.get(v, 0) for v in self.writes[k] if self.readers[v])
        gone = done | 1 << k
        freed = sum(
            self.sizes.get(v, 0)
            for v in dict.fromkeys(self.reads[k])
            if not self.readers[v] & ~gone
        )
        after = alive + made - freed
        return max(alive, after) if k in self.views else alive + made, after
