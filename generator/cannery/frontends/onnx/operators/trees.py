"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml.

Where the operators' texts leave open what is computed, it is what ONNX Runtime computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.classifiers import (
    ML,
    POST_TRANSFORMS,
    Labels,
    above,
    as_array,
    greatest,
    label_output,
    mirrored,
    post_transform,
    read_labels,
    samples,
)
from cannery.frontends.onnx.operators.forests import MODES, FileForest, FileNode
from cannery.frontends.onnx.operators.values import Value
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Slice
from cannery.ops.trees.forest import Forest
from cannery.ops.trees.op import AGGREGATES, TreeEnsemble

#: The numbers of TreeEnsemble's attributes.
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _numbers(scope: Scope, name: str, *, nan: bool = False) -> Sequence[float]:
    """A list of floats: the attribute, or float64 as a tensor."""
    tensor = as_array(scope, f"{name}_as_tensor")
    given = scope.numbers(name, nan=nan)
    if tensor is None:
        return given
    if given:
        raise ModelError(f"has both {name} and {name}_as_tensor")
    if not nan and np.isnan(tensor).any():
        raise ModelError(f"attribute '{name}_as_tensor' holds NaN")
    return [float(v) for v in tensor.reshape(-1)]


def _as_long(**lists: Sequence[object]) -> int:
    """The length that all lists have; ModelError if they differ."""
    sizes = {name: len(values) for name, values in lists.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise ModelError(f"its lists differ in length: {told}")
    return next(iter(sizes.values()))


@dataclass(frozen=True)
class _Rows:
    """Nodes and leaves of the older operators, as they are listed: (tree, node) is their name."""

    names: Sequence[tuple[int, int]]
    modes: Sequence[str]
    splits: Sequence[float]
    features: Sequence[int]
    missing: Sequence[int]
    after: Sequence[tuple[int, int]]

    def forest(
        self, weights: Mapping[tuple[int, int], dict[int, float]], targets: int
    ) -> FileForest:
        """With links in place of names; ModelError for what does not exist."""
        place: dict[tuple[int, int], int] = {}
        inner = leaves = 0
        for name, mode in zip(self.names, self.modes, strict=True):
            if name in place:
                raise ModelError(f"two nodes of tree {name[0]} have number {name[1]}")
            leaves += mode == "LEAF"
            place[name] = -leaves if mode == "LEAF" else inner
            inner += mode != "LEAF"
        roots = self._roots(place)
        for name in weights:
            if place.get(name, 0) >= 0:
                raise ModelError(f"node {name[1]} of tree {name[0]} has weights, but is no leaf")
        nodes, rows = [], []
        for k, (name, mode) in enumerate(zip(self.names, self.modes, strict=True)):
            if mode == "LEAF":
                alone = {0: self.splits[k]} if targets == 1 else {}
                rows.append(weights.get(name, alone))
            else:
                nodes.append(self._node(k, place))
        return FileForest(nodes, roots, rows, targets)

    def _node(self, k: int, place: Mapping[tuple[int, int], int]) -> FileNode:
        tree, number = self.names[k]
        if self.modes[k] not in MODES[:-1]:
            raise UnsupportedError(f"nodes of mode {self.modes[k]!r:.40} are not supported")
        links: list[int] = []
        for after in self.after[k]:
            if (tree, after) not in place:
                raise ModelError(f"node {number} of tree {tree} leads to {after}, which is missing")
            links.append(place[tree, after])
        missing = bool(self.missing[k]) if self.missing else False
        yes, no = links
        return FileNode(self.features[k], self.modes[k], self.splits[k], missing, yes, no)

    def _roots(self, place: Mapping[tuple[int, int], int]) -> list[int]:
        """The first node of each tree, in the order of the list."""
        firsts: dict[int, tuple[int, int]] = {}
        last: int | None = None
        for name in self.names:
            if name[0] != last and name[0] in firsts:
                raise ModelError(f"the nodes of tree {name[0]} are not in one piece")
            firsts.setdefault(name[0], name)
            last = name[0]
        return [place[name] for name in firsts.values()]


def _rows(scope: Scope) -> _Rows:
    """The attributes `nodes_...` of the older operators."""
    scope.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    trees, numbers = scope.integers("nodes_treeids", ()), scope.integers("nodes_nodeids", ())
    yes, no = scope.integers("nodes_truenodeids", ()), scope.integers("nodes_falsenodeids", ())
    features, modes = scope.integers("nodes_featureids", ()), scope.texts("nodes_modes", ())
    missing = scope.integers("nodes_missing_value_tracks_true", ())
    splits = _numbers(scope, "nodes_values", nan=True)
    count = _as_long(
        nodes_treeids=trees, nodes_nodeids=numbers, nodes_truenodeids=yes, nodes_falsenodeids=no,
        nodes_featureids=features, nodes_modes=modes, nodes_values=splits,
    )  # fmt: skip
    if missing and len(missing) != count:
        raise ModelError(f"has {len(missing)} nodes_missing_value_tracks_true for {count} nodes")
    names, after = list(zip(trees, numbers, strict=True)), list(zip(yes, no, strict=True))
    return _Rows(names, modes, splits, features, missing, after)


def _weights(scope: Scope, kind: str) -> dict[tuple[int, int], dict[int, float]]:
    """What leaves add to targets or classes, from the attributes `<kind>_...`."""
    ids = scope.integers(f"{kind}_ids", ())
    trees, nodes = scope.integers(f"{kind}_treeids", ()), scope.integers(f"{kind}_nodeids", ())
    weights = _numbers(scope, f"{kind}_weights")
    _as_long(**{
        f"{kind}_ids": ids, f"{kind}_treeids": trees, f"{kind}_nodeids": nodes,
        f"{kind}_weights": weights,
    })  # fmt: skip
    found: dict[tuple[int, int], dict[int, float]] = {}
    for target, tree, node, weight in zip(ids, trees, nodes, weights, strict=True):
        leaf = found.setdefault((tree, node), {})
        if target in leaf:
            raise UnsupportedError(f"leaf {node} of tree {tree} has two weights for {target}")
        leaf[target] = weight
    return found


def _ensemble(scope: Scope, x: str, forest: Forest, aggregate: str) -> str:
    """The node of a forest."""
    arrays = {
        "columns": forest.columns, "values": forest.values, "thresholds": forest.thresholds,
        "links": forest.links, "roots": forest.roots, "leaves": forest.leaves, "base": forest.base,
    }  # fmt: skip
    names = [scope.constant(label, array) for label, array in arrays.items()]
    return scope.node(TreeEnsemble(aggregate, forest.strict), [x, *names], "trees")


def _regression(
    scope: Scope, file: FileForest, aggregate: str, base: Sequence[float], post: str
) -> Value:
    """The joined trees; a single target is transformed by PROBIT only."""
    x = samples(scope)
    file.check(scope.type(x).shape[1])
    if base and len(base) != file.targets:
        raise ModelError(f"has {len(base)} base_values for {file.targets} targets")
    base = list(base or [0.0] * file.targets)
    for target, always in enumerate(file.always_scored()):
        if always:
            continue
        if aggregate in ("MIN", "MAX") or base[target]:
            raise UnsupportedError(
                f"some leaves have no weight for target {target}",
                cure="give every leaf a weight for every target",
            )
    absent = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    y = _ensemble(scope, x, file.forest(base, absent), aggregate)
    if file.targets > 1 or post == "PROBIT":
        y = post_transform(scope, y, post)
    return scope.result(y)


@operator("TreeEnsembleRegressor", domain=ML)
def regressor(scope: Scope) -> Value:
    """Versions 1 and 3: lists of nodes."""
    targets = scope.integer("n_targets", 1)
    if targets < 1:
        raise ModelError(f"has {targets} targets")
    aggregate = scope.text("aggregate_function", "SUM", AGGREGATES)
    post = scope.text("post_transform", "NONE", POST_TRANSFORMS)
    file = _rows(scope).forest(_weights(scope, "target"), targets)
    return _regression(scope, file, aggregate, _numbers(scope, "base_values"), post)


@operator("TreeEnsemble", domain=ML)
def ensemble(scope: Scope) -> Value:
    """Version 5: nodes and leaves apart, links by place, modes by number."""
    aggregate = _choice(scope, "aggregate_function", 1, _AGGREGATES)
    post = _choice(scope, "post_transform", 0, POST_TRANSFORMS)
    file = _numbered(scope)
    return _regression(scope, file, aggregate, [], post)


def _choice(scope: Scope, name: str, default: int, choices: Sequence[str]) -> str:
    number = scope.integer(name, default)
    if not 0 <= number < len(choices):
        raise ModelError(f"attribute {name!r} is {number}, not one of 0 to {len(choices) - 1}")
    return choices[number]


def _tensor(scope: Scope, name: str) -> list[float]:
    array = as_array(scope, name)
    if array is None:
        raise ModelError(f"attribute {name!r} is missing")
    return [float(v) for v in array.reshape(-1)]


def _numbered(scope: Scope) -> FileForest:
    """The forest of a TreeEnsemble."""
    scope.ignore("nodes_hitrates")
    targets = scope.integer("n_targets", 1)
    if targets < 1:
        raise ModelError(f"has {targets} targets")
    ids, weights = scope.integers("leaf_targetids"), _tensor(scope, "leaf_weights")
    leaves = _as_long(leaf_targetids=ids, leaf_weights=weights)
    lists = [
        scope.integers(f"nodes_{name}")
        for name in ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    ]
    modes, splits = _tensor(scope, "nodes_modes"), _tensor(scope, "nodes_splits")
    missing = scope.integers("nodes_missing_value_tracks_true", ()) or (0,) * len(modes)
    count = _as_long(
        nodes_featureids=lists[0], nodes_truenodeids=lists[1], nodes_trueleafs=lists[2],
        nodes_falsenodeids=lists[3], nodes_falseleafs=lists[4], nodes_modes=modes,
        nodes_splits=splits, nodes_missing_value_tracks_true=missing,
    )  # fmt: skip

    def link(number: int, leaf: int) -> int:
        if not 0 <= number < (leaves if leaf else count):
            raise ModelError(f"a node leads to {'leaf' if leaf else 'node'} {number}")
        return -1 - number if leaf else number

    sets = _sets(scope, sum(mode == MODES.index("BRANCH_MEMBER") for mode in modes))
    nodes = []
    for k, mode in enumerate(modes):
        if mode not in range(len(MODES)):
            raise ModelError(f"a node has mode {mode:g}")
        name = MODES[int(mode)]
        values = next(sets) if name == "BRANCH_MEMBER" else ()
        feature, yes, yes_leaf, no, no_leaf = (numbers[k] for numbers in lists)
        links = link(yes, yes_leaf), link(no, no_leaf)
        nodes.append(FileNode(feature, name, splits[k], bool(missing[k]), *links, values))
    roots = [link(root, 0) for root in scope.integers("tree_roots")]
    rows = [{target: weight} for target, weight in zip(ids, weights, strict=True)]
    return FileForest(nodes, roots, rows, targets)


def _sets(scope: Scope, count: int) -> Iterator[tuple[float, ...]]:
    """The sets of values of nodes of mode MEMBER, in order; NaN ends each of them."""
    array = as_array(scope, "membership_values")
    found: list[tuple[float, ...]] = []
    values: list[float] = []
    for value in [] if array is None else array.reshape(-1).tolist():
        if value == value:
            values.append(value)
        else:
            found.append(tuple(values))
            values = []
    if values:
        found.append(tuple(values))
    if len(found) != count:
        raise ModelError(f"has {len(found)} sets of values for {count} nodes that need one")
    return iter(found)


@operator("TreeEnsembleClassifier", domain=ML)
def classifier(scope: Scope) -> Sequence[Value]:
    """The label and a score for each class."""
    labels = read_labels(scope, "classlabels_int64s")
    if len(labels) < 2:
        raise UnsupportedError("a classifier of a single class is not supported")
    post = scope.text("post_transform", "NONE", POST_TRANSFORMS)
    base = _numbers(scope, "base_values")
    file = _rows(scope).forest(_weights(scope, "class"), len(labels))
    x = samples(scope)
    file.check(scope.type(x).shape[1])
    if len(base) not in (0, len(labels)) and (len(labels), len(base)) != (2, 1):
        raise ModelError(f"has {len(base)} base_values for {len(labels)} classes")
    if len(labels) == 2:
        return _two_classes(_Classes(scope, x, file, labels, base, post))
    return _many_classes(_Classes(scope, x, file, labels, base, post))


@dataclass(frozen=True)
class _Classes:
    """What a classifier is made from."""

    scope: Scope
    x: str
    file: FileForest
    labels: Labels
    base: Sequence[float]
    post: str

    @property
    def only_positive(self) -> bool:
        """Whether no leaf has a weight below zero."""
        return all(w >= 0.0 for leaf in self.file.leaves for w in leaf.values())

    def only(self, target: int, base: float) -> str:
        """The scores [N, 1] of one class."""
        leaves = [{0: leaf[target]} if target in leaf else {} for leaf in self.file.leaves]
        file = replace(self.file, leaves=leaves, targets=1)
        return _ensemble(self.scope, self.x, file.forest([base]), "SUM")

    def all(self, base: Sequence[float]) -> str:
        """The scores of all classes."""
        return _ensemble(self.scope, self.x, self.file.forest(base), "SUM")

    def column(self, scores: str, first: int, end: int, label: str) -> str:
        """Some of the columns of [N, C]."""
        rows = self.scope.type(scores).shape[0]
        return self.scope.node(Slice((0, first), (rows, end), (1, 1)), [scores], label)


def _two_classes(c: _Classes) -> Sequence[Value]:
    """Weights for one class or for both; the label follows from the score of the second class."""
    scored = {target for leaf in c.file.leaves for target in leaf}
    first, second = c.file.always_scored()
    if not scored:
        raise ModelError("its leaves have no weights")
    if ((0 in scored) != first and len(c.base)) or (1 in scored) != second:
        raise UnsupportedError(
            "some leaves have no weight for one of two classes",
            cure="give every leaf a weight for each of them",
        )
    single = len(scored) == 1
    threshold = 0.5 if single and c.only_positive else 0.0
    if scored == {0} and len(c.base) < 2:
        return _one_column(c, threshold)
    if scored == {1} and len(c.base) == 2:
        raise UnsupportedError("two base_values, with weights for the second class alone")
    if len(c.base) == 2 and not single:  # the second score of the sums is not read
        score = c.only(0, c.base[1])
        scores = mirrored(c.scope, score)
    else:
        ahead = c.base[0] if len(c.base) and 0 in scored else 0.0
        scores = c.all([ahead, 0.0])
        place = 0 if scored == {0} else 1
        score = c.column(scores, place, place + 1, "score")
    labels = c.labels if single or c.labels.names else Labels((0, 1))
    label = label_output(c.scope, above(c.scope, score, threshold), labels)
    return [label, c.scope.result(post_transform(c.scope, scores, c.post))]


def _one_column(c: _Classes, threshold: float) -> Sequence[Value]:
    """Only the first class has weights: they are those of the second one."""
    if c.post == "PROBIT":
        raise UnsupportedError("PROBIT of weights for a single class is not supported")
    score = c.only(0, c.base[0] if len(c.base) else 0.0)
    label = label_output(c.scope, above(c.scope, score, threshold), c.labels)
    if c.post == "LOGISTIC":
        scores = post_transform(c.scope, mirrored(c.scope, score), "LOGISTIC")
    else:
        scores = mirrored(c.scope, score, (1.0, 0.0) if c.only_positive else ())
    return [label, c.scope.result(scores)]


def _many_classes(c: _Classes) -> Sequence[Value]:
    """The class with the greatest score among those that have one."""
    unsure = [k for k, always in enumerate(c.file.always_scored()) if not always]
    count = len(c.labels)
    if len(c.base) or not unsure:
        scores = judged = c.all(c.base or [0.0] * count)
    else:  # further targets count the leaves that have a weight
        leaves = [{**leaf, **{count + k: 1.0 for k in leaf}} for leaf in c.file.leaves]
        file = replace(c.file, leaves=leaves, targets=2 * count)
        both = _ensemble(c.scope, c.x, file.forest([0.0] * (2 * count)), "SUM")
        scores = c.column(both, 0, count, "scores")
        counts = c.column(both, count, 2 * count, "counts")
        some = c.scope.node(Greater(), [counts, c.scope.scalar("none", 0.0)], "scored")
        least = c.scope.constant("least", np.full((1, 1), -np.inf, np.float32))
        judged = c.scope.node(Where(), [some, scores, least], "judged")
    label = label_output(c.scope, greatest(c.scope, judged), c.labels)
    return [label, c.scope.result(post_transform(c.scope, scores, c.post))]
