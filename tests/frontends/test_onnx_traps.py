"""Small ONNX files that stand for much: each ends with one error, quickly and in little memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.frontends import load_graph
from frontends.onnx_models import load, model, node, onnx, write

#: A message of a model up to its graph: the version of the format and of the operators.
_HEAD = bytes([0x08, 8, 0x42, 4, 0x0A, 0, 0x10, 18])


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    size, digits = len(data), b""
    while size >= 0x80:
        digits += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + digits + bytes([size]) + data


_EMPTY_NODES = _field(7, _field(1, b"") * 1_100_000)
_EMPTY_NAMES = _field(7, _field(1, _field(1, b"") * 1_100_000))
_SMALL_NUMBERS = _field(7, _field(5, _field(7, bytes(70_000_000))))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_EMPTY_NODES, "too much for a network"),
        (_EMPTY_NAMES, "too much for a network"),
        (_SMALL_NUMBERS + _field(14, b""), "too much for a network"),
        (_field(7, bytes([0x13]) + _EMPTY_NAMES), "damaged"),
        (_field(7, _field(1, _field(4, b"Re\xfflu"))), "its op_type is not a text"),
    ],
    ids=["nodes", "names", "numbers", "group", "text"],
)
def test_messages_that_would_fill_the_memory(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "trap.onnx"
    path.write_bytes(_HEAD + data)
    with pytest.raises(CanneryError, match=message):
        load_graph(path)


def _i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


IMAGE = {"x": [1, 3, 8, 8]}
TRAPS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], str]] = {
    "mask": ([node("Dropout", ["x"], ["z", "y"])], {"x": [46000, 46000]}, {}, "too large"),
    "eye": ([node("EyeLike", ["x"], ["y"])], {"x": [2**20, 2**10]}, {}, "too large"),
    "sum": ([node("Sum", ["x"] * 20_003, ["y"])], {"x": [1]}, {}, "more than 20000 nodes"),
    "rank": ([node("Relu", ["x"], ["y"])], {"x": [1] * 40}, {}, "40 dimensions"),
    "kernel": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[2**40, 3], pads=[2**40] * 4)],
        IMAGE, {}, "too large",
    ),
    "norm": ([node("LRN", ["x"], ["y"], size=2**40)], IMAGE, {}, "too large"),
    "dilation": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], dilations=[2**62, 1])],
        IMAGE, {}, "more than the padded input|too large",
    ),
    "resize": (
        [node("Resize", ["x", "", "", "s"], ["y"], mode="cubic")], IMAGE,
        {"s": _i64(1, 3, 2**20, 2**20)}, "too large",
    ),
    "transform": (
        [node("DFT", ["x", "n"], ["y"])], {"x": [1, 16, 1]}, {"n": np.int64(2**40)}, "too long",
    ),
    "filters": (
        [node("MelWeightMatrix", list("abcde"), ["y"])], {"x": [1]},
        {"a": _i64(8), "b": _i64(16), "c": _i64(0), "d": np.float32([np.nan]),
         "e": np.float32([np.inf])}, "make no filters",
    ),
    "blocks": (
        [node("Col2Im", ["x", "i", "k"], ["y"])], {"x": [1, 5, 5]},
        {"i": _i64(2**40, 5), "k": _i64(1, 5)}, "Col2Im",
    ),
    "wrap": (
        [node("Pad", ["x", "p"], ["y"], mode="wrap")], {"x": [1, 4]},
        {"p": _i64(0, 2**40, 0, 2**40)}, "too large",
    ),
    "steps": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_LOWER", strides=[0, 0])],
        IMAGE, {}, "strides .* must be positive",
    ),
    "steps in space": (
        [node("Conv", ["x", "w"], ["y"], strides=[0, 1, 1])], {"x": [1, 2, 4, 4, 4]},
        {"w": np.ones((2, 2, 2, 2, 2), np.float32)}, "strides .* must be positive",
    ),
    "gather": (
        [node("GatherND", ["x", "i"], ["y"])], {"x": [4, 4]}, {"i": _i64(1, 9)}, "indices 9 to 9",
    ),
    "scatter": (
        [node("ScatterND", ["x", "i", "u"], ["y"])], {"x": [4]},
        {"i": _i64([-5]), "u": np.float32([1])}, "indices -5 to -5",
    ),
    "filled": (
        [node("ConstantOfShape", ["s"], ["y"])], {}, {"s": np.float32([3.5])}, "not a list"
    ),
    "sizes": (
        [node("ConvTranspose", ["x", "w"], ["y"], output_shape=[9])], IMAGE,
        {"w": np.ones((3, 2, 2, 2), np.float32)}, "for 2 spatial axes",
    ),
    "scales": (
        [node("QuantizeLinear", ["x", "s"], ["y"])], {"x": []}, {"s": np.float32([1, 2])},
        "for a tensor of shape",
    ),
    "padding": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[1, 3], pads=[2**31 - 1, 0, 0, 2])], IMAGE, {},
        "entirely in the padding|too large",
    ),
    "padded": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[1, 1], strides=[2**27, 1],
              pads=[2**27, 0, 2**27, 0], count_include_pad=1)], IMAGE, {}, "too large",
    ),
    "cropped": (
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2**27, 1],
              pads=[2**29 - 8, 0, 2**28 + 2**27 - 9, 0])], IMAGE,
        {"w": np.ones((3, 2, 2, 2), np.float32)}, "too large",
    ),
    "grown": ([node("ConstantOfShape", ["s"], ["y"])], {}, {"s": _i64(2**25)}, "too large"),
    "empty": ([node("Relu", ["x"], ["y"])], {"x": [0, 2**62, 2**62]}, {}, "more than 2"),
    "overwritten": (
        [node("Abs", ["x"], ["w"]), node("Neg", ["w"], ["y"])], {"x": [1]},
        {"w": np.float32([1])}, "'w' is computed twice",
    ),
    "equation": ([node("Einsum", ["x"], ["y"], equation="a" * 100_000)], {"x": [2]}, {}, "term"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_shapes_that_would_fill_the_memory(tmp_path: Path, name: str) -> None:
    nodes, inputs, weights, message = TRAPS[name]
    with pytest.raises(CanneryError, match=message) as caught:
        load(tmp_path, model(nodes, inputs, weights=weights, opset=20))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([{"i": 0, "type": 2}, {"i": 1, "type": 2}], "two of its attributes have one name"),
        ([{"i": 0}], "attribute 'axis'"),
    ],
)
def test_attributes_that_could_be_misread(
    tmp_path: Path, fields: list[dict[str, int]], message: str
) -> None:
    """Twice, or without a type, on an operator that ONNX defines by a function."""
    proto = model([node("Softmax", ["x"], ["y"])], {"x": [2, 3, 4]})
    for entry in fields:
        proto.graph.node[0].attribute.add(name="axis", **entry)
    with pytest.raises(CanneryError, match=message):
        load(tmp_path, proto)


@pytest.mark.parametrize(
    ("location", "dims", "entries", "message"),
    [
        ("hole.bin", [2**28], {}, "more than 536870912 bytes"),
        ("hole.bin", [4], {"offset": 2**62}, "shorter|hole.bin"),
        ("hole.bin", [4], {"offset": "9" * 5000}, "malformed"),
        ("hole.bin", [4], {"offset": 2**70}, "hole.bin"),
        ("circle", [4], {}, "outside of the model's folder"),
        ("a\0b", [4], {}, "outside of the model's folder"),
        ("a" * 5000, [4], {}, "is missing: "),
        ("pipe", [4], {}, "a pipe"),
        (".", [4], {}, "outside of the model's folder"),
    ],
)
def test_other_files_that_are_traps(
    tmp_path: Path, location: str, dims: list[int], entries: dict[str, Any], message: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    with (tmp_path / "hole.bin").open("wb") as file:
        file.truncate(2**32)
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": [4]})
    tensor = proto.graph.initializer.add(
        name="w", data_type=1, dims=dims, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    with pytest.raises(CanneryError, match=message):
        load_graph(write(tmp_path / "model.onnx", proto))
