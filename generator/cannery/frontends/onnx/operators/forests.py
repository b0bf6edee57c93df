"""Ensembles of trees as ONNX files hold them, checked, and made into a `Forest`.

Each mode of a node becomes a question whether a column is at most a threshold: what differs is the
order of the answers, the last bit of the threshold, and where NaN goes. Sets of values, which files
may hold as chains of comparisons, become columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.ops.trees.forest import Column, Forest

#: Most nodes and leaves, also after parts that several nodes lead to were repeated.
MAX_NODES = 2_000_000

#: Most numbers in leaves.
MAX_LEAF_NUMBERS = 2**25

MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
    "BRANCH_MEMBER",
)  # fmt: skip

#: Modes of which one threshold for `<` is enough.
_STRICT = frozenset({"BRANCH_LT", "BRANCH_GTE"})
_SETS = frozenset({"BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"})
#: Modes whose answers change places.
_TURNED = frozenset({"BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"})


@dataclass(frozen=True)
class FileNode:
    """An inner node of a file. Links below zero are leaves: -1 - link. `values`: of a set."""

    feature: int
    mode: str
    split: float
    missing: bool
    yes: int
    no: int
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class FileForest:
    """An ensemble of a file: nodes, roots, and what each leaf adds to which target."""

    nodes: Sequence[FileNode]
    roots: Sequence[int]
    leaves: Sequence[Mapping[int, float]]
    targets: int

    def check(self, features: int) -> None:
        """ModelError for a cycle, nodes that nothing leads to, or targets and features that do not
        exist.
        """
        for node in self.nodes:
            if not 0 <= node.feature < features:
                raise ModelError(f"a node reads feature {node.feature} of {features}")
        for leaf in self.leaves:
            for target in leaf:
                if not 0 <= target < self.targets:
                    raise ModelError(f"a leaf has target {target} of {self.targets}")
        if not self.roots:
            raise ModelError("it has no trees")
        if len(self.leaves) * self.targets > MAX_LEAF_NUMBERS:
            raise UnsupportedError(f"its leaves hold more than {MAX_LEAF_NUMBERS} numbers")
        reached = self._reached()
        if reached < len(self.nodes):
            raise ModelError(f"nothing leads to {len(self.nodes) - reached} of its nodes")

    def _reached(self) -> int:
        """How many nodes there is a way to; ModelError for a cycle."""
        state = bytearray(len(self.nodes))  # 1: on the way from a root, 2: done
        count = 0
        for root in self.roots:
            waiting = [root] if root >= 0 else []
            while waiting:
                at = waiting[-1]
                if state[at]:
                    state[at] = 2
                    waiting.pop()
                    continue
                state[at] = 1
                count += 1
                for link in (self.nodes[at].no, self.nodes[at].yes):
                    if link >= 0 and state[link] == 1:
                        raise ModelError("its nodes form a cycle")
                    if link >= 0 and not state[link]:
                        waiting.append(link)
        return count

    @cached_property
    def strict(self) -> bool:
        """Whether all comparisons are < or >=."""
        modes = {node.mode for node in self.nodes} - _SETS
        return bool(modes) and modes <= _STRICT

    def always_scored(self) -> list[bool]:
        """For each target whether every sample reaches a leaf that adds to it."""
        found = [False] * self.targets
        for root in self.roots:
            common: set[int] | None = None
            waiting, seen = [root], set[int]()
            while waiting and common != set():
                link = waiting.pop()
                if link < 0:
                    scored = set(self.leaves[-1 - link])
                    common = scored if common is None else common & scored
                elif link not in seen:
                    seen.add(link)
                    waiting += [self.nodes[link].yes, self.nodes[link].no]
            for target in common or ():
                found[target] = True
        return found

    def forest(self, base: Sequence[float], absent: float = 0.0) -> Forest:
        """The arrays; `absent` is what a leaf adds to other targets."""
        return _Maker(self, absent).forest(base)


def split_bounds(splits: NDArray[np.float64], modes: Sequence[str], strict: bool) -> list[float]:
    """The float32 thresholds of nodes; NaN for questions that no number answers with yes.

    x <= t for a float64 t means x <= the greatest float32 up to t, x < t that x is less than the
    least one from t on; that again is x <= the one before it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = splits.astype(np.float32)
        down = np.where(near > splits, np.nextafter(near, np.float32(-np.inf)), near)
        up = np.where(near < splits, np.nextafter(near, np.float32(np.inf)), near)
        below = np.nextafter(up, np.float32(-np.inf))
    less = np.array([mode in _STRICT for mode in modes], bool)
    never = np.isnan(splits) | (less & (up == -np.inf))
    found = np.where(less, up if strict else below, down)
    return [float(v) for v in np.where(never, np.float32(np.nan), found)]


@dataclass
class _Maker:
    """Makes a forest: each node that several lead to is made for each of them."""

    file: FileForest
    absent: float
    columns: dict[tuple[int, Column, tuple[float, ...]], int] = field(default_factory=dict)
    nodes: list[list[int]] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)

    def forest(self, base: Sequence[float]) -> Forest:
        """The arrays, columns sorted by their kind."""
        file = self.file
        splits = np.array([node.split for node in file.nodes], np.float64)
        modes = [node.mode for node in file.nodes]
        self._bounds = split_bounds(splits, modes, file.strict)
        roots = [self._copy(root) for root in file.roots]
        keys = sorted(self.columns, key=lambda key: (key[1], key[0], key[2]))
        number = {self.columns[key]: k for k, key in enumerate(keys)}
        values: list[float] = []
        columns = []
        for feature, kind, members in keys:
            columns.append((feature, int(kind), len(values), len(values) + len(members)))
            values += members
        links = np.array(self.nodes, np.int32).reshape(-1, 3)
        links[:, 0] = [number[int(c)] for c in links[:, 0]]
        rows = np.full((len(self.leaves), file.targets), self.absent, np.float32)
        for row, leaf in enumerate(self.leaves):
            for target, weight in file.leaves[leaf].items():
                rows[row, target] = weight
        return Forest(
            np.array(columns, np.int32).reshape(-1, 4), np.array(values, np.float32),
            np.array(self.thresholds, np.float32), links, np.array(roots, np.int32), rows,
            np.array(base, np.float32), file.strict,
        )  # fmt: skip

    def _copy(self, root: int) -> int:
        """The number of a copy of all that a link leads to."""
        top = [0, 0, 0]
        waiting = [(root, top, 1)]
        while waiting:
            link, parent, place = waiting.pop()
            if len(self.nodes) + len(self.leaves) >= MAX_NODES:
                what = f"its trees have more than {MAX_NODES} nodes"
                raise UnsupportedError(what, cure="train fewer or smaller trees")
            if link < 0:
                self.leaves.append(-1 - link)
                parent[place] = -len(self.leaves)
                continue
            column, threshold, yes, no = self._question(link)
            node = [column, 0, 0]
            parent[place] = len(self.nodes)
            self.nodes.append(node)
            self.thresholds.append(threshold)
            waiting += [(no, node, 2), (yes, node, 1)]
        return top[1]

    def _question(self, link: int) -> tuple[int, float, int, int]:
        """Column and threshold of a node, and the links after yes and no."""
        node, bound = self.file.nodes[link], self._bounds[link]
        turned = node.mode in _TURNED
        yes, no = node.yes, node.no
        values: tuple[float, ...] = ()
        never = bound != bound
        if node.mode in _SETS:
            values, no = self._members(node)
        # A turned question answers NaN the other way: x > t becomes not x <= t.
        nan_is_yes = node.missing != turned
        if node.mode == "BRANCH_NEQ":
            nan_is_yes = False
        if node.mode in _SETS or never:
            kind = Column.MEMBER_OR_NAN if nan_is_yes else Column.MEMBER
            bound = 0.5
        else:
            kind = Column.VALUE_OR_NAN if nan_is_yes else Column.VALUE
        key = (node.feature, kind, values)
        column = self.columns.setdefault(key, len(self.columns))
        return (column, bound, no, yes) if turned else (column, bound, yes, no)

    def _members(self, node: FileNode) -> tuple[tuple[float, ...], int]:
        """The set of a node, and the link after no: chains of = that end alike are one set."""
        found = list(node.values) if node.mode == "BRANCH_MEMBER" else [node.split]
        after = node.no
        while node.mode == "BRANCH_EQ" and after >= 0:
            other = self.file.nodes[after]
            same = (other.feature, other.mode, other.missing, other.yes)
            if same != (node.feature, node.mode, node.missing, node.yes):
                break
            found.append(other.split)
            after = other.no
        exact = {v for v in found if float(np.float32(v)) == v}
        return tuple(sorted(exact)), after
