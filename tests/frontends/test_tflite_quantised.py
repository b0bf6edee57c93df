"""Quantised TensorFlow Lite files: the bits of LiteRT's reference kernels."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.errors import UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Scale
from cannery.ir.tensor import DType
from frontends.tflite_files import Graph as File
from frontends.tflite_files import tflite_file
from frontends.tflite_nets import NETS, samples
from frontends.tflite_quantised import CASES, GOLDEN, litert_result
from needs import need_program


def read(folder: Path, data: bytes) -> Graph:
    """The graph of a file with these bytes."""
    file = folder / "net.tflite"
    file.write_bytes(data)
    return load_graph(file)


def assert_same(found: np.ndarray, expected: np.ndarray, units: int = 0) -> None:
    """Integers to the bit, or up to some units; floats up to their rounding."""
    if units:
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= units
    elif expected.dtype != np.float32:
        assert np.array_equal(found, expected)
    else:
        assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    (found,) = evaluate(read(tmp_path, case.data()), case.inputs()).values()
    assert_same(np.asarray(found), np.load(GOLDEN)[name], case.units)


@pytest.mark.parametrize("name", CASES)
def test_the_expectation_is_that_of_litert(name: str) -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai_edge_litert is not installed")
    assert np.array_equal(litert_result(CASES[name]), np.load(GOLDEN)[name])


IN_C = (
    "conv", "depthwise_strides", "dense_channels", "dense_halves_int8", "softmax", "add",
    "hybrid_conv", "conv_int16_bias64", "conv_int16_bias32", "conv_int16_many_bias64",
    "conv_int16_many_bias32", "depthwise_int16", "dense_int16_channels_bias64", "transposed",
    "transposed_int16", "batch_matmul_int16", "softmax_shorts", "logistic_int16", "tanh_int16",
    "exp_int16", "leaky_relu_int16", "prelu", "equal_int16", "less_uint8", "squared_difference",
    "bilinear_14_HalfPixelCenters_int8", "bilinear_5_AlignCorners_int16", "mean_int16",
    "add_int16_powers_first", "l2_normalization", "l2_normalization_long",
    "l2_normalization_of_one", "l2_normalization_uint8", "div", "div_int16", "reduce_prod_kept",
    "log_softmax_wide",
)  # fmt: skip


@pytest.mark.parametrize("name", IN_C)
def test_code_computes_the_same_bits(name: str, tmp_path: Path) -> None:
    need_program("gcc")
    file = tmp_path / "net.tflite"
    file.write_bytes(CASES[name].data())
    found = cannery.load(file)(*CASES[name].inputs().values())
    assert_same(np.asarray(found), np.load(GOLDEN)[name])


@pytest.mark.parametrize("name", NETS)
def test_networks_compute_the_bits_of_litert(name: str, tmp_path: Path) -> None:
    """In the references, and as C on this processor."""
    need_program("gcc")
    graph, expected = read(tmp_path, NETS[name]()), np.load(GOLDEN)[f"net_{name}"]
    net = cannery.load(tmp_path / "net.tflite")
    assert len(np.unique(expected)) > 5
    for x, y in zip(samples(graph.types[graph.inputs[0]].shape), expected, strict=True):
        (found,) = evaluate(graph, {graph.inputs[0]: x}).values()
        assert np.array_equal(found[0], y)
        assert np.array_equal(np.asarray(net(x))[0], y)


def test_scales_of_the_interface_are_known(tmp_path: Path) -> None:
    graph = read(tmp_path, CASES["conv"].data())
    (x,), (y,) = graph.inputs, graph.outputs
    assert graph.types[x].dtype is DType.INT8
    assert graph.scales[x] == Scale(float(np.float32(0.05)), 3)
    assert graph.scales[y] == Scale(float(np.float32(0.9)), -11)


def test_floats_times_weights_with_zero_points_are_an_error(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 4))
        w = g.constant(np.ones((3, 4), np.uint8), scales=[0.1], zeros=[7])
        y = g.tensor((1, 3))
        return [g.add("FULLY_CONNECTED", [x, w], y, options="FullyConnectedOptions")]

    with pytest.raises(UnsupportedError, match="floats times weights of UINT8"):
        read(tmp_path, tflite_file(fill))


def test_moves_keep_scales(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((2, 3), "INT8", scales=[0.1], zeros=[2])
        y = g.tensor((3, 2), "INT8", scales=[0.2], zeros=[2])
        return [g.add("RESHAPE", [x], y, options="ReshapeOptions", NewShape=[3, 2])]

    with pytest.raises(UnsupportedError, match="between tensors with different scales"):
        read(tmp_path, tflite_file(fill))


def test_weights_may_be_dequantised(tmp_path: Path) -> None:
    """Stored as bytes with a scale for each row, and used as floats."""

    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 2))
        stored = np.array([[1, -2], [3, 4], [5, 6]], np.int8)
        w = g.constant(stored, scales=[0.5, 1.0, 2.0], zeros=[0, 1, 0], axis=0)
        wide = g.add("DEQUANTIZE", [w], g.tensor((3, 2)), options="DequantizeOptions")
        y = g.tensor((1, 3))
        return [g.add("FULLY_CONNECTED", [x, wide], y, options="FullyConnectedOptions")]

    graph = read(tmp_path, tflite_file(fill))
    (y,) = evaluate(graph, {"x0": np.array([[1.0, 10.0]], np.float32)}).values()
    assert np.array_equal(y, [[-9.5, 32, 130]])
