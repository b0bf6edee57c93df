"""QONNX's and FINN's operators: each number of few, and integers where layers can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, to_model
from cannery.ops.quantize.linear import QuantizeLinear
from cannery.options import make_options
from cannery.pipeline import import_graph
from frontends.onnx_models import floats, load, model, node, onnx, write

QONNX = "qonnx.custom_op.general"
SHAPE = [2, 4, 3, 5]
ROUNDINGS = {"ROUND": np.rint, "CEIL": np.ceil, "FLOOR": np.floor}

Numbers = NDArray[np.float32]


def f32(value: Any) -> Numbers:
    return np.asarray(value, np.float32)


def of_node(kind: str, given: dict[str, Any], domain: str = QONNX, **attributes: Any) -> Any:
    """A network of one operator, whose further inputs are constants."""
    made = node(kind, ["x", *given], ["y"], domain=domain, **attributes)
    proto = model([made], {"x": SHAPE}, weights={k: f32(v) for k, v in given.items()})
    proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return proto


def run(graph: Graph, x: Numbers) -> NDArray[Any]:
    found = to_model(graph, evaluate(graph, from_model(graph, {"x": x})))
    return np.asarray(found["y"])


def numbers(scale: float = 1.0, seed: int = 0) -> Numbers:
    """Numbers some of which are half-way between two steps of 0.5."""
    x = floats(*SHAPE, seed=seed) * np.float32(3 * scale)
    return np.where(x > 0, np.round(x * 4) / 4, x).astype(np.float32)


def quantised(
    x: Numbers, scale: Any, zero: float, low: int, high: int, rounding: str
) -> NDArray[np.float32]:
    """What QONNX says, in its order."""
    inside = np.clip(x / f32(scale) + f32(zero), f32(low), f32(high))
    return (ROUNDINGS[rounding](inside) - f32(zero)) * f32(scale)


BY_CHANNEL = np.array([0.5, 0.1, 0.03, 1]).reshape(1, 4, 1, 1)


@pytest.mark.parametrize("scale", [0.5, 0.037, BY_CHANNEL], ids=["half", "odd", "by-channel"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "low", "high"),
    [
        (8, 1, 0, -128, 127), (8, 1, 1, -127, 127), (8, 0, 0, 0, 255), (4, 1, 0, -8, 7),
        (4, 0, 1, 0, 14), (2, 1, 1, -1, 1), (1, 0, 0, 0, 1), (12, 1, 0, -2048, 2047),
        (24, 1, 0, -(2**23), 2**23 - 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zero", [0.0, 3.0])
def test_quant(
    tmp_path: Path, bits: int, signed: int, narrow: int, low: int, high: int, zero: float,
    rounding: str, scale: Any,
) -> None:  # fmt: skip
    given = {"scale": scale, "zero": zero, "bits": bits}
    proto = of_node("Quant", given, signed=signed, narrow=narrow, rounding_mode=rounding)
    graph = load(tmp_path, proto)
    x = numbers(10.0)
    expected = quantised(x, scale, zero, low, high, rounding)
    assert np.array_equal(run(graph, x).astype(np.float32), expected)
    integers = rounding == "ROUND" and not zero and bits <= 16
    assert any(isinstance(n.op, QuantizeLinear) for n in graph.nodes) == integers


@pytest.mark.parametrize("domain", [QONNX, "finn.custom_op.general", "onnx.brevitas"])
def test_names_of_the_domain(tmp_path: Path, domain: str) -> None:
    given = {"scale": 0.5, "zero": 0, "bits": 4}
    graph = load(tmp_path, of_node("Quant", given, domain, signed=1, narrow=0))
    assert np.array_equal(run(graph, numbers()), quantised(numbers(), 0.5, 0, -8, 7, "ROUND"))


def test_one_signed_bit_is_a_sign(tmp_path: Path) -> None:
    x = numbers()
    given = {"scale": 0.5, "zero": 0, "bits": 1}
    found = run(load(tmp_path, of_node("Quant", given, signed=1, narrow=0)), x)
    assert np.array_equal(found, np.where(x >= 0, 0.5, -0.5)) and 0 in x
    found = run(load(tmp_path, of_node("BipolarQuant", {"scale": BY_CHANNEL})), x)
    assert np.array_equal(
        found.astype(np.float32), np.where(x >= 0, f32(BY_CHANNEL), -f32(BY_CHANNEL))
    )


@pytest.mark.parametrize("rounding", ["ROUND", "FLOOR"])
@pytest.mark.parametrize("zero", [0.0, 4.0])
def test_trunc(tmp_path: Path, rounding: str, zero: float) -> None:
    whole = np.rint(numbers(10.0))
    x = (whole * 0.25).astype(np.float32)
    cut = ROUNDINGS[rounding]
    given: dict[str, Any] = {"scale": 0.25, "zero": zero, "before": 8, "after": 5}
    found = run(load(tmp_path, of_node("Trunc", given, rounding_mode=rounding)), x)
    assert np.array_equal(found, (cut((whole + zero) / 8) - zero) * 0.25)
    given = {"scale": 0.25, "zero": zero, "before": 8, "to": 2, "to_zero": 0, "after": 4}
    found = run(load(tmp_path, of_node("Trunc", given, rounding_mode=rounding, signed=1)), x)
    short = cut(np.clip((whole + zero) / 8, -8, 7))
    assert np.array_equal(found, (short - zero / 8) * 2) and np.abs(short).max() > 6


@pytest.mark.parametrize(("layout", "axis"), [("NCHW", 1), ("NHWC", 3)])
@pytest.mark.parametrize("alone", [True, False])
def test_thresholds(tmp_path: Path, layout: str, axis: int, alone: bool) -> None:
    x = numbers()
    thresholds = np.round(floats(1 if alone else SHAPE[axis], 7) * 8) / 4  # in no order
    attributes = {"out_dtype": "UINT3", "data_layout": layout, "out_scale": 0.5, "out_bias": -1.0}
    proto = of_node("MultiThreshold", {"thresholds": thresholds}, **attributes)
    reached = np.moveaxis(x, axis, -1)[..., None] >= thresholds
    expected = np.moveaxis(reached.sum(-1), -1, axis) * 0.5 - 1
    assert np.array_equal(run(load(tmp_path, proto), x), expected)
    assert (np.moveaxis(x, axis, -1)[..., None] == thresholds).any()


def quantised_net(bits: int) -> Any:
    """As Brevitas exports it: weights and activations are quantised, the rest are floats."""

    def quant(x: str, y: str, scale: str, signed: int) -> Any:
        return node("Quant", [x, scale, "zero", "bits"], [y], domain=QONNX, signed=signed,
                    narrow=signed, rounding_mode="ROUND")  # fmt: skip

    nodes = [
        quant("x", "qx", "sx", 1),
        quant("w1", "qw1", "sw", 1),
        node("Conv", ["qx", "qw1", "b1"], ["c"]),
        node("Relu", ["c"], ["r"]),
        quant("r", "qr", "sr", 0),
        node("Flatten", ["qr"], ["f"]),
        quant("w2", "qw2", "sw", 1),
        node("MatMul", ["f", "qw2"], ["y"]),
    ]
    scales = {"sx": 0.25, "sw": 2.0 ** (1 - bits), "sr": 0.125, "zero": 0.0, "bits": float(bits)}
    weights = {
        **{name: f32(v) for name, v in scales.items()},
        "w1": floats(8, 4, 2, 2) / 4, "b1": floats(8), "w2": floats(64, 5) / 4,
    }  # fmt: skip
    proto = model(nodes, {"x": SHAPE}, weights=weights)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    proto.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
    return proto


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_layers_of_integers(tmp_path: Path, bits: int) -> None:
    path = write(tmp_path / "net.onnx", quantised_net(bits))
    graph = import_graph(make_options(path, {}))
    assert len(graph.integer_layers) == 2
    judge = load_graph(path)
    x = {"x": floats(1, *SHAPE[1:])}
    expected = evaluate(judge, from_model(judge, x))["y"]
    found = evaluate(graph, from_model(graph, x))["y"]
    assert np.allclose(found, expected, atol=graph.unit_error * np.abs(expected).max())
    assert np.abs(expected).max() > 0.5


@pytest.mark.parametrize(
    ("kind", "given", "attributes", "message"),
    [
        ("Quant", {"s": 0.0, "z": 0, "b": 8}, {}, "a scale is not positive"),
        ("Quant", {"s": -1.0, "z": 0, "b": 8}, {}, "a scale is not positive"),
        ("Quant", {"s": np.nan, "z": 0, "b": 8}, {}, "its scales are not finite"),
        ("Quant", {"s": 1.0, "z": np.inf, "b": 8}, {}, "its zeros are not finite"),
        ("Quant", {"s": 1.0, "z": 0, "b": 2.5}, {}, "2.5. bits; 1 to 32"),
        ("Quant", {"s": 1.0, "z": 0, "b": 64}, {}, "bits; 1 to 32"),
        ("Quant", {"s": 1.0, "z": 0, "b": [8, 8]}, {}, "bits; 1 to 32"),
        ("Quant", {"s": 1.0, "z": 0, "b": 8}, {"rounding_mode": "UP"}, "rounding 'UP'"),
        ("Quant", {"s": 1.0, "z": 0, "b": 8}, {"other": 1}, "attribute 'other'"),
        ("Quant", {"s": [1.0, 2.0], "z": 0, "b": 8}, {}, "do not broadcast"),
        ("Quant", {"s": 1.0, "z": 0}, {}, "its numbers of bits"),
        ("Trunc", {"s": 1.0, "z": 0, "b": 4, "t": 8}, {}, "4 bits become 8"),
        ("MultiThreshold", {"t": [1.0, 2.0]}, {}, r"thresholds of shape \(2,\)"),
        ("MultiThreshold", {"t": [[1.0]] * 3}, {}, r"thresholds of shape \(3, 1\)"),
        ("MultiThreshold", {"t": [[np.nan]]}, {}, "its thresholds are not finite"),
        ("FloatQuant", {"s": 1.0}, {}, "operators of the domain"),
    ],
)  # fmt: skip
def test_what_is_malformed(
    tmp_path: Path, kind: str, given: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message) as caught:
        load(tmp_path, of_node(kind, given, **attributes))
    assert "y" in str(caught.value)


def test_a_scale_that_is_computed(tmp_path: Path) -> None:
    made = node("Quant", ["x", "s", "z", "b"], ["y"], domain=QONNX)
    proto = model([made], {"x": SHAPE, "s": []}, weights={"z": f32(0), "b": f32(8)})
    proto.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
    with pytest.raises(UnsupportedError, match="its scales are computed at run time"):
        load(tmp_path, proto)
