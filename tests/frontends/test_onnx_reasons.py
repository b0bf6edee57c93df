"""What cannot be read is refused for the right reason: an operator rather than its size or data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.onnx import guard
from cannery.frontends.unsupported import UnsupportedLayersError
from frontends.onnx_models import assert_as_onnx, load, model, node, onnx

ML = "ai.onnx.ml"
#: More numbers than a file of a network has.
MANY = 1_100_000


def _ml(kind: str, numbers: int = 0, **attributes: Any) -> Any:
    """A node of the domain, with an attribute of many numbers."""
    made = node(kind, ["x"], ["y"], domain=ML, **attributes)
    if numbers:
        values = onnx.AttributeProto(name="nodes_values", type=onnx.AttributeProto.FLOATS)
        values.floats.extend(np.zeros(numbers, np.float32))
        made.attribute.append(values)
    proto = model([made], {"x": [1, 4]})
    proto.opset_import.add(domain=ML, version=3)
    return proto


def test_a_large_node_without_a_way(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedLayersError, match=r"'y' \(DictVectorizer\): operators"
    ) as caught:
        load(tmp_path, _ml("DictVectorizer", MANY))
    assert "export the network without them" in caught.value.cure


@pytest.mark.parametrize(
    ("limit", "attributes"),
    [("MAX_NUMBERS", {"n": [1] * 600}), ("MAX_PARTS", {"keys": ["a"] * 600})],
)
@pytest.mark.parametrize("kind", ["DictVectorizer", "LinearRegressor"])
def test_a_node_that_is_too_large(
    kind: str, limit: str, attributes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, limit, 500)
    reason = "not supported" if kind == "DictVectorizer" else "holds too much .*more than 500"
    with pytest.raises(CanneryError, match=rf"'y' \({kind}\): .*{reason}"):
        load(tmp_path, _ml(kind, **attributes))


def test_a_file_that_is_too_large_blames_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_PARTS", 500)
    nodes = [node("Unheard", [f"v{k}"], [f"v{k + 1}"]) for k in range(200)]
    with pytest.raises(ModelError, match="more than 500 nodes, names and the like") as caught:
        load(tmp_path, model(nodes, {"v0": [4]}, ["v200"]))
    assert "Unheard" not in str(caught.value)


def test_lists_of_weights_are_not_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats take no more memory than in the file; small integers do."""
    monkeypatch.setattr(guard, "MAX_PACKED", 8000)
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": [1000]})
    proto.graph.initializer.append(onnx.helper.make_tensor("w", 1, [1000], [0.5] * 1000))
    assert load(tmp_path, proto).outputs == ("y",)
    proto.graph.initializer.append(onnx.helper.make_tensor("i", 7, [1001], [1] * 1001))
    with pytest.raises(ModelError, match="not stored as raw data"):
        load(tmp_path, proto)


def test_operators_come_before_their_weights(tmp_path: Path) -> None:
    """Of elements that Cannery has not, or in files that are not there."""
    texts = onnx.helper.make_tensor("t", onnx.TensorProto.STRING, [2], [b"a", b"b"])
    away = onnx.TensorProto(name="w", data_type=1, dims=[4])
    away.data_location = onnx.TensorProto.EXTERNAL
    away.external_data.add(key="location", value="absent.bin")
    for weight in (texts, away):
        proto = model([node("Unheard", ["x", weight.name], ["y"])], {"x": [4]})
        proto.graph.initializer.append(weight)
        with pytest.raises(UnsupportedError, match="this operator is not supported"):
            load(tmp_path, proto)
        proto.graph.node[0].op_type = "Concat"
        with pytest.raises(CanneryError, match=r"element type|absent\.bin"):
            load(tmp_path, proto)


def test_what_follows_an_unsupported_layer_is_not_blamed(tmp_path: Path) -> None:
    """Operators that ONNX defines by functions are supported, too."""
    nodes = [
        node("Unheard", ["x"], ["a"]), node("Shrink", ["a"], ["b"]),
        node("MeanVarianceNormalization", ["b"], ["c"]), node("Unseen", ["c"], ["y"]),
    ]  # fmt: skip
    with pytest.raises(UnsupportedLayersError) as caught:
        load(tmp_path, model(nodes, {"x": [1, 2, 3, 4]}))
    assert [p.class_name for p in caught.value.problems] == ["Unheard", "Unseen"]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"value_ints": ["NOTSET"]}, "not a list of integers"),
        ({"value_ints": [1.5]}, "not a list of integers"),
        ({"value_int": 1.5}, "not an integer"),
        ({"value_floats": ["1"]}, "not a list of numbers"),
        ({"value_float": "1"}, "not a number"),
    ],
)
def test_constants_of_other_types(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    nodes = [node("Constant", [], ["c"], **attributes), node("Add", ["x", "c"], ["y"])]
    with pytest.raises(ModelError, match=said):
        load(tmp_path, model(nodes, {"x": [1, 3]}))


def test_constants_may_be_no_numbers(tmp_path: Path) -> None:
    nodes = [
        node("Constant", [], ["one"], value_float=float("nan")),
        node("Constant", [], ["list"], value_floats=[1.0, float("nan"), float("inf")]),
        node("IsNaN", ["one"], ["never"]),
        node("IsNaN", ["list"], ["some"]),
        node("Where", ["never", "x", "zero"], ["a"]),
        node("Where", ["some", "x", "zero"], ["y"]),
    ]
    proto = model(nodes, {"x": [1, 3]}, ["a", "y"], {"zero": np.zeros(1, np.float32)})
    assert_as_onnx(proto, load(tmp_path, proto))


def test_scales_of_upsample_are_numbers(tmp_path: Path) -> None:
    nodes = [node("Upsample", ["x"], ["y"], scales=["1", "1", "2", "2"])]
    with pytest.raises(ModelError, match="not a list of numbers"):
        load(tmp_path, model(nodes, {"x": [1, 1, 2, 2]}, opset=7))
