"""The option SET: inputs that are constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.fixed import constant_of
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.options_text import option_words
from cannery.pipeline import compile_model
from frontends.keras_files import Model, image, layer, write_h5
from frontends.onnx_models import floats, load, model, node, onnx, write


def fixed(folder: Path, proto: Any, **values: str) -> Any:
    return load(folder, proto, ImportOptions(fixed=values))


def vad() -> Any:
    """As Silero VAD: what is computed depends on an input, the sampling rate."""
    helper = onnx.helper
    branches = [
        helper.make_graph(
            [node("Mul", ["x", weight], [f"{weight}_y"])], weight, [],
            [helper.make_empty_tensor_value_info(f"{weight}_y")],
        )
        for weight in ("fast", "slow")
    ]  # fmt: skip
    nodes = [
        node("Equal", ["sr", "rate"], ["is_fast"]),
        node("If", ["is_fast"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    weights = {"fast": floats(2, 1), "slow": floats(3, 1), "rate": np.int64(16000)}
    proto = model(nodes, {"x": [1, 4]}, weights=weights)
    proto.graph.input.append(helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, []))
    return proto


@pytest.mark.parametrize(("rate", "rows"), [("16000", 2), ("8000", 3)])
def test_an_input_decides_which_branch_there_is(tmp_path: Path, rate: str, rows: int) -> None:
    graph = fixed(tmp_path, vad(), sr=rate)
    assert graph.inputs == ("x",) and len(graph.nodes) == 1
    x = floats(1, 4)
    found = evaluate(graph, {"x": x})["y"]
    assert np.allclose(found, x * floats(rows, 1), atol=1e-6)
    assert graph.notes == (f"the model's input 'sr' is {rate}",)


def test_without_the_option_the_error_names_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--set"):
        load(tmp_path, vad())


def test_python_and_the_header_have_what_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", vad())
    net = cannery.load(path, set={"sr": 8000})
    x = floats(1, 4)
    assert np.allclose(net(x), x * floats(3, 1), atol=1e-6)
    options = make_options(path, {"fixed": "sr=16000"})
    header = compile_model(options).files["m.h"].decode()
    assert "Note: the model's input 'sr' is 16000." in header and "int64" not in header
    assert option_words(options)[2:4] == ["--set", "sr=16000"]


def test_inputs_of_other_formats(tmp_path: Path) -> None:
    layers = [image("a", 2, 2, 1), image("b", 2, 2, 1), layer("Add", "sum", "a", "b")]
    path = write_h5(tmp_path / "net.h5", Model("net", layers, ["a", "b"], ["sum"]))
    graph = load_graph(path, ImportOptions(fixed={"b": "2.5"}))
    a = floats(1, 2, 2, 1)
    assert graph.inputs == ("a",)
    assert np.allclose(evaluate(graph, {"a": a})["sum"], a + 2.5)
    with pytest.raises(OptionError, match=r"no input is called 'c' .*inputs: a, b"):
        load_graph(path, ImportOptions(fixed={"c": "1"}))


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "expected"),
    [
        ("16000", DType.INT64, (), 16000),
        ("16000", DType.INT64, None, 16000),
        ("-1, 2", DType.INT8, None, [-1, 2]),
        ("1,2,3,4", DType.INT32, (2, 2), [[1, 2], [3, 4]]),
        ("0.5", DType.FLOAT32, (1, 3), [[0.5, 0.5, 0.5]]),
        ("1e3", DType.FLOAT32, (1,), [1000]),
        ("1", DType.FLOAT32, (), 1),
        ("true,0,False", DType.BOOL, (3,), [True, False, False]),
    ],
)
def test_values(text: str, dtype: DType, shape: tuple[int, ...] | None, expected: object) -> None:
    found = constant_of("v", text, dtype, shape)
    assert found.dtype == dtype.numpy and found.tolist() == expected


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "message"),
    [
        ("1.5", DType.INT64, (), "'1.5' is not a value of 'v', which is int64"),
        ("256", DType.UINT8, (), "a whole number from 0 to 255"),
        ("-1", DType.UINT8, (), "a whole number from 0 to 255"),
        ("true", DType.FLOAT32, (), "a finite number"),
        ("1e39", DType.FLOAT32, (), "a finite number"),
        ("2", DType.BOOL, (), "true or false"),
        ("1,2", DType.INT64, (3,), r"2 numbers for 'v', int64\[3\] .give one .* or 3"),
        ("1,2", DType.INT64, (), "2 numbers for 'v'"),
    ],
)
def test_values_that_do_not_fit(
    text: str, dtype: DType, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        constant_of("v", text, dtype, shape)
    assert caught.value.where == "--set"


@pytest.mark.parametrize("text", ["sr", "sr=", "sr=abc", "sr=1,,2", "sr=nan", "=1"])
def test_texts_that_are_malformed(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match="--set"):
        make_options(tmp_path / "m.onnx", {"fixed": text})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 3, "b": True}, {"a": "3", "b": "true"}),
        ({"a": [1, 2], "b": np.array([[0.5], [1]])}, {"a": "1,2", "b": "0.5,1.0"}),
        (["a=1", "b=-2"], {"a": "1", "b": "-2"}),
    ],
)
def test_values_from_python(tmp_path: Path, given: Any, expected: dict[str, str]) -> None:
    assert make_options(tmp_path / "m.onnx", {"fixed": given}).fixed == expected


def test_names_and_what_is_left(tmp_path: Path) -> None:
    proto = vad()
    for values, message in (
        ({"rate": "1"}, "no input is called 'rate'"),
        ({"sr": "1", "x": "1"}, "no input is left"),
        ({"sr": "1.5"}, "which is int64"),
    ):
        with pytest.raises(CanneryError, match=message):
            fixed(tmp_path, proto, **values)


def test_open_dimensions_of_an_input(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "h"], ["y"])], {"x": [1, 3], "h": ["n"]})
    graph = fixed(tmp_path, proto, h="1,2,3")
    assert evaluate(graph, {"x": np.zeros((1, 3))})["y"].tolist() == [[1, 2, 3]]
    graph = load(tmp_path, proto, ImportOptions(fixed={"h": "4"}, dims={"n": 3}))
    assert evaluate(graph, {"x": np.zeros((1, 3))})["y"].tolist() == [[4, 4, 4]]
