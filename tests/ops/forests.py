"""Random ensembles of trees, as the constant inputs of a TreeEnsemble."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.trees.forest import Column, Forest
from cannery.ops.trees.op import TreeEnsemble


@dataclass
class Growth:
    """How trees grow: `full` ones to `depth`, others stop anywhere before.

    `kinds` are the columns that nodes may ask for; `steps`: thresholds are multiples of 1 / steps.
    """

    trees: int
    depth: int
    features: int
    targets: int = 1
    full: bool = False
    kinds: tuple[Column, ...] = (Column.VALUE,)
    strict: bool = False
    seed: int = 0
    steps: int = 8
    rows: int = 0
    nodes: list[tuple[int, float, int, int]] = field(default_factory=list)
    leaves: list[list[float]] = field(default_factory=list)

    def grow(self) -> Forest:
        """The forest."""
        rng = np.random.default_rng(self.seed)
        columns, values = self._columns(rng)
        roots = [self._node(rng, self.depth, columns) for _ in range(self.trees)]
        return Forest(
            np.array(columns, np.int32).reshape(-1, 4),
            np.array(values, np.float32),
            np.array([n[1] for n in self.nodes], np.float32),
            np.array([(n[0], n[2], n[3]) for n in self.nodes], np.int32).reshape(-1, 3),
            np.array(roots, np.int32),
            np.array(self.leaves, np.float32).reshape(-1, self.targets),
            np.arange(self.targets).astype(np.float32),
            self.strict,
        )

    def _columns(self, rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[float]]:
        values: list[float] = []
        found: list[tuple[int, ...]] = []
        for kind in sorted(self.kinds):
            for feature in range(self.features):
                start = len(values)
                if kind.is_member:
                    values += rng.choice(np.arange(-4, 5) / 4, 3, replace=False).tolist()
                found.append((feature, int(kind), start, len(values)))
        return found, values

    def _node(self, rng: np.random.Generator, depth: int, columns: list[tuple[int, ...]]) -> int:
        stops = not self.full and rng.random() < 0.2
        if depth == 0 or stops:
            same = self.rows and len(self.leaves) >= self.rows
            row = self.leaves[int(rng.integers(len(self.leaves)))] if same else None
            self.leaves.append(row or rng.normal(size=self.targets).tolist())
            return -len(self.leaves)
        at = len(self.nodes)
        column = int(rng.integers(len(columns)))
        threshold = float(rng.integers(-self.steps, self.steps)) / self.steps
        if Column(columns[column][1]).is_member:
            threshold = 0.5
        self.nodes.append((column, threshold, 0, 0))
        after = [self._node(rng, depth - 1, columns) for _ in range(2)]
        self.nodes[at] = (column, threshold, *after)
        return at


def add_forest(net: GraphBuilder, x: str, forest: Forest, aggregate: str = "SUM") -> str:
    """A TreeEnsemble as a node of a graph; returns its output."""
    arrays = [
        forest.columns, forest.values, forest.thresholds, forest.links, forest.roots,
        forest.leaves, forest.base,
    ]  # fmt: skip
    names = [net.constant(f"forest{k}", array) for k, array in enumerate(arrays)]
    return net.node(TreeEnsemble(aggregate, forest.strict), [x, *names], name="trees")


def forest_graph(growth: Growth, samples: int = 1, aggregate: str = "SUM") -> Graph:
    """A graph of one ensemble."""
    net = GraphBuilder("forest")
    x = net.input("x", (samples, growth.features), DType.FLOAT32)
    y = add_forest(net, x, replace(growth, nodes=[], leaves=[]).grow(), aggregate)
    net.output(y)
    return net.build()
