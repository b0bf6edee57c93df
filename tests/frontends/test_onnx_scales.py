"""Scales and other numbers of ONNX files that make no sense: one error, whoever has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.ir.evaluate import evaluate
from frontends.onnx_models import load, model, node

DENORMAL = 1e-40

#: No number between bytes, by where it may stand.
BAD_STEPS = (0.0, -0.0, -0.1, np.nan, np.inf, -np.inf, DENORMAL)
BAD_FACTORS = (-0.1, np.nan, np.inf, -np.inf)


def scalar(value: float) -> NDArray[np.float32]:
    return np.asarray(value, np.float32)


def zero(kind: type[np.generic] = np.uint8) -> NDArray[Any]:
    return np.zeros((), kind)


def quantize(scale: Any, axis: int = 1) -> Any:
    """Floats to bytes and back, by this scale there."""
    nodes = [
        node("QuantizeLinear", ["x", "s"], ["q"], axis=axis),
        node("DequantizeLinear", ["q", "one"], ["y"]),
    ]
    return model(nodes, {"x": (1, 3)}, weights={"s": np.float32(scale), "one": scalar(1)})


def dequantize(scale: Any) -> Any:
    nodes = [
        node("QuantizeLinear", ["x", "one"], ["q"]),
        node("DequantizeLinear", ["q", "s"], ["y"], axis=1),
    ]
    return model(nodes, {"x": (1, 3)}, weights={"s": np.float32(scale), "one": scalar(1)})


def product(kind: str, a: float = 1.0, b: float = 1.0, y: float = 1.0) -> Any:
    """Bytes times bytes by the operators of the standard domain."""
    shape = (1, 3, 4, 4) if kind == "QLinearConv" else (1, 3)
    w = np.ones((2, 3, 1, 1) if kind == "QLinearConv" else (3, 2), np.uint8)
    inputs = ["q", "a", "z", "w", "b", "z", "s", "z"]
    nodes = [
        node("QuantizeLinear", ["x", "one"], ["q"]),
        node(kind, inputs, ["r"]),
        node("DequantizeLinear", ["r", "one"], ["y"]),
    ]
    weights = {
        "a": scalar(a), "b": scalar(b), "s": scalar(y), "w": w, "z": zero(), "one": scalar(1),
    }  # fmt: skip
    return model(nodes, {"x": shape}, weights=weights)


def microsoft(kind: str, scale: float, at: int) -> Any:
    """An operator of ONNX Runtime whose input `at` is this scale."""
    inputs = ["q", "one", "z", "q", "one", "z", "one", "z"]
    if kind == "QLinearSigmoid":
        inputs = ["q", "one", "z", "one", "z"]
    elif kind == "QLinearConcat":
        inputs = ["one", "z", "q", "one", "z", "q", "one", "z"]
    inputs[at] = "s"
    attributes = {"axis": 1} if kind == "QLinearConcat" else {}
    nodes = [
        node("QuantizeLinear", ["x", "one", "z"], ["q"]),
        node(kind, inputs, ["r"], domain="com.microsoft", **attributes),
        node("DequantizeLinear", ["r", "one", "z"], ["y"]),
    ]
    weights = {"s": scalar(scale), "one": scalar(1), "z": zero()}
    made = model(nodes, {"x": (1, 3)}, weights=weights)
    made.opset_import.add(domain="com.microsoft", version=1)
    return made


def refused(folder: Path, proto: Any, what: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(folder, proto)
    text = str(caught.value)
    assert what in text
    assert "node " in text
    assert caught.value.cure


@pytest.mark.parametrize("scale", BAD_STEPS)
@pytest.mark.parametrize(
    "make",
    [
        quantize,
        lambda s: quantize([1.0, 0.5, s]),
        lambda s: product("QLinearConv", y=s),
        lambda s: product("QLinearMatMul", y=s),
        lambda s: microsoft("QLinearAdd", s, 6),
        lambda s: microsoft("QLinearSigmoid", s, 3),
        lambda s: microsoft("QLinearConcat", s, 0),
    ],
)
def test_nothing_is_divided_by_a_scale_that_is_no_step(
    make: Callable[[float], Any], scale: float, tmp_path: Path
) -> None:
    refused(tmp_path, make(scale), "scale is ")


@pytest.mark.parametrize("scale", BAD_FACTORS)
@pytest.mark.parametrize(
    "make",
    [
        dequantize,
        lambda s: dequantize([s, 0.5, 1.0]),
        lambda s: product("QLinearConv", a=s),
        lambda s: product("QLinearConv", b=s),
        lambda s: product("QLinearMatMul", a=s),
        lambda s: product("QLinearMatMul", b=s),
        lambda s: microsoft("QLinearMul", s, 4),
        lambda s: microsoft("QLinearConcat", s, 6),
    ],
)
def test_nothing_is_multiplied_by_a_scale_that_is_no_step(
    make: Callable[[float], Any], scale: float, tmp_path: Path
) -> None:
    refused(tmp_path, make(scale), "scale is ")


def test_the_place_of_a_bad_scale_is_named(tmp_path: Path) -> None:
    refused(tmp_path, quantize([1.0, 0.5, 0.0]), "its scale is 0 at [2]")


@pytest.mark.parametrize("values", [[0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
def test_channels_of_zeros_may_have_the_scale_zero(values: list[float], tmp_path: Path) -> None:
    """As TensorFlow Lite writes it for filters that were pruned away."""
    graph = load(tmp_path, dequantize(values))
    x = np.array([[3, 4, 5]], np.float32)
    (y,) = evaluate(graph, {"x": x}).values()
    assert np.array_equal(y, x * np.float32(values))


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        ("LeakyRelu", "alpha", np.nan), ("Elu", "alpha", np.nan), ("HardSigmoid", "beta", np.nan),
        ("ThresholdedRelu", "alpha", np.nan), ("LRN", "beta", np.nan),
        ("LayerNormalization", "epsilon", np.nan), ("LayerNormalization", "epsilon", -1.0),
        ("RMSNormalization", "epsilon", -1.0), ("RMSNormalization", "epsilon", np.inf),
        ("InstanceNormalization", "epsilon", -1e-5), ("BatchNormalization", "epsilon", -1.0),
    ],
)  # fmt: skip
def test_attributes_that_would_make_no_numbers(
    kind: str, attribute: str, value: float, tmp_path: Path
) -> None:
    normalizes = {"InstanceNormalization": 2, "BatchNormalization": 4}.get(kind, 1)
    extra = ["w"] * normalizes if "Normalization" in kind else []
    attributes = {attribute: value, **({"size": 3} if kind == "LRN" else {})}
    size = 4 if kind in ("LayerNormalization", "RMSNormalization") else 3
    proto = model(
        [node(kind, ["x", *extra], ["y"], **attributes)], {"x": (1, 3, 4, 4)},
        weights={"w": np.ones(size, np.float32)}, opset=23,
    )  # fmt: skip
    with pytest.raises(ModelError, match=attribute):
        load(tmp_path, proto)


def test_scales_whose_product_is_beyond_float32_stay_floats(tmp_path: Path) -> None:
    """No integer layer is made of what its scale cannot hold."""
    from cannery.passes import run_passes

    def layers(scale: float) -> tuple[str, ...]:
        nodes = [
            node("QuantizeLinear", ["x", "one"], ["q"]),
            node("DequantizeLinear", ["q", "a"], ["f"]),
            node("DequantizeLinear", ["w", "b", "z"], ["g"]),
            node("MatMul", ["f", "g"], ["m"]),
            node("QuantizeLinear", ["m", "one"], ["p"]),
            node("DequantizeLinear", ["p", "one"], ["y"]),
        ]
        weights = {
            "one": scalar(1), "a": scalar(scale), "b": scalar(scale), "z": zero(np.int8),
            "w": np.ones((3, 2), np.int8),
        }  # fmt: skip
        return run_passes(
            load(tmp_path, model(nodes, {"x": (1, 3)}, weights=weights))
        ).integer_layers

    assert layers(1e-3)
    assert not layers(1e30)
    assert not layers(1e-30)
