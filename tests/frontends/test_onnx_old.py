"""ONNX's versions 1 to 6: what each operator meant then, and those that were experimental."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.old import EXPERIMENTAL
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import floats, load, model, node, onnx

IMAGE = [1, 3, 4, 5]
X = floats(*IMAGE)
ROW = floats(3, seed=1)
COLUMN = ROW.reshape(3, 1, 1)
ONES = np.ones(3, np.float32)

Case = tuple[list[Any], dict[str, Any], int, NDArray[Any]]


def one(kind: str, *more: str, **attributes: Any) -> list[Any]:
    return [node(kind, ["x", *more], ["y"], **attributes)]


def selu(x: NDArray[Any]) -> NDArray[Any]:
    return np.where(x > 0, 1.0507 * x, 1.0507 * 1.6732 * (np.exp(x) - 1))


BATCH_NORM = one("BatchNormalization", "s", "b", "m", "v", is_test=1, epsilon=0.25, spatial=1,
                 consumed_inputs=[0, 0, 0, 1, 1])  # fmt: skip

CASES: dict[str, Case] = {
    "consumed": (one("Relu", consumed_inputs=[0]), {}, 5, np.maximum(X, 0)),
    "axis": (one("Add", "b", broadcast=1, axis=1), {"b": ROW}, 6, X + COLUMN),
    "axis_of_old": (one("Mul", "b", broadcast=1, axis=1, consumed_inputs=[0, 0]), {"b": ROW}, 3,
                    X * COLUMN),
    "axis_of_two": (one("Sub", "b", broadcast=1, axis=1), {"b": floats(3, 4)}, 6,
                    X - floats(3, 4)[..., None]),
    "axis_from_the_end": (one("Div", "b", broadcast=1, axis=-3), {"b": ROW}, 6, X / COLUMN),
    "suffix": (one("Add", "b", broadcast=1), {"b": floats(4, 5)}, 6, X + floats(4, 5)),
    "alone": (one("Add", "b", broadcast=1, axis=1), {"b": np.float32([2])}, 6, X + 2),
    "same": (one("Add", "x"), {}, 6, X + X),
    "compared": (one("Greater", "b", broadcast=1, axis=1), {"b": ROW}, 6, X > COLUMN),
    "slopes": (one("PRelu", "b"), {"b": ROW}, 6, np.where(X < 0, X * COLUMN, X)),
    "slope": (one("PRelu", "b"), {"b": ROW[:1]}, 1, np.where(X < 0, X * ROW[0], X)),
    "cast": (one("Cast", to="INT32"), {}, 5, X.astype(np.int32)),
    "joined": (one("Concat", "x"), {}, 3, np.concatenate([X, X], 1)),
    "joined_later": (one("Concat", "x", axis=2), {}, 4, np.concatenate([X, X], 2)),
    "padded": (one("Pad", paddings=[0, 0, 1, 2, 0, 0, 0, 1], value=2.0), {}, 1,
               np.pad(X, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=2)),
    "reshaped": (one("Reshape", shape=[0, -1]), {}, 4, X.reshape(1, -1)),
    "selu": (one("Selu"), {}, 1, selu(X)),
    "upsampled": (one("Upsample", height_scale=2.0, width_scale=3.0, mode="nearest"), {}, 1,
                  X.repeat(2, 2).repeat(3, 3)),
    "lengths": (one("GlobalLpPool", p=2.0), {}, 1, np.sqrt((X**2).sum((2, 3), keepdims=True))),
    "normalised": (BATCH_NORM, {"s": ROW, "b": ONES, "m": ONES, "v": ONES}, 5,
                   (X - 1) / np.sqrt(1.25) * COLUMN + 1),
    "dropped": (one("Dropout", ratio=0.5), {}, 6, X),
    "split": ([node("Split", ["x"], ["y", "z"], axis=1, split=[1, 2])], {}, 2, X[:, :1]),
    "scaled_image": (one("ImageScaler", scale=2.0, bias=[1.0, 2.0, 3.0]), {}, 1,
                     X * 2 + np.float32([1, 2, 3]).reshape(3, 1, 1)),
    "cropped": (one("Crop", border=[1, 2, 3, 0]), {}, 1, X[:, :, 2:, 1:2]),
    "cropped_to": (one("Crop", border=[1, 2, 0, 0], scale=[1, 3]), {}, 1, X[:, :, 2:3, 1:4]),
    "affine": (one("Affine", alpha=2.0, beta=-1.0), {}, 1, X * 2 - 1),
    "scaled": (one("Scale", scale=3.0), {}, 1, X * 3),
    "tanh": (one("ScaledTanh", alpha=2.0, beta=0.5), {}, 1, 2 * np.tanh(X / 2)),
    "softplus": (one("ParametricSoftplus", alpha=2.0, beta=0.5), {}, 1,
                 2 * np.log1p(np.exp(X / 2))),
}  # fmt: skip


def run(folder: Path, case: Case) -> NDArray[Any]:
    nodes, weights, version, _ = case
    graph = load(folder, model(nodes, {"x": IMAGE}, weights=weights, opset=version))
    return np.asarray(to_model(graph, evaluate(graph, from_model(graph, {"x": X})))["y"])


@pytest.mark.parametrize("name", CASES)
def test_what_operators_meant(tmp_path: Path, name: str) -> None:
    found, expected = run(tmp_path, CASES[name]), CASES[name][-1]
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-5)


def test_all_experimental_operators_are_tried() -> None:
    assert {n.op_type for nodes, *_ in CASES.values() for n in nodes} >= set(EXPERIMENTAL)


def test_images_that_are_scaled_stay_channels_last(tmp_path: Path) -> None:
    nodes = [
        node("ImageScaler", ["x"], ["s"], scale=0.5, bias=[1.0, 2.0, 3.0]),
        node("Crop", ["s"], ["c"], border=[0, 1, 1, 0]),
        node("Conv", ["c", "w"], ["y"]),
    ]
    graph = load(tmp_path, model(nodes, {"x": IMAGE}, weights={"w": floats(2, 3, 1, 1)}, opset=2))
    kinds = [n.op.kind for n in graph.nodes]
    assert kinds.count("Transpose") <= 1 and "Conv" in kinds
    found = to_model(graph, evaluate(graph, from_model(graph, {"x": X})))["y"]
    scaled = (X * 0.5 + np.float32([1, 2, 3]).reshape(3, 1, 1))[:, :, 1:, :-1]
    expected = np.einsum("oc,nchw->nohw", floats(2, 3, 1, 1)[..., 0, 0], scaled)
    assert np.allclose(found, expected, atol=1e-5)


def test_branches_have_the_old_operators_too(tmp_path: Path) -> None:
    helper = onnx.helper
    inner = node("Add", ["x", "b"], ["z"], broadcast=1, axis=1)
    other = node("Sub", ["x", "b"], ["w"], broadcast=1, axis=1)
    graphs = [
        helper.make_graph([n], "g", [], [helper.make_empty_tensor_value_info(n.output[0])])
        for n in (inner, other)
    ]
    nodes = [node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])]
    weights = {"b": ROW, "c": np.array(True)}
    graph = load(tmp_path, model(nodes, {"x": IMAGE}, weights=weights, opset=6))
    found = evaluate(graph, from_model(graph, {"x": X}))["y"]
    assert np.allclose(found, X + COLUMN)


def test_later_versions_do_not_take_old_attributes(tmp_path: Path) -> None:
    nodes = one("Add", "b", broadcast=1, axis=1)
    with pytest.raises(UnsupportedError, match=r"attribute '(broadcast|axis)'"):
        load(tmp_path, model(nodes, {"x": IMAGE}, weights={"b": COLUMN}, opset=7))


@pytest.mark.parametrize(
    ("nodes", "weights", "version", "message"),
    [
        (one("Add", "b", broadcast=1, axis=9), {"b": ROW}, 6, "axis 9 is outside"),
        (one("Add", "b", broadcast=1, axis=3), {"b": COLUMN}, 6, "axis 3 of a tensor with 4"),
        (one("Add", "b", broadcast=1, axis=1.5), {"b": ROW}, 6, "its axis does not fit"),
        (one("Add", "b", "b", broadcast=1, axis=1), {"b": ROW}, 6, "its axis does not fit"),
        (one("PRelu"), {}, 6, "has no slope"),
        (one("Cast", to="STRING"), {}, 5, "elements of 'STRING'"),
        (one("Reshape"), {}, 4, "has no shape"),
        (one("Pad"), {}, 1, "pads"),
        (one("Tile", "a", "b"), {"a": ONES, "b": ONES}, 1, "it has version 1, and 7"),
        (one("Split", "b"), {"b": ONES}, 1, "sizes as an input"),
        (one("GlobalLpPool", p=1.5), {}, 1, "p 1.5 is not a whole number"),
        (one("Upsample", height_scale=2.0), {}, 1, "scales"),
        (one("ImageScaler", bias=[1.0]), {}, 1, "1 biases for"),
        (one("Crop", border=[2, 0, 3, 0]), {}, 1, "nothing is left"),
        (one("Crop", border=[0, 0, 0, -1]), {}, 1, "borders"),
        (one("Crop", border=[0, 0, 0, 0], scale=[5, 5]), {}, 1, "less than is wanted"),
        (one("Crop", border=[1]), {}, 1, "attribute 'border' has 1 entries"),
    ],
)
def test_what_is_malformed(
    tmp_path: Path, nodes: list[Any], weights: dict[str, Any], version: int, message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path, model(nodes, {"x": IMAGE}, weights=weights, opset=version))
    assert "y" in str(caught.value)
