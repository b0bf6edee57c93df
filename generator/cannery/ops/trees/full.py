"""Trees as if all had the same depth, so that the number of a node follows from its parent's.

The nodes after node n are 2 n (yes) and 2 n + 1 (no); the first one is 1. Leaves above the last
level are repeated below. There is neither a branch nor a table of links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ops.trees.base import (
    TreeSchedule,
    Walk,
    column_cycles,
    step_cycles,
    together_counts,
)
from cannery.ops.trees.columns import Columns, smallest
from cannery.ops.trees.forest import Forest, forest_of
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Params, schedule
from cannery.target.isa import Isa

#: The deepest trees, and how many times more entries than nodes the tables may have.
_DEEPEST, _MORE = 10, 8

#: Instructions of a step from node to node.
_STEP = 5.5


@dataclass(frozen=True)
class Tunables:
    """Trees that walk `together`; columns are `integers` or floats."""

    together: int
    integers: bool


@schedule
@dataclass(frozen=True)
class TreesFull(TreeSchedule):
    """See the module docstring."""

    id = "trees.full"

    def unfit(self, forest: Forest) -> str:
        depth = int(forest.depths.max())
        if not 1 <= depth <= _DEEPEST:
            return f"the deepest tree has depth {depth}"
        large = forest.trees << depth > _MORE * (forest.nodes + forest.trees)
        return "the depths of the trees differ too much" if large else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        counts = together_counts(forest_of(graph, step.anchor).trees)
        return [as_params(Tunables(n, k)) for n in counts for k in (True, False)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, forest = typed(Tunables, params), forest_of(graph, step.anchor)
        samples, depth = graph.types[step.output].shape[0], int(forest.depths.max())
        price = _price(p.integers, isa)
        size = self.constant_bytes(graph, step, params, isa)
        work = price * _STEP
        rest = forest.trees % p.together
        together, alone = (depth * step_cycles(isa, work, n, size) + 2.0 for n in (p.together, 1))
        made = column_cycles(Columns(forest, p.integers, ""), isa)
        cycles = (forest.trees - rest) * together + rest * alone + made
        return Estimate(samples * cycles, 2.0 * depth * p.together)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        forest = forest_of(graph, step.anchor)
        entries = forest.trees << int(forest.depths.max())
        rows = 4.0 * forest.leaves.size if forest.targets > 1 else 0.0
        return 9.0 * entries + rows

    def write(self, walk: Walk, job: Job) -> str:
        _Writer(walk, typed(Tunables, job.params).together).write()
        return ""


def _price(integers: bool, isa: Isa) -> float:
    """How much longer a step takes than the faster of integers and floats: floats on processors
    without a unit for them; elsewhere compilers make more of their comparisons.
    """
    if isa.is_small:
        return 1.0 if integers else 3.0
    return 1.25 if integers else 1.0


@dataclass(frozen=True)
class Tables:
    """Of each tree 2^depth entries: thresholds and columns of the nodes (the first is unused), and
    the numbers of the leaves.
    """

    thresholds: NDArray[np.generic]
    columns: NDArray[np.generic]
    leaves: NDArray[np.int64]


def make_tables(forest: Forest, columns: Columns) -> Tables:
    """The tables, level by level."""
    depth = int(forest.depths.max())
    size = 1 << depth
    thresholds = np.zeros((forest.trees, size), columns.thresholds.dtype)
    numbers = np.zeros((forest.trees, size), np.int64)
    level = forest.roots.astype(np.int64).reshape(-1, 1)
    for _ in range(depth):
        first = level.shape[1]
        inner = level >= 0
        nodes = np.where(inner, level, 0)
        thresholds[:, first : 2 * first] = np.where(inner, columns.thresholds[nodes], 0)
        used = columns.numbers[forest.links[nodes, 0]]
        numbers[:, first : 2 * first] = np.where(inner, used, 0)
        after = [np.where(inner, forest.links[nodes, k], level) for k in (1, 2)]
        level = np.stack(after, axis=2).reshape(forest.trees, -1)
    return Tables(thresholds, smallest(numbers), -1 - level)


class _Writer:
    """Writes the loops over trees."""

    def __init__(self, walk: Walk, together: int) -> None:
        self._walk, self._together = walk, together
        self._depth = int(walk.forest.depths.max())
        tables = make_tables(walk.forest, walk.columns)
        c = walk.c
        self._thresholds = c.table(tables.thresholds, "thresholds, tree by tree")
        self._column_type = f"{tables.columns.dtype}_t"
        self._columns = c.table(tables.columns, "columns, tree by tree")
        if walk.forest.targets == 1:
            values = walk.forest.leaves[tables.leaves.reshape(-1), 0]
            self._leaves = c.table(values, "leaves, tree by tree")
        else:
            places = walk.rows[1][tables.leaves.reshape(-1)] * walk.forest.targets
            self._leaves = c.table(smallest(places), "rows of the leaves, tree by tree")

    def write(self) -> None:
        """Groups of trees, then those that are left, one by one."""
        c, n, trees = self._walk.c, self._together, self._walk.forest.trees
        grouped = trees // n * n
        with c.block(
            f"for (uint32_t t = 0; t < {grouped << self._depth}u; t += {n << self._depth}u)"
        ):
            self._group(n)
        if grouped < trees:
            first, end = grouped << self._depth, trees << self._depth
            with c.block(f"for (uint32_t t = {first}u; t < {end}u; t += {1 << self._depth}u)"):
                self._group(1)

    def _group(self, n: int) -> None:
        """Pointers to the trees, so that no sum of offsets may wrap around: that would have to be
        computed in a register of its own.
        """
        c, size, walk = self._walk.c, 1 << self._depth, self._walk
        c(f"const {walk.columns.type} *const limits = {self._thresholds} + t;")
        c(f"const {self._column_type} *const places = {self._columns} + t;")
        for g in range(n):
            root = g * size + 1
            no = walk.columns.no(f"{walk.k}[places[{root}]]", f"limits[{root}]")
            c(f"uint32_t n{g} = 2u + (({no}) ? 1u : 0u);")
        for _ in range(self._depth - 1):
            for g in range(n):
                place = f"({{}} + {g * size})[n{g}]" if g else "{}[n0]"
                column, limit = place.format("places"), place.format("limits")
                no = walk.columns.no(f"{walk.k}[{column}]", limit)
                c(f"n{g} = n{g} + n{g} + (({no}) ? 1u : 0u);")
        for g in range(n):
            self._add(f"{self._leaves}[t + n{g}{_signed((g - 1) * size)}]")

    def _add(self, leaf: str) -> None:
        walk = self._walk
        if walk.forest.targets == 1:
            walk.c(walk.joined("s", leaf))
        else:
            walk.add_row(leaf)


def _signed(number: int) -> str:
    """` + 5u`, ` - 5u` or nothing."""
    return f" {'-' if number < 0 else '+'} {abs(number)}u" if number else ""
