"""Trees as tables of nodes; those of all trees lie together, level by level.

A node has a threshold, a column and the place of the node after yes; that after no is the next one.
Leaves lead to themselves: trees that walk `together` take the steps of the deepest of them, without
a branch. One alone stops at its leaf. A leaf of a single target is its own threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ops.scalar.body import Body
from cannery.ops.trees.base import (
    TreeSchedule,
    Walk,
    column_cycles,
    step_cycles,
    together_counts,
    wrong_guess,
)
from cannery.ops.trees.columns import Columns, smallest
from cannery.ops.trees.forest import Forest, forest_of
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Params, schedule
from cannery.target.isa import Isa

#: Instructions of a step from node to node.
_STEP = 9.0

#: Of so many steps, a processor that guesses branches does not foresee where trees end.
_LEARNED = 100.0


@dataclass(frozen=True)
class Tunables:
    """Trees that walk `together`; columns are `integers` or floats."""

    together: int
    integers: bool


@schedule
@dataclass(frozen=True)
class TreesWalk(TreeSchedule):
    """See the module docstring."""

    id = "trees.walk"
    spare = True

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        counts = together_counts(forest_of(graph, step.anchor).trees)
        return [as_params(Tunables(n, k)) for n in counts for k in (True, False)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, forest = typed(Tunables, params), forest_of(graph, step.anchor)
        samples = graph.types[step.output].shape[0]
        columns = Columns(forest, p.integers, "", spare=True)
        size = self.constant_bytes(graph, step, params, isa)
        cycles = column_cycles(columns, isa) + _walking(forest, p.together, size, isa)
        return Estimate(samples * cycles * _float_price(p.integers, isa), 2.0 * p.together)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        forest = forest_of(graph, step.anchor)
        rows = 4.0 * forest.leaves.size if forest.targets > 1 else 0.0
        return 8.0 * (forest.nodes + len(forest.leaves)) + rows

    def write(self, walk: Walk, job: Job) -> str:
        p = typed(Tunables, job.params)
        _Writer(walk, p.together).write()
        return ""


def _float_price(integers: bool, isa: Isa) -> float:
    """How much longer floats take: a small processor may have no floating-point unit."""
    return 1.0 if integers else 3.0 if isa.is_small else 1.15


def _walking(forest: Forest, together: int, size: float, isa: Isa) -> float:
    """Cycles of the steps of all trees."""
    grouped = 0 if together == 1 else forest.trees // together * together
    depths = forest.depths[:grouped].reshape(-1, together).max(axis=1)
    each = step_cycles(isa, _STEP, together, size)
    rounds = float((together * (depths * each + 2.0)).sum())
    if len(set(depths.tolist())) > 1:
        rounds += 0.5 * wrong_guess(isa) * len(depths)
    rest = forest.mean_depths[grouped:]
    steps = float(forest.mean_depths.sum())
    ends = wrong_guess(isa) * (1.0 if isa.is_small else min(1.0, steps / _LEARNED))
    return rounds + float((rest * step_cycles(isa, _STEP, 1, size) + ends).sum())


@dataclass(frozen=True)
class Tables:
    """All nodes and leaves in the order of their levels, the roots first."""

    thresholds: NDArray[np.generic]
    columns: NDArray[np.generic]
    after: NDArray[np.generic]


def make_tables(walk: Walk) -> Tables:
    """The tables, one entry for each node and leaf."""
    forest, columns = walk.forest, walk.columns
    order = _by_levels(forest)
    inner = order >= 0
    nodes = order[inner]
    payload = _payload(walk)
    thresholds = np.empty(len(order), payload.dtype)
    thresholds[inner] = columns.thresholds[nodes]
    thresholds[~inner] = payload[-1 - order[~inner]]
    column = np.full(len(order), columns.spare_column, np.int64)
    column[inner] = columns.numbers[forest.links[nodes, 0]]
    after = np.arange(len(order))
    after[inner] = forest.trees + 2 * np.arange(len(nodes))
    return Tables(thresholds, smallest(column), smallest(after))


def _by_levels(forest: Forest) -> NDArray[np.int64]:
    """Nodes and leaves (below zero): the roots, then both children of each node, in order."""
    level = forest.roots.astype(np.int64)
    found = [level]
    while (level >= 0).any():
        level = forest.links[level[level >= 0], 1:].reshape(-1).astype(np.int64)
        found.append(level)
    return np.concatenate(found)


def _payload(walk: Walk) -> NDArray[np.generic]:
    """What the threshold of each leaf holds: its value, or the place of its row."""
    if walk.forest.targets == 1:
        values = np.ascontiguousarray(walk.forest.leaves[:, 0], np.float32)
        return values.view(np.uint32) if walk.columns.integers else values
    places = walk.rows[1] * walk.forest.targets
    return places.astype(np.uint32 if walk.columns.integers else np.float32)


class _Writer:
    """Writes the loops over trees."""

    def __init__(self, walk: Walk, together: int) -> None:
        self._walk, self._together = walk, together
        tables = make_tables(walk)
        c = walk.c
        self._thresholds = c.table(tables.thresholds, "nodes: thresholds, and what leaves hold")
        self._columns = c.table(tables.columns, "nodes: columns")
        self._after = c.table(tables.after, "nodes: the node after yes")

    def write(self) -> None:
        """The groups, then the trees that are left."""
        walk, n = self._walk, self._together
        trees = walk.forest.trees
        grouped = 0 if n == 1 else trees // n * n
        if grouped:
            depths = walk.forest.depths[:grouped].reshape(-1, n).max(axis=1)
            with walk.c.block(f"for (uint32_t t = 0; t < {grouped}u; t += {n}u)"):
                self._group(depths)
        if grouped < trees:
            with walk.c.block(f"for (uint32_t t = {grouped}u; t < {trees}u; ++t)"):
                self._alone()

    def _group(self, depths: NDArray[np.int32]) -> None:
        c, n = self._walk.c, self._together
        for g in range(n):
            c(f"uint32_t n{g} = t{f' + {g}u' if g else ''};")
        end = str(depths[0])
        if (depths != depths[0]).any():
            name = c.table(smallest(depths), "steps of each group of trees")
            end = f"(int){name}[t / {n}u]"
        with c.block(f"for (int d = {end}; d > 0; --d)"):
            for g in range(n):
                self._step(c, f"n{g}")
        for g in range(n):
            self._add(f"n{g}")

    def _alone(self) -> None:
        c, spare = self._walk.c, self._walk.columns.spare_column
        c("uint32_t n = t;")
        with c.block(f"while ({self._columns}[n] != {spare}u)"):
            self._step(c, "n")
        self._add("n")

    def _step(self, c: Body, n: str) -> None:
        no = self._walk.columns.no(f"k[{self._columns}[{n}]]", f"{self._thresholds}[{n}]")
        c(f"{n} = (uint32_t){self._after}[{n}] + (({no}) ? 1u : 0u);")

    def _add(self, n: str) -> None:
        walk, held = self._walk, f"{self._thresholds}[{n}]"
        if walk.forest.targets > 1:
            walk.add_row(f"(int){held}")
            return
        if not walk.columns.integers:
            walk.c(walk.joined("s", held))
            return
        with walk.c.block(""):
            walk.c("float leaf;")
            walk.c(f"memcpy(&leaf, &{held}, sizeof leaf);")
            walk.c(walk.joined("s", "leaf"))
