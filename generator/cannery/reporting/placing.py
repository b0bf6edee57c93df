"""Where the nodes of a graph are drawn: rows from top to bottom, few crossings, short edges.

Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures", 1981:
ranks by longest path, invisible nodes where edges pass a rank, order by barycentres, and then
columns as close to the neighbours as the order allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Distance between two nodes of a row, and between a passing edge and its neighbours.
NODE_WIDTH = 1.0
EDGE_WIDTH = 0.25

_SWEEPS = 8

Link = tuple[int, int]


@dataclass(frozen=True)
class Placed:
    """Column and row of each node, and of each edge the points where it passes rows, in order."""

    points: Mapping[int, tuple[float, int]]
    routes: Mapping[Link, tuple[tuple[float, int], ...]]


def place(count: int, links: Sequence[Link]) -> Placed:
    """Place nodes 0 to `count` - 1; every link goes from a node to one that depends on it."""
    ranks = _ranks(count, links)
    rows, chains = _rows(ranks, links)
    below: dict[int, list[int]] = defaultdict(list)
    above: dict[int, list[int]] = defaultdict(list)
    for chain in chains.values():
        for one, other in pairwise(chain):
            below[one].append(other)
            above[other].append(one)
    column = {node: float(k) for row in rows for k, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        _order(rows if down else rows[::-1], above if down else below, column)
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            _settle(row, above if down else below, column, count)
    least = min(column.values(), default=0.0)
    ends = {node: (column[node] - least, ranks[node]) for node in range(count)}
    routes = {
        link: tuple(
            (column[node] - least, ranks[link[0]] + k) for k, node in enumerate(chain)
        )
        for link, chain in chains.items()
    }  # fmt: skip
    return Placed(ends, routes)


def _ranks(count: int, links: Sequence[Link]) -> list[int]:
    """The longest path to each node; nodes without predecessors are just above their first reader.

    Links may come in any order.
    """
    targets: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * count
    for source, target in links:
        targets[source].append(target)
        waiting[target] += 1
    sources = [node for node in range(count) if not waiting[node]]
    ranks, ready = [0] * count, list(sources)
    while ready:
        node = ready.pop()
        for target in targets[node]:
            ranks[target] = max(ranks[target], ranks[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for node in sources:
        ranks[node] = min((ranks[target] for target in targets[node]), default=1) - 1
    return ranks


def _rows(
    ranks: Sequence[int], links: Sequence[Link]
) -> tuple[list[list[int]], dict[Link, list[int]]]:
    """The nodes of each rank, and the nodes through which each link goes."""
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for node, rank in enumerate(ranks):
        rows[rank].append(node)
    chains: dict[Link, list[int]] = {}
    following = len(ranks)
    for source, target in dict.fromkeys(links):
        chain = [source]
        for rank in range(ranks[source] + 1, ranks[target]):
            rows[rank].append(following)
            chain.append(following)
            following += 1
        chains[source, target] = [*chain, target]
    return rows, chains


def _order(
    rows: Sequence[list[int]], neighbours: Mapping[int, list[int]], column: dict[int, float]
) -> None:
    """Sort each row by the mean place of its neighbours in the row before."""
    for row in rows:
        row.sort(key=lambda node: _wish(node, neighbours, column))
        for k, node in enumerate(row):
            column[node] = float(k)


def _wish(node: int, neighbours: Mapping[int, list[int]], column: Mapping[int, float]) -> float:
    near = neighbours.get(node)
    return sum(column[other] for other in near) / len(near) if near else column[node]


def _settle(
    row: Sequence[int], neighbours: Mapping[int, list[int]], column: dict[int, float], count: int
) -> None:
    """Bring a row as close to its neighbours as its order and the widths allow.

    Least squares: the ascending row closest to the wishes minus the space needed so far.
    """
    space, needed = 0.0, []
    for before, node in zip((None, *row), row, strict=False):
        if before is not None:
            wide = (before < count) + (node < count)
            space += (EDGE_WIDTH, (EDGE_WIDTH + NODE_WIDTH) / 2, NODE_WIDTH)[wide]
        needed.append(space)
    wishes = [_wish(node, neighbours, column) for node in row]
    for node, at, room in zip(row, ascending(wishes, needed), needed, strict=True):
        column[node] = at + room


def ascending(wishes: Sequence[float], needed: Sequence[float]) -> list[float]:
    """The ascending sequence closest to `wishes` minus `needed`: conflicting neighbours share."""
    pools: list[tuple[float, int]] = []
    for wish, room in zip(wishes, needed, strict=True):
        total, size = wish - room, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / size:
            before = pools.pop()
            total, size = total + before[0], size + before[1]
        pools.append((total, size))
    return [total / size for total, size in pools for _ in range(size)]
