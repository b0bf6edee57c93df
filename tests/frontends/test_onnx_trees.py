"""Ensembles of trees of ai.onnx.ml: bit by bit what ONNX Runtime computes, by every schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.onnx.operators import forests
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.trees.base import TreeSchedule
from cannery.ops.trees.forest import Column, Forest
from cannery.ops.trees.full import TreesFull
from cannery.ops.trees.if_else import TreesIfElse
from cannery.ops.trees.masks import TreesMasks
from cannery.ops.trees.walk import TreesWalk
from cannery.target.toolchain import toolchain_for
from frontends.onnx_models import load, onnx
from frontends.onnx_programs import Program, run_programs
from frontends.tree_models import MODES, grow, plain_scores, samples_of, tree_model, weigh
from needs import need_program, need_runner

SCHEDULES: dict[str, type[TreeSchedule]] = {
    "walk": TreesWalk, "full": TreesFull, "if_else": TreesIfElse, "masks": TreesMasks,
}  # fmt: skip

STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip


def _random(seed: int) -> tuple[dict[str, Any], int, int]:
    """Attributes of a TreeEnsembleRegressor, its features and targets."""
    rng = np.random.default_rng(seed)
    features, targets = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    modes = (MODES, MODES[:1], MODES[1:2], MODES[1:3], MODES[3:4])[seed % 5]
    nodes = grow(rng, int(rng.integers(1, 12)), seed % 6, features, modes, seed % 3 > 0)
    aggregate = ("SUM", "SUM", "AVERAGE", "MIN", "MAX")[seed // 2 % 5]
    base = {"base_values": [float(v) for v in rng.normal(size=targets).astype(np.float32)]}
    given = {**nodes, **weigh(rng, nodes, targets), "n_targets": targets}
    return given | {"aggregate_function": aggregate} | (base if seed % 2 else {}), features, targets


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_finds_the_leaves_that_nodes_lead_to(
    name: str, integers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("ninja", "ninja-build")
    tried = SCHEDULES[name]
    for other in SCHEDULES.values():
        if other not in (tried, TreesWalk):
            monkeypatch.setattr(other, "unfit", lambda self, forest: "another one is tried")
    monkeypatch.setattr(TreesWalk, "cost", _dear) if tried is not TreesWalk else None
    only = tried.candidates

    def some(self: Any, *given: Any) -> Any:
        return [c for c in only(self, *given) if c["integers"] is integers]

    monkeypatch.setattr(tried, "candidates", some)
    cases, expected = [], []
    for seed in range(24):
        attributes, features, targets = _random(seed)
        proto = tree_model("TreeEnsembleRegressor", features, ["y"], 30, **attributes)
        x = samples_of(np.random.default_rng(seed), 30, features)
        cases.append(Program(str(seed), load(tmp_path, proto), {"x": x}))
        expected.append(plain_scores(attributes, x, targets))
    toolchain = toolchain_for("generic")
    results = run_programs(cases, toolchain, need_runner(toolchain))
    for found, scores in zip(results, expected, strict=True):
        assert not found.fault
        assert np.array_equal(found.outputs[0], scores), found.name


def _dear(self: Any, *given: Any) -> Any:
    from cannery.schedule.schedule import Estimate

    return Estimate(1e12)


def _evaluated(folder: Path, kind: str, outputs: Sequence[str], x: Any, **given: Any) -> list[Any]:
    x = np.asarray(x, np.float32)
    graph = load(folder, tree_model(kind, x.shape[1], outputs, len(x), **given))
    return list(evaluate(graph, {"x": x}).values())


@pytest.mark.parametrize("seed", range(10))
def test_regressors(seed: int, tmp_path: Path) -> None:
    attributes, features, targets = _random(seed)
    x = samples_of(np.random.default_rng(seed), 40, features)
    (y,) = _evaluated(tmp_path, "TreeEnsembleRegressor", ["y"], x, **attributes)
    assert np.allclose(y, plain_scores(attributes, x, targets), rtol=1e-6, atol=1e-6)


#: What ONNX Runtime 1.32 answers for two leaves: weights of the classes of each, base values,
#: labels and scores. The labels are 10 and 11, or 1 and 0 where both classes have weights.
TWO: list[tuple[list[dict[int, float]], list[float], str, list[int], list[list[float]]]] = [
    ([{0: 0.3}, {0: 0.8}], [], "NONE", [10, 11], [[0.7, 0.3], [0.2, 0.8]]),
    (
        [{0: 0.3}, {0: 0.8}],
        [],
        "LOGISTIC",
        [10, 11],
        [[0.42555749, 0.57444251], [0.31002552, 0.68997449]],
    ),
    ([{0: 0.3}, {0: 0.8}], [0.25], "NONE", [11, 11], [[0.45, 0.55], [-0.05, 1.05]]),
    ([{0: 0.3}, {0: 0.8}], [0.5, 0.125], "NONE", [11, 11], [[0.8, 0.0], [1.3, 0.0]]),
    ([{1: 0.3}, {1: 0.8}], [], "NONE", [10, 11], [[0.0, 0.3], [0.0, 0.8]]),
    (
        [{1: 0.3}, {1: 0.8}],
        [0.25],
        "SOFTMAX",
        [10, 11],
        [[0.42555746, 0.57444251], [0.31002554, 0.68997449]],
    ),
    ([{0: -0.3}, {0: 0.8}], [], "NONE", [10, 11], [[0.3, -0.3], [-0.8, 0.8]]),
    (
        [{0: -0.3}, {0: 0.8}],
        [0.25],
        "LOGISTIC",
        [10, 11],
        [[0.51249743, 0.48750257], [0.25922513, 0.74077487]],
    ),
    ([{1: -0.3}, {1: 0.8}], [], "SOFTMAX_ZERO", [10, 11], [[0.0, 1.0], [0.0, 1.0]]),
    ([{0: 0.7, 1: 0.3}, {0: 0.2, 1: 0.8}], [], "NONE", [1, 1], [[0.7, 0.3], [0.2, 0.8]]),
    (
        [{0: 0.7, 1: 0.3}, {0: 0.2, 1: 0.8}],
        [0.25],
        "PROBIT",
        [1, 1],
        [[1.64466965, -0.52444589], [-0.12566201, 0.84175611]],
    ),
    (
        [{0: 0.7, 1: -0.3}, {0: -0.2, 1: 0.8}],
        [],
        "SOFTMAX",
        [0, 1],
        [[0.73105860, 0.26894143], [0.26894143, 0.73105860]],
    ),
    (
        [{0: 0.7, 1: -0.3}, {0: -0.2, 1: 0.8}],
        [0.5, 0.125],
        "NONE",
        [1, 0],
        [[-0.825, 0.825], [0.075, -0.075]],
    ),
]


def _classifier(leaves: Sequence[dict[int, float]], classes: int, **more: Any) -> dict[str, Any]:
    rows = [(k + 1, c, w) for k, leaf in enumerate(leaves) for c, w in leaf.items()]
    named = "classlabels_strings" in more
    labels = {} if named else {"classlabels_int64s": [10 + k for k in range(classes)]}
    return {
        **STUMP, "class_treeids": [0] * len(rows), "class_nodeids": [r[0] for r in rows],
        "class_ids": [r[1] for r in rows], "class_weights": [r[2] for r in rows],
        **labels, **more,
    }  # fmt: skip


@pytest.mark.parametrize("case", range(len(TWO)))
def test_two_classes(case: int, tmp_path: Path) -> None:
    leaves, base, post, labels, scores = TWO[case]
    given = {"base_values": base} if base else {}
    attributes = _classifier(leaves, 2, post_transform=post, **given)
    found = _evaluated(
        tmp_path, "TreeEnsembleClassifier", ["l", "p"], [[-1.0], [1.0]], **attributes
    )
    assert found[0].tolist() == labels
    assert np.allclose(found[1], scores, rtol=1e-5, atol=1e-6)


def test_a_class_without_a_weight_does_not_win(tmp_path: Path) -> None:
    leaves = [{0: 0.1, 1: 0.6, 2: 0.3}, {0: -0.2, 2: -0.5}]
    run = [[-1.0], [1.0]]
    label, scores = _evaluated(
        tmp_path, "TreeEnsembleClassifier", ["l", "p"], run, **_classifier(leaves, 3)
    )
    assert label.tolist() == [11, 10]
    assert np.allclose(scores, [[0.1, 0.6, 0.3], [-0.2, 0.0, -0.5]])
    base = {"base_values": [0.25, 0.5, 0.125]}
    label, scores = _evaluated(
        tmp_path, "TreeEnsembleClassifier", ["l", "p"], run, **_classifier(leaves, 3, **base)
    )
    assert label.tolist() == [11, 11]
    assert np.allclose(scores, [[0.35, 1.1, 0.425], [0.05, 0.5, -0.375]])


def test_labels_that_are_texts_are_indices_and_names(tmp_path: Path) -> None:
    given = _classifier([{0: 0.3}, {0: 0.8}], 2, classlabels_strings=["no", "y\nes"])
    graph = load(tmp_path, tree_model("TreeEnsembleClassifier", 1, ["l", "p"], **given))
    assert graph.class_names == ("no", "y es")
    (label, _) = evaluate(graph, {"x": np.ones((1, 1))}).values()
    assert label.tolist() == [1]


def _five(**changes: Any) -> dict[str, Any]:
    """A TreeEnsemble of version 5: x0 in {1, 3} leads to 10, else x1 <= 0.5 to 20, else to 30."""
    tensor = onnx.numpy_helper.from_array
    given: dict[str, Any] = {
        "aggregate_function": 1, "n_targets": 1, "post_transform": 0, "tree_roots": [0],
        "nodes_featureids": [0, 1], "nodes_modes": tensor(np.array([6, 0], np.uint8)),
        "nodes_splits": tensor(np.array([0.0, 0.5], np.float32)),
        "membership_values": tensor(np.array([1.0, 3.0, np.nan], np.float32)),
        "nodes_truenodeids": [0, 1], "nodes_trueleafs": [1, 1], "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1], "leaf_targetids": [0, 0, 0],
        "leaf_weights": tensor(np.array([10.0, 20.0, 30.0], np.float32)),
    }  # fmt: skip
    return given | changes


def test_version_5_has_sets(tmp_path: Path) -> None:
    x = [[1, 0], [3, 9], [2, 0.5], [2, 0.6], [np.nan, 0]]
    (y,) = _evaluated(tmp_path, "TreeEnsemble", ["y"], x, **_five())
    assert y[:, 0].tolist() == [10, 10, 20, 30, 20]
    tracks = _five(nodes_missing_value_tracks_true=[1, 0])
    (y,) = _evaluated(tmp_path, "TreeEnsemble", ["y"], x, **tracks)
    assert y[:, 0].tolist() == [10, 10, 20, 30, 10]


def test_float64_thresholds_are_compared_as_such(tmp_path: Path) -> None:
    # x <= 0.1 in float64 is false for the float32 nearest to 0.1, which is a little more.
    near = float(np.float32(0.1))
    below = float(np.nextafter(np.float32(0.1), np.float32(0)))
    assert near > 0.1 > below
    x = [[near], [below], [np.inf]]
    for mode, expected in (("BRANCH_LEQ", [2, 1, 2]), ("BRANCH_LT", [2, 1, 2]),
                           ("BRANCH_GT", [1, 2, 1]), ("BRANCH_EQ", [2, 2, 2])):  # fmt: skip
        given = {k: v for k, v in STUMP.items() if k != "nodes_values"}
        values = onnx.numpy_helper.from_array(np.array([0.1, 0, 0], np.float64))
        weights = onnx.numpy_helper.from_array(np.array([1.0, 2.0], np.float64))
        given |= {
            "nodes_modes": [mode, "LEAF", "LEAF"], "nodes_values_as_tensor": values,
            "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
            "target_weights_as_tensor": weights,
        }  # fmt: skip
        (y,) = _evaluated(tmp_path, "TreeEnsembleRegressor", ["y"], x, **given)
        assert y[:, 0].tolist() == expected, mode


def test_chains_of_comparisons_are_one_set(tmp_path: Path) -> None:
    # Of LightGBM: if x == 1, or else x == 4, to node 3; else to leaf 4.
    nodes = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 1, 0, 0],
        "nodes_values": [1.0, 4.0, 0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [2, 2, 3, 0, 0], "nodes_falsenodeids": [1, 4, 4, 0, 0],
    }  # fmt: skip
    weights = {"target_treeids": [0, 0], "target_nodeids": [3, 4], "target_ids": [0, 0]}
    given = {**nodes, **weights, "target_weights": [1.0, 2.0]}
    graph = load(tmp_path, tree_model("TreeEnsembleRegressor", 2, ["y"], 4, **given))
    forest = next(n for n in graph.nodes if n.op.kind == "TreeEnsemble")
    columns, values = (graph.constants[name] for name in forest.inputs[1:3])
    assert columns[:, 1].tolist() == [Column.VALUE, Column.MEMBER]
    assert values.tolist() == [1.0, 4.0]
    x = np.array([[1, 0], [4, 0], [4, 1], [2, 0]], np.float32)
    (y,) = evaluate(graph, {"x": x}).values()
    assert y[:, 0].tolist() == [1, 1, 2, 2]


REGRESSOR: dict[str, Any] = {
    **STUMP, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}  # fmt: skip

WRONG: list[tuple[str, dict[str, Any], type[CanneryError], str]] = [
    ("TreeEnsembleRegressor", {"nodes_truenodeids": [0, 0, 0]}, ModelError, "form a cycle"),
    (
        "TreeEnsembleRegressor",
        {"nodes_truenodeids": [7, 0, 0]},
        ModelError,
        "leads to 7, which is missing",
    ),
    ("TreeEnsembleRegressor", {"nodes_featureids": [2, 0, 0]}, ModelError, "reads feature 2 of 2"),
    (
        "TreeEnsembleRegressor",
        {"nodes_featureids": [-1, 0, 0]},
        ModelError,
        "reads feature -1 of 2",
    ),
    (
        "TreeEnsembleRegressor",
        {"nodes_nodeids": [0, 1, 1]},
        ModelError,
        "two nodes of tree 0 have number 1",
    ),
    ("TreeEnsembleRegressor", {"nodes_treeids": [0, 1, 0]}, ModelError, "not in one piece"),
    ("TreeEnsembleRegressor", {"nodes_values": [0.0]}, ModelError, "differ in length"),
    (
        "TreeEnsembleRegressor",
        {"nodes_modes": ["BRANCH_HALF", "LEAF", "LEAF"]},
        UnsupportedError,
        "BRANCH_HALF",
    ),
    ("TreeEnsembleRegressor", {"target_ids": [0, 1]}, ModelError, "target 1 of 1"),
    (
        "TreeEnsembleRegressor",
        {"target_nodeids": [1, 0]},
        ModelError,
        "node 0 of tree 0 has weights",
    ),
    ("TreeEnsembleRegressor", {"target_nodeids": [1, 1]}, UnsupportedError, "two weights for 0"),
    (
        "TreeEnsembleRegressor",
        {"base_values": [1.0, 2.0]},
        ModelError,
        "2 base_values for 1 targets",
    ),
    ("TreeEnsembleRegressor", {"n_targets": 0}, ModelError, "has 0 targets"),
    (
        "TreeEnsembleRegressor",
        {"n_targets": 2, "aggregate_function": "MIN"},
        UnsupportedError,
        "no weight for target 1",
    ),
    (
        "TreeEnsembleRegressor",
        {"nodes_missing_value_tracks_true": [1]},
        ModelError,
        "1 nodes_missing",
    ),
    ("TreeEnsemble", {"nodes_truenodeids": [9, 1]}, ModelError, "leads to leaf 9"),
    ("TreeEnsemble", {"tree_roots": [2]}, ModelError, "leads to node 2"),
    ("TreeEnsemble", {"tree_roots": [1]}, ModelError, "nothing leads to 1 of its nodes"),
    (
        "TreeEnsemble",
        {"nodes_falseleafs": [0, 0], "nodes_falsenodeids": [1, 0]},
        ModelError,
        "form a cycle",
    ),
    (
        "TreeEnsemble",
        {"membership_values": onnx.numpy_helper.from_array(np.zeros(0, np.float32))},
        ModelError,
        "0 sets of values for 1",
    ),
    (
        "TreeEnsemble",
        {
            "nodes_modes": onnx.numpy_helper.from_array(np.array([0, 9], np.uint8)),
            "membership_values": onnx.numpy_helper.from_array(np.zeros(0, np.float32)),
        },
        ModelError,
        "mode 9",
    ),
    ("TreeEnsemble", {"aggregate_function": 4}, ModelError, "not one of 0 to 3"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_wrong_is_said(case: int, tmp_path: Path) -> None:
    kind, changes, error, message = WRONG[case]
    given = _five(**changes) if kind == "TreeEnsemble" else REGRESSOR | changes
    with pytest.raises(error, match=message):
        load(tmp_path, tree_model(kind, 2, ["y"], **given))


def test_classifiers_that_runtimes_do_not_agree_on(tmp_path: Path) -> None:
    sparse = _classifier([{0: 0.7}, {1: 0.8}], 2)
    with pytest.raises(UnsupportedError, match="no weight for one of two classes"):
        load(tmp_path, tree_model("TreeEnsembleClassifier", 1, ["l", "p"], **sparse))
    single = _classifier([{0: 0.7}, {0: 0.8}], 1)
    with pytest.raises(UnsupportedError, match="a single class"):
        load(tmp_path, tree_model("TreeEnsembleClassifier", 1, ["l", "p"], **single))


def test_shared_nodes_do_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both answers of each node lead to the next one: as a tree, 2^20 leaves.
    monkeypatch.setattr(forests, "MAX_NODES", 1000)
    count = 20
    after = [*range(1, count + 1), 0]
    given = {
        "nodes_treeids": [0] * (count + 1), "nodes_nodeids": list(range(count + 1)),
        "nodes_featureids": [0] * (count + 1), "nodes_values": [0.5] * (count + 1),
        "nodes_modes": ["BRANCH_LEQ"] * count + ["LEAF"], "nodes_truenodeids": after,
        "nodes_falsenodeids": after, "target_treeids": [0], "target_nodeids": [count],
        "target_ids": [0], "target_weights": [1.0],
    }  # fmt: skip
    with pytest.raises(UnsupportedError, match="more than 1000 nodes"):
        load(tmp_path, tree_model("TreeEnsembleRegressor", 1, ["y"], **given))


def test_deep_trees_are_read_without_recursion(tmp_path: Path) -> None:
    depth = 3000
    forest = forests.FileForest(
        [forests.FileNode(0, "BRANCH_LEQ", float(k), False, -1, k + 1 if k + 1 < depth else -2)
         for k in range(depth)],
        [0], [{0: 1.0}, {0: 2.0}], 1,
    )  # fmt: skip
    forest.check(1)
    made: Forest = forest.forest([0.0])
    assert int(made.depths.max()) == depth


@pytest.mark.parametrize("seed", range(12))
def test_onnx_runtime_agrees(seed: int, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    attributes, features, _ = _random(seed)
    x = samples_of(np.random.default_rng(seed), 40, features)
    proto = tree_model("TreeEnsembleRegressor", features, ["y"], 1, **attributes)
    session = runtime.InferenceSession(proto.SerializeToString())
    expected = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    found = plain_scores(attributes, x, expected.shape[1])
    assert np.array_equal(found, expected)
    graph: Graph = load_graph(_written(tmp_path, proto))
    rows = [next(iter(evaluate(graph, {"x": row[None]}).values())) for row in x]
    assert np.allclose(np.concatenate(rows), expected, rtol=1e-6, atol=1e-6)


def _written(folder: Path, proto: Any) -> Path:
    path = folder / "trees.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_shapes_that_exporters_declare_wrongly_do_not_count(tmp_path: Path) -> None:
    proto = tree_model("TreeEnsembleRegressor", 1, ["y"], 1, **REGRESSOR)
    proto.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, [1, 7]))
    graph = load(tmp_path, proto)
    assert graph.types[graph.outputs[0]].shape == (1, 1)
