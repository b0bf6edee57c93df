"""Ensembles of trees as ONNX models, random ones too, and what they compute, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.onnx_models import model, node

ML = "ai.onnx.ml"

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

#: Thresholds and features that are most easily compared wrongly.
SPECIAL = np.array(
    [-1, -0.5, 0, -0.0, 0.25, 1, 2, np.inf, -np.inf, 1e-45, -1e-45, 3e38, 0.1], np.float32
)

F32 = NDArray[np.float32]


def tree_model(
    kind: str, features: int | None, outputs: Sequence[str], samples: int = 1, **attributes: Any
) -> Any:
    """A model of one node of ai.onnx.ml."""
    made = node(kind, ["x"], outputs, domain=ML, **attributes)
    proto = model([made], {"x": [samples, features]}, outputs)
    proto.opset_import.add(domain=ML, version=5 if kind == "TreeEnsemble" else 3)
    return proto


def grow(
    rng: np.random.Generator,
    trees: int,
    depth: int,
    features: int,
    modes: Sequence[str] = MODES,
    missing: bool = True,
) -> dict[str, Any]:
    """Attributes `nodes_...` of random trees; thresholds are SPECIAL."""
    rows: list[tuple[Any, ...]] = []
    for tree in range(trees):
        first = len(rows)

        def plant(left: int, tree: int = tree, first: int = first) -> int:
            at = len(rows)
            rows.append((tree, at - first, 0, 0.0, "LEAF", 0, 0, 0))
            if left and rng.random() > 0.2:
                feature, value = int(rng.integers(features)), float(rng.choice(SPECIAL))
                mode, tracks = str(rng.choice(modes)), int(missing and rng.random() < 0.5)
                yes, no = plant(left - 1), plant(left - 1)
                rows[at] = (tree, at - first, feature, value, mode, yes, no, tracks)
            return at - first

        plant(depth)
    names = "treeids nodeids featureids values modes truenodeids falsenodeids"
    columns = list(zip(*rows, strict=True))
    found = {f"nodes_{n}": list(c) for n, c in zip(names.split(), columns, strict=False)}
    return found | {"nodes_missing_value_tracks_true": list(columns[-1])}


def weigh(
    rng: np.random.Generator, nodes: Mapping[str, Any], targets: int, kind: str = "target"
) -> dict[str, Any]:
    """Attributes `<kind>_...`: a weight of each leaf for each target."""
    keys = zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True)
    rows = [(t, n, k) for t, n, mode in keys if mode == "LEAF" for k in range(targets)]
    weights = rng.normal(size=len(rows)).astype(np.float32)
    return {
        f"{kind}_treeids": [r[0] for r in rows],
        f"{kind}_nodeids": [r[1] for r in rows],
        f"{kind}_ids": [r[2] for r in rows],
        f"{kind}_weights": [float(w) for w in weights],
    }


def samples_of(rng: np.random.Generator, count: int, features: int) -> F32:
    """Samples that lie on thresholds, some without a value."""
    return rng.choice(np.append(SPECIAL, np.float32(np.nan)), (count, features))


def _yes(mode: str, x: np.float32, value: float, tracks: int) -> bool:
    t = np.float32(value)
    answers = (x <= t, x < t, x >= t, x > t, x == t, x != t)
    return bool(answers[MODES.index(mode)] or (tracks and np.isnan(x)))


def plain_scores(attributes: Mapping[str, Any], x: F32, targets: int, kind: str = "target") -> F32:
    """The joined leaves of each sample, tree after tree in float32, as ONNX Runtime joins them."""
    place = {
        key: k
        for k, key in enumerate(
            zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True)
        )
    }
    names = "modes featureids values missing_value_tracks_true truenodeids falsenodeids"
    lists = [attributes[f"nodes_{n}"] for n in names.split()]
    weights = {
        key: np.float32(w)
        for *key_, w in zip(
            *(attributes[f"{kind}_{n}"] for n in ("treeids", "nodeids", "ids", "weights")),
            strict=True,
        )
        if (key := tuple(key_))
    }
    aggregate = attributes.get("aggregate_function", "SUM")
    trees = list(dict.fromkeys(attributes["nodes_treeids"]))
    found = np.zeros((len(x), targets), np.float32)
    for row, sample in zip(found, x, strict=True):
        for number, tree in enumerate(trees):
            at = (tree, 0)
            while lists[0][place[at]] != "LEAF":
                mode, feature, value, tracks, yes, no = (entry[place[at]] for entry in lists)
                at = (tree, yes if _yes(mode, sample[feature], value, tracks) else no)
            for target in range(targets):
                leaf, old = weights[(*at, target)], row[target]
                if aggregate in ("SUM", "AVERAGE"):
                    row[target] = old + leaf
                elif number == 0 or (leaf < old) == (aggregate == "MIN"):
                    row[target] = leaf
    if aggregate == "AVERAGE":
        found /= np.float32(len(trees))
    base = attributes.get("base_values")
    return found + np.array(base, np.float32) if base else found
