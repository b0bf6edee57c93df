"""The most that a function's code can cost: the longest way through each loop, as often as it runs.

Which of two ways a branch takes may depend on data, how often loops run does not. So the cost of a
loop's body is at most that of the longest path through it, without the loops inside, which count by
themselves (Puschner and Koza, Calculating the maximum execution time of real-time programs, 1989).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Function, Machine
from cannery.analysis.loops import (
    BasicBlock,
    back_edges,
    natural_loops,
    split_blocks,
    without_padding,
)

#: The region outside all loops, in place of a loop's header.
_OUTSIDE = -1


def most_cost(
    function: Function, machine: Machine, runs: Mapping[int, int], costs: Mapping[int, int]
) -> int:
    """The most that the calls of a function cost together.

    By address: how often instructions ran (`runs`, of which only the beginnings of the function and
    its loops count), and what one costs each time (`costs`).
    """
    blocks = without_padding(split_blocks(function, machine))
    nest = _Nest.of(blocks)
    total = nest.longest(_OUTSIDE, blocks, costs) * runs.get(function.instructions[0].address, 0)
    for region in nest.bodies:
        if region > _OUTSIDE:
            times = runs.get(blocks[region].instructions[0].address, 0)
            total += times * nest.longest(region, blocks, costs) if times else 0
        else:
            own = [blocks[k].instructions for k in nest.own(region)]
            often = max((runs.get(i.address, 0) for code in own for i in code), default=0)
            total += often * sum(costs.get(i.address, 0) for code in own for i in code)
    return total


@dataclass(frozen=True)
class _Nest:
    """The loops of a function: bodies and parents by header; edges back to headers.

    A loop that has several entries, and so no header, has a number below `_OUTSIDE`: each of its
    blocks runs at most as often as the most frequent one.
    """

    bodies: Mapping[int, frozenset[int]]
    parents: Mapping[int, int]
    back: frozenset[tuple[int, int]]

    @staticmethod
    def of(blocks: Sequence[BasicBlock]) -> _Nest:
        bodies = {header: frozenset(body) for header, body in natural_loops(blocks).items()}
        back = frozenset(back_edges(blocks))
        forward = {
            k: {s for s in block.successors if (k, s) not in back} for k, block in enumerate(blocks)
        }
        for number, component in enumerate(_components(forward), 1):
            bodies[_OUTSIDE - number] = component
        parents = {
            key: min(
                (other for other in bodies if bodies[other] > body),
                key=lambda other: len(bodies[other]), default=_OUTSIDE,
            )
            for key, body in bodies.items()
        }  # fmt: skip
        return _Nest(bodies, parents, back)

    def own(self, region: int) -> list[int]:
        """The blocks of a loop that are in no loop inside it."""
        return [k for k in sorted(self.bodies[region]) if _smallest(self.bodies, k) == region]

    def longest(self, region: int, blocks: Sequence[BasicBlock], costs: Mapping[int, int]) -> int:
        """The cost of the longest path through a loop's body, or through what is outside loops."""
        nodes: dict[int, int] = {}
        follow: dict[int, set[int]] = {}
        for number, block in enumerate(blocks):
            node = self._node(number, region)
            if node is None:
                continue
            own = node == number and _smallest(self.bodies, number) == region
            nodes[node] = nodes.get(node, 0) + (
                sum(costs.get(i.address, 0) for i in block.instructions) if own else 0
            )
            following = follow.setdefault(node, set())
            for successor in block.successors:
                other = self._node(successor, region)
                if other is None or other == node or (number, successor) in self.back:
                    continue
                following.add(other)
        return _longest_path(nodes, follow)

    def _node(self, number: int, region: int) -> int | None:
        """What a block is in a region: itself, or the loop in there that holds it; None: not in
        there.
        """
        inner = _smallest(self.bodies, number)
        if inner == region:
            return number
        while inner != _OUTSIDE and self.parents[inner] != region:
            inner = self.parents[inner]
        return None if inner == _OUTSIDE else inner


def _smallest(bodies: Mapping[int, frozenset[int]], number: int) -> int:
    """The innermost loop that holds a block."""
    holding = [header for header, body in bodies.items() if number in body]
    return min(holding, key=lambda header: len(bodies[header]), default=_OUTSIDE)


def _components(follow: Mapping[int, set[int]]) -> list[frozenset[int]]:
    """The sets of several nodes that reach each other (Kosaraju's algorithm)."""
    before: dict[int, set[int]] = {node: set() for node in follow}
    for node, others in follow.items():
        for other in others:
            before[other].add(node)
    seen: set[int] = set()
    found = []
    for start in reversed(list(_postorder(follow))):
        component, waiting = set[int](), [start]
        while waiting:
            if (node := waiting.pop()) not in seen:
                seen.add(node)
                component.add(node)
                waiting += before[node]
        if len(component) > 1:
            found.append(frozenset(component))
    return found


def _longest_path(nodes: Mapping[int, int], follow: Mapping[int, set[int]]) -> int:
    """The largest sum of nodes on a path; there are no cycles."""
    best: dict[int, int] = {}
    for node in _postorder(follow):
        best[node] = nodes[node] + max((best[other] for other in follow[node]), default=0)
    return max(best.values(), default=0)


def _postorder(follow: Mapping[int, set[int]]) -> Iterator[int]:
    """All nodes, those that follow first."""
    seen: set[int] = set()
    for start in follow:
        waiting = [(start, False)]
        while waiting:
            node, done = waiting.pop()
            if done:
                yield node
            elif node not in seen:
                seen.add(node)
                waiting.append((node, True))
                waiting += [(other, False) for other in sorted(follow[node])]
