"""Trees as bit masks: each tree has a word, with a bit for each leaf that can still be reached.

Per column, thresholds are sorted. Each one that the sample is above of clears the leaves after that
node's yes; the lowest bit that remains is the leaf (QuickScorer, Lucchese et al., SIGIR 2015).
Trees have at most 64 leaves.
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
    column_bytes,
    column_cycles,
    issue,
    wrong_guess,
)
from cannery.ops.trees.columns import Columns, smallest
from cannery.ops.trees.forest import Forest, forest_of
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Params, schedule
from cannery.target.isa import Isa

#: Leaves of the largest tree, and the most trees.
_LEAVES, _TREES = 64, 512

#: Instructions for each threshold that the sample is above of, and for each tree.
_STEP, _TREE = 7.0, 9.0

#: De Bruijn sequences: times a single bit, their upper bits are different for each bit.
_SEQUENCES = {32: 0x077CB531, 64: 0x03F79D71B4CB0A89}


@dataclass(frozen=True)
class Tunables:
    """Columns are `integers` or floats."""

    integers: bool


@schedule
@dataclass(frozen=True)
class TreesMasks(TreeSchedule):
    """See the module docstring."""

    id = "trees.masks"

    def unfit(self, forest: Forest) -> str:
        if not forest.nodes:
            return "no nodes"
        if int(forest.leaf_counts.max()) > _LEAVES:
            return f"a tree has more than {_LEAVES} leaves"
        return f"more than {_TREES} trees" if forest.trees > _TREES else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [as_params(Tunables(integers)) for integers in (True, False)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, forest = typed(Tunables, params), forest_of(graph, step.anchor)
        samples = graph.types[step.output].shape[0]
        wide = 2.0 if word_bits(forest) > isa.bits else 1.0
        steps = wide * forest.nodes / 2.0 * _STEP + wide * forest.trees * _TREE
        made = column_cycles(Columns(forest, p.integers, ""), isa)
        price = 1.0 if p.integers else 1.5 if isa.is_small else 1.0
        cycles = steps / issue(isa) * price + len(forest.columns) * wrong_guess(isa) + made
        return Estimate(samples * cycles, 200.0)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        forest = forest_of(graph, step.anchor)
        return forest.nodes * (5.0 + word_bits(forest) / 8.0) + 4.0 * forest.leaves.size

    def more_bytes(self, forest: Forest) -> int:
        return word_bits(forest) // 8 * forest.trees

    def write(self, walk: Walk, job: Job) -> str:
        _write(walk)
        return ""


def word_bits(forest: Forest) -> int:
    """Bits of the word of a tree."""
    return 32 if int(forest.leaf_counts.max()) <= 32 else 64


@dataclass(frozen=True)
class Tables:
    """Thresholds in the order of columns and values, with their trees and masks; `starts` has the
    first of each column, and the end. `leaves` are those of all trees, `firsts` where each begins.
    """

    thresholds: NDArray[np.generic]
    trees: NDArray[np.generic]
    masks: NDArray[np.generic]
    starts: NDArray[np.generic]
    leaves: NDArray[np.int64]
    firsts: NDArray[np.generic]


def make_tables(forest: Forest, columns: Columns) -> Tables:
    """The tables of a forest whose trees have few leaves."""
    masks, trees, leaves = _masks(forest)
    column = forest.links[:, 0]
    order = np.lexsort((np.arange(forest.nodes), columns.thresholds, column))
    counts = np.bincount(column, minlength=len(forest.columns))
    starts = np.concatenate([[0], np.cumsum(counts)])
    kind = np.uint32 if word_bits(forest) == 32 else np.uint64
    words = np.array([masks[k] for k in order], kind)
    firsts = np.concatenate([[0], np.cumsum(forest.leaf_counts)[:-1]])
    return Tables(
        columns.thresholds[order], smallest(trees[order]), words, smallest(starts),
        np.array(leaves, np.int64), smallest(firsts),
    )  # fmt: skip


def _masks(forest: Forest) -> tuple[list[int], NDArray[np.int64], list[int]]:
    """Mask and tree of each node, and the leaves of all trees from yes to no."""
    every = (1 << word_bits(forest)) - 1
    masks, trees, leaves = [every] * forest.nodes, np.zeros(forest.nodes, np.int64), list[int]()
    for tree, root in enumerate(forest.roots.tolist()):
        first = len(leaves)
        waiting: list[tuple[int, int | None]] = [(root, None)]
        while waiting:
            node, begin = waiting.pop()
            if node < 0:
                leaves.append(-1 - node)
            elif begin is None:  # first all after yes, then the mask, then all after no
                trees[node] = tree
                _, yes, no = (int(v) for v in forest.links[node])
                waiting += [(no, None), (node, len(leaves) - first), (yes, None)]
            else:
                end = len(leaves) - first
                masks[node] = every & ~((1 << end) - (1 << begin))
    return masks, trees, leaves


def _write(walk: Walk) -> None:
    """Clear bits column by column, then find the leaf of each tree."""
    c, forest, columns = walk.c, walk.forest, walk.columns
    tables, bits = make_tables(forest, columns), word_bits(forest)
    thresholds = c.table(tables.thresholds, "thresholds in the order of columns and values")
    trees = c.table(tables.trees, "their trees")
    masks = c.table(tables.masks, "the leaves that remain above them")
    starts = c.table(tables.starts, "the first threshold of each column")
    word = f"uint{bits}_t"
    c(f"{word} *const left = ({word} *)(scratch + {column_bytes(columns) // 4});")
    with c.block(f"for (int t = 0; t < {forest.trees}; ++t)"):
        c(f"left[t] = ~({word})0;")
    if columns.direct:
        features = c.table(smallest(columns.numbers), "features of columns")
    place = f"xr[{features}[j]]" if columns.direct else "k[j]"
    with c.block(f"for (int j = 0; j < {len(forest.columns)}; ++j)"):
        c(f"const {columns.type} v = {place};")
        c(f"const uint32_t end = {starts}[j + 1];")
        c(f"uint32_t n = {starts}[j];")
        with c.block(f"while (n < end && ({columns.no('v', f'{thresholds}[n]')}))"):
            c(f"left[{trees}[n]] &= {masks}[n];")
            c("++n;")
    _write_leaves(walk, tables, bits)


def _write_leaves(walk: Walk, tables: Tables, bits: int) -> None:
    c, forest, word = walk.c, walk.forest, f"uint{bits}_t"
    firsts = c.table(tables.firsts, "the first leaf of each tree")
    sequence, shift = _SEQUENCES[bits], bits - bits.bit_length() + 1
    position = np.zeros(bits, np.uint8)
    for bit in range(bits):
        position[(sequence << bit & (1 << bits) - 1) >> shift] = bit
    positions = c.table(position, "bits by the upper bits of their product")
    if forest.targets == 1:
        leaves = c.table(forest.leaves[tables.leaves, 0], "leaves")
    else:
        leaves = c.table(smallest(walk.rows[1][tables.leaves] * forest.targets), "rows of leaves")
    with c.block(f"for (int t = 0; t < {forest.trees}; ++t)"):
        c(f"const {word} lowest = left[t] & (0u - left[t]);")
        suffix = "u" if bits == 32 else "ull"
        c(f"const {word} upper = ({word})(lowest * 0x{sequence:x}{suffix}) >> {shift};")
        at = f"{leaves}[{firsts}[t] + {positions}[upper]]"
        if forest.targets == 1:
            c(walk.joined("s", at))
        else:
            walk.add_row(at)
