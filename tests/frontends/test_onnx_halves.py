"""float16 and bfloat16: read as float32, computed with float32, and said so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.cli import invoke
from cannery.errors import UnsupportedError
from cannery.execution.samples import read_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from cannery.ir.tensor import DType, TensorType
from cannery.options import make_options
from cannery.pipeline import compile_model
from frontends.onnx_models import expected, floats, load, model, node, onnx, write

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
SHAPE = (1, 3, 6, 7)


def half(*shape: int, seed: int = 0) -> Any:
    return floats(*shape, seed=seed).astype(np.float16)


def _network() -> Any:
    """All of it float16, with a constant, a normalisation and a dense layer."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"]),
        node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.float16([0.1]))),
        node("Mul", ["n", "k"], ["m"]), node("Relu", ["m"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "d"], ["g"]), node("Softmax", ["g"], ["y"]),
    ]  # fmt: skip
    weights = {"w": half(4, 3, 3, 3), "b": half(4, seed=1), "s": np.abs(half(4, seed=2)) + 1,
               "d": half(4, 5, seed=3)}  # fmt: skip
    return _typed(model(nodes, {"x": SHAPE}, ["y", "r"], weights, dtype=FLOAT16))


def _mixed() -> Any:
    """A float32 network with layers of float16 in its middle."""
    nodes = [
        node("Conv", ["x", "w"], ["a"]), node("Cast", ["a"], ["b"], to=FLOAT16),
        node("MatMul", ["b", "v"], ["c"]), node("Cast", ["c"], ["d"], to=FLOAT),
        node("CastLike", ["d", "v"], ["e"]), node("Cast", ["e"], ["y"], to=FLOAT),
    ]  # fmt: skip
    return model(nodes, {"x": SHAPE}, weights={"w": floats(4, 3, 3, 3), "v": half(5, 5)})


def _typed(proto: Any, dtype: int = FLOAT16) -> Any:
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = dtype
    return proto


@pytest.mark.parametrize("make", [_network, _mixed])
def test_results(make: Any, tmp_path: Path) -> None:
    proto = make()
    graph = load(tmp_path, proto)
    assert {t.dtype for t in graph.types.values()} <= {DType.FLOAT32, DType.INT64}
    x = half(*SHAPE)
    given = x if proto.graph.input[0].type.tensor_type.elem_type == FLOAT16 else x.astype("f4")
    found = to_model(graph, evaluate(graph, from_model(graph, {"x": x.astype(np.float32)})))
    for y, reference in zip(found.values(), expected(proto, {"x": given}), strict=True):
        assert np.allclose(y, reference.astype(np.float64), rtol=1e-2, atol=1e-2)


def test_the_interface_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "net.onnx", _network())
    why = (
        "'x' (float16), 'y' (float16), 'r' (float16): float32 here, and so is everything that "
        "the model computes with such floats"
    )
    compiled = compile_model(make_options(path, {"isa": "generic"}))
    header = compiled.files["net.h"].decode()
    assert f" * Note: {why}.\n" in header
    assert "void net_run(const float *x, float *y, float *r);" in header
    words = ["compile", str(path), "-o", str(tmp_path / "out"), "--isa", "generic"]
    assert invoke(words) == 0
    assert f"note: {why}" in capsys.readouterr().err
    assert invoke(["inspect", str(path)]) == 0
    assert f"Note: {why}." in capsys.readouterr().out
    net = cannery.load(path, isa="generic", outputs="g")
    assert net.inputs[0].dtype == np.float32
    assert net(half(*SHAPE)).dtype == np.float32


def test_samples_may_be_what_the_model_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=half(2, 3))
    (x, _) = read_samples(tmp_path / "x.npz", {"x": TensorType((1, 3))})
    assert x["x"].dtype == np.float32 and np.array_equal(x["x"], half(2, 3)[:1])


def test_layers_in_the_middle_are_said(tmp_path: Path) -> None:
    (text,) = load(tmp_path, _mixed()).notes
    assert text == "the model's float16 and bfloat16 computations use float32"


def test_layers_without_a_cast_to_them_are_said(tmp_path: Path) -> None:
    nodes = [
        node("CastLike", ["x", "v"], ["a"]), node("MatMul", ["a", "v"], ["b"]),
        node("CastLike", ["b", "x"], ["y"]),
    ]  # fmt: skip
    graph = load(tmp_path, model(nodes, {"x": [2, 5]}, weights={"v": half(5, 5)}))
    assert len(graph.notes) == 1 and graph.notes[0].startswith("the model's float16")


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_weights_that_are_only_stored_so_are_not(dtype: int, tmp_path: Path) -> None:
    w = onnx.helper.make_tensor("w", dtype, [4, 3], floats(12))
    nodes = [node("Cast", ["w"], ["f"], to=FLOAT), node("MatMul", ["x", "f"], ["y"])]
    proto = model(nodes, {"x": [1, 4]})
    proto.graph.initializer.append(w)
    graph = load(tmp_path, proto)
    (weights,) = graph.constants.values()
    stored = onnx.numpy_helper.to_array(w).astype(np.float32)
    assert weights.dtype == np.float32 and np.array_equal(weights, stored)
    assert not graph.notes


def test_bfloat16(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "w"], ["z"]), node("Exp", ["z"], ["y"])]
    proto = _typed(model(nodes, {"x": [4]}, dtype=BFLOAT16), BFLOAT16)
    proto.graph.initializer.append(onnx.helper.make_tensor("w", BFLOAT16, [4], [1, 2, -1, 0.5]))
    graph = load(tmp_path, proto)
    (y,) = evaluate(graph, {"x": np.ones(4, np.float32)}).values()
    assert np.allclose(y, np.exp([1, 2, -1, 0.5]))
    assert "'x' (bfloat16)" in graph.notes[0]


def test_quantised_with_scales_of_float16(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = {"s": np.float16(0.25), "z": np.uint8(3)}
    proto = _typed(model(nodes, {"x": [4]}, weights=weights, dtype=FLOAT16, opset=19))
    (y,) = evaluate(load(tmp_path, proto), {"x": np.float32([0.3, -9, 0.5, 99])}).values()
    assert y.tolist() == [0.25, -0.75, 0.5, 63.0]


def test_bits_of_such_floats_are_refused(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["i"], to=4), node("BitCast", ["i"], ["h"], to=FLOAT16),
             node("Cast", ["h"], ["y"], to=FLOAT)]  # fmt: skip
    with pytest.raises(UnsupportedError, match="elements of float16 are not supported"):
        load(tmp_path, model(nodes, {"x": [4]}, opset=26))
