"""TensorFlow Lite files as the documentation says: tf2onnx makes ONNX of them, Cannery reads that,
and the outputs are LiteRT's. Skipped without tf2onnx, TensorFlow and LiteRT.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import ModelError
from cannery.frontends import load_graph
from needs import need_program
from networks import write_network

ROOT = Path(__file__).parents[2]
PACKAGES = ("tf2onnx", "tensorflow", "ai_edge_litert")


def convert(tflite: Path) -> Path:
    """The command of README.md."""
    onnx = tflite.with_suffix(".onnx")
    command = [sys.executable, "-m", "tf2onnx.convert", "--tflite", tflite, "--output", onnx]
    done = subprocess.run(
        list(map(str, command)), cwd=tflite.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return onnx


def by_litert(tflite: Path, x: NDArray[Any]) -> NDArray[Any]:
    """The only output for the only input."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(tflite))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.fixture(params=["ball", "robot_detector", "pedestrian"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A network of the benchmarks as TensorFlow Lite."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from rivals.exchange import exchange_graph
    from rivals.tflite.model import tflite_model

    keras = write_network(request.param, tmp_path)
    file = tmp_path / "network.tflite"
    file.write_bytes(tflite_model(exchange_graph(keras)))
    return file


def test_outputs_are_those_of_litert(model: Path) -> None:
    need_program("gcc")
    net = cannery.load(convert(model))
    x = np.random.default_rng(1).random(net.inputs[0].shape, np.float32)
    y, expected = net(x), by_litert(model, x)
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_error_tells_the_way(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(ModelError) as caught:
        load_graph(file)
    command = "python -m tf2onnx.convert --tflite"
    assert command in str(caught.value)
    assert command in (ROOT / "docs" / "reference" / "models.md").read_text()
