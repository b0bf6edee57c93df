"""Lists of tensors within ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.evaluate import evaluate
from frontends.onnx_models import assert_as_onnx, floats, load, model, node, onnx

_LIST = node("SequenceConstruct", ["x", "b", "x"], ["l"])
_AT = node("SequenceAt", ["l", "p"], ["y"])


CASES: dict[str, list[Any]] = {
    "at": [_LIST, _AT],
    "insert": [
        _LIST, node("SequenceInsert", ["l", "c", "p"], ["m"]),
        node("ConcatFromSequence", ["m"], ["y"], axis=1),
    ],
    "erase": [
        _LIST, node("Identity", ["l"], ["k"]), node("SequenceErase", ["k", "one"], ["m"]),
        node("SequenceErase", ["m"], ["n"]), node("ConcatFromSequence", ["n"], ["y"], axis=0),
    ],
    "rows": [_LIST, node("ConcatFromSequence", ["l"], ["y"], axis=-1, new_axis=1)],
    "length": [_LIST, node("SequenceLength", ["l"], ["n"]), node("Add", ["one", "n"], ["y"])],
    "split": [node("SplitToSequence", ["x", "two"], ["l"], axis=1), _AT],
    "sizes": [node("SplitToSequence", ["x", "sizes"], ["l"], axis=1), _AT],
    "items": [
        node("SplitToSequence", ["x"], ["l"], keepdims=0, axis=1),
        node("SequenceMap", ["l", "c"], ["m", ""], body=onnx.helper.make_graph(
            [node("Mul", ["i", "j"], ["o"]), node("Neg", ["i"], ["n"])], "body",
            [onnx.helper.make_empty_tensor_value_info(n) for n in "ij"],
            [onnx.helper.make_empty_tensor_value_info(n) for n in "on"],
        )),
        node("ConcatFromSequence", ["m"], ["y"], axis=0, new_axis=1),
    ],
}  # fmt: skip

WEIGHTS = {
    "b": np.float32([[1, 2, 3]]), "c": np.float32([[4, 5, 6]]), "p": np.int64(-1),
    "one": np.int64(1), "two": np.int64(2), "sizes": np.int64([2, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_lists_are_known_when_a_model_is_read(tmp_path: Path, name: str) -> None:
    nodes = CASES[name]
    used = {i for n in nodes for i in n.input}
    weights = {k: v for k, v in WEIGHTS.items() if k in used}
    proto = model(nodes, {"x": [1, 3]}, weights=weights)
    assert_as_onnx(proto, load(tmp_path, proto))


def test_a_loop_collects_in_a_list(tmp_path: Path) -> None:
    helper = onnx.helper
    body = helper.make_graph(
        [node("Add", ["v", "b"], ["w"]), node("SequenceInsert", ["s", "w"], ["t"]),
         node("Identity", ["c"], ["go"])],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []),
         helper.make_empty_tensor_value_info("s"), helper.make_empty_tensor_value_info("v")],
        [helper.make_empty_tensor_value_info(n) for n in ("go", "t", "w")],
    )  # fmt: skip
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["two", "", "none", "x"], ["l", "last"], body=body),
        node("SequenceInsert", ["l", "last"], ["all"]),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    graph = load(tmp_path, model(nodes, {"x": [1, 3]}, weights=WEIGHTS))
    x, b = floats(1, 3), WEIGHTS["b"]
    wanted = np.concatenate([x + b, x + b + b, x + b + b])
    assert np.allclose(evaluate(graph, {"x": x})["y"], wanted)


def test_lists_as_outputs(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["y"], axis=1),
        node("Neg", ["x"], ["y.1"]),
        node("SequenceConstruct", ["y.1", "c"], ["z"]),
    ]
    proto = model(nodes, {"x": [1, 3]}, ["y", "y.1", "z"], {"c": WEIGHTS["c"]})
    graph = load(tmp_path, proto)
    assert graph.outputs == ("y.0", "y.1.1", "y.2", "y.1", "z.0", "z.1")
    x = floats(1, 3)
    found = list(evaluate(graph, {"x": x}).values())
    wanted = [*np.split(x, 3, 1), -x, -x, WEIGHTS["c"]]
    for y, reference in zip(found, wanted, strict=True):
        assert np.array_equal(y, reference)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("SequenceConstruct", ["x", "x"], ["l"]), node("SequenceAt", ["l", "two"], ["y"])],
            "outside of the list",
        ),
        ([node("SequenceAt", ["x", "p"], ["y"])], "not a list of tensors"),
        ([_LIST, node("Relu", ["l"], ["y"])], "is a list of tensors"),
        ([node("SequenceEmpty", [], ["y"])], "is a list without tensors"),
        ([node("SequenceEmpty", [], ["l"]), _AT], "outside of the list"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, nodes: list[Any], message: str) -> None:
    with pytest.raises(CanneryError, match=message):
        load(tmp_path, model(nodes, {"x": [1, 3]}, weights=WEIGHTS))
