"""What layers with weights become: operators, names of nodes, transformed weights.

Those without are in `test_keras_layers.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ir.evaluate import evaluate
from cannery.ir.registry import Op
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Transpose
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.softmax.op import Softmax
from frontends.keras_files import LayerSpec
from frontends.keras_single import conv, imported, kernel, numbers, ops

CONVOLUTIONS = [
    # "same" with a stride: what is odd goes to the end, as in TensorFlow
    ((8, 9, 2), conv("Conv2D", kernel(3, 3, 2, 4), filters=4, kernel_size=[3, 3], strides=[2, 2],
                     padding="same"),
     Conv((2, 2), ((0, 1), (1, 1)), (1, 1))),
    ((8, 9, 2), conv("Conv2D", kernel(2, 5, 2, 4), filters=4, kernel_size=[2, 5], padding="same"),
     Conv((1, 1), ((0, 1), (2, 2)), (1, 1))),
    ((8, 9, 2), conv("Conv2D", kernel(1, 1, 2, 4), filters=4, kernel_size=1, strides=3,
                     padding="same"),
     Conv((3, 3), ((0, 0), (0, 0)), (1, 1))),
    ((8, 9, 6), conv("Conv2D", kernel(3, 3, 2, 6), filters=6, kernel_size=[3, 3], groups=3,
                     dilation_rate=[2, 3], padding="same"),
     Conv((1, 1), ((2, 2), (3, 3)), (2, 3), 3)),
    ((9, 2), conv("Conv1D", kernel(3, 2, 4), filters=4, kernel_size=[3], padding="causal",
                  dilation_rate=[2]),
     Conv((1,), ((4, 0),), (2,))),
    ((9, 2), conv("Conv1D", kernel(3, 2, 4), filters=4, kernel_size=3, strides=[2]),
     Conv((2,), ((0, 0),), (1,))),
    # transposed: output sizes of Keras, windows of TensorFlow
    ((4, 4, 2), conv("Conv2DTranspose", kernel(3, 3, 5, 2), filters=5, kernel_size=[3, 3],
                     strides=[2, 2], padding="same"),
     ConvTranspose((2, 2), ((0, 1), (0, 1)), (1, 1), (0, 0))),
    ((4, 4, 2), conv("Conv2DTranspose", kernel(3, 3, 5, 2), filters=5, kernel_size=[3, 3],
                     strides=[2, 2], padding="valid"),
     ConvTranspose((2, 2), ((0, 0), (0, 0)), (1, 1), (0, 0))),
    ((4, 4, 2), conv("Conv2DTranspose", kernel(2, 2, 5, 2), filters=5, kernel_size=[2, 2],
                     strides=[3, 3], padding="same"),
     ConvTranspose((3, 3), ((0, 0), (0, 0)), (1, 1), (1, 1))),
    ((4, 4, 2), conv("Conv2DTranspose", kernel(4, 5, 5, 2), filters=5, kernel_size=[4, 5],
                     strides=[2, 2], padding="same", output_padding=[1, 0]),
     ConvTranspose((2, 2), ((1, 2), (2, 2)), (1, 1), (0, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "spec", "op"), CONVOLUTIONS)
def test_convolutions(shape: tuple[int, ...], spec: LayerSpec, op: Op, tmp_path: Path) -> None:
    graph = imported(tmp_path, spec, shape)
    assert ops(graph) == [("c", op)]
    np.testing.assert_array_equal(graph.constants["c/kernel"], spec.weights["kernel"])


def test_transposed_sizes_are_those_of_keras(tmp_path: Path) -> None:
    for k, s, padding, extra, size in (
        (3, 2, "same", None, 8), (3, 2, "valid", None, 9), (2, 3, "valid", None, 12),
        (3, 2, "same", 1, 8), (3, 2, "same", 0, 7), (4, 3, "valid", 2, 15), (5, 1, "same", None, 4),
    ):  # fmt: skip
        config = {"filters": 1, "kernel_size": [k], "strides": [s], "padding": padding}
        spec = conv("Conv1DTranspose", kernel(k, 1, 1), output_padding=extra, **config)
        assert imported(tmp_path, spec, (4, 1)).types["c"].shape == (1, size, 1)


def test_depthwise_channels_keep_their_order(tmp_path: Path) -> None:
    weights = {"depthwise_kernel": numbers(1, 2, 2, 3, 2), "bias": numbers(2, 6)}
    spec = conv("DepthwiseConv2D", weights, kernel_size=[2, 2], depth_multiplier=2)
    graph = imported(tmp_path, spec, (2, 2, 3))
    assert ops(graph) == [("c", Conv((1, 1), ((0, 0), (0, 0)), (1, 1), 3))]
    x = numbers(3, 1, 2, 2, 3)
    (y,) = evaluate(graph, {"x0": x}).values()
    for c in range(3):
        for j in range(2):
            window = (x[0, :, :, c].astype(float) * weights["depthwise_kernel"][:, :, c, j]).sum()
            assert y[0, 0, 0, 2 * c + j] == pytest.approx(window + weights["bias"][2 * c + j])


@pytest.mark.parametrize("version", ["2.15.0", "3.4.1"])
def test_separable_convolution_is_two(version: str, tmp_path: Path) -> None:
    weights = {
        "depthwise_kernel": numbers(1, 3, 3, 2, 2),
        "pointwise_kernel": numbers(2, 1, 1, 4, 5),
        "bias": numbers(3, 5),
    }
    spec = conv("SeparableConv2D", weights, filters=5, kernel_size=[3, 3], strides=[2, 2],
                depth_multiplier=2, activation="relu")  # fmt: skip
    graph = imported(tmp_path, spec, (7, 7, 2), version=version)
    ones, none = (1, 1), ((0, 0), (0, 0))
    assert ops(graph) == [
        ("c/depthwise", Conv((2, 2), none, ones, 2)),
        ("c/pointwise", Conv(ones, none, ones)),
        ("c/relu", act.Relu()),
    ]
    np.testing.assert_array_equal(
        graph.constants["c/depthwise_kernel"], weights["depthwise_kernel"].reshape(3, 3, 1, 4)
    )


def test_depthwise_kernel_of_keras_3_is_called_kernel(tmp_path: Path) -> None:
    weights = {"kernel": numbers(1, 2, 2, 3, 1)}
    spec = conv("DepthwiseConv2D", weights, kernel_size=[2, 2], depth_multiplier=1)
    graph = imported(tmp_path, spec, (2, 2, 3), version="3.4.1")
    np.testing.assert_array_equal(
        graph.constants["c/depthwise_kernel"], weights["kernel"].reshape(2, 2, 1, 3)
    )


def test_channels_first_goes_through_transpositions(tmp_path: Path) -> None:
    spec = conv("Conv2D", kernel(3, 3, 2, 4), filters=4, kernel_size=[3, 3], activation="relu",
                data_format="channels_first")  # fmt: skip
    graph = imported(tmp_path, spec, (2, 8, 9))
    assert ops(graph) == [
        ("c/channels_last", Transpose((0, 2, 3, 1))),
        ("c", Conv((1, 1), ((0, 0), (0, 0)), (1, 1))),
        ("c/relu", act.Relu()),
        ("c/channels_first", Transpose((0, 3, 1, 2))),
    ]
    assert graph.types["c"].shape == (1, 4, 6, 7)


def test_activations_along_an_axis_see_channels_where_keras_has_them(tmp_path: Path) -> None:
    spec = conv("Conv2D", kernel(3, 3, 2, 4), filters=4, kernel_size=[3, 3], activation="softmax",
                data_format="channels_first")  # fmt: skip
    graph = imported(tmp_path, spec, (2, 8, 9))
    assert [name for name, _ in ops(graph)][-2:] == ["c/channels_first", "c/softmax"]
    assert graph.nodes[-1].op == Softmax(3)


def test_dense_of_any_rank(tmp_path: Path) -> None:
    weights = {"kernel": numbers(1, 5, 3), "bias": numbers(2, 3)}
    for shape in ((5,), (2, 5), (2, 3, 4, 5)):
        spec = LayerSpec("Dense", "d", (), {"units": 3, "activation": "tanh"}, weights)
        graph = imported(tmp_path, spec, shape)
        assert ops(graph) == [("d", MatMul()), ("d/tanh", act.Tanh())]
        assert graph.types["d"].shape == (1, *shape[:-1], 3)
        assert graph.nodes[0].inputs == ("x0", "d/kernel", "d/bias")


def _norm_weights(size: int) -> dict[str, NDArray[np.float32]]:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    return {n: np.abs(numbers(i, size)) for i, n in enumerate(names)}


@pytest.mark.parametrize(("axis", "resolved"), [(-1, 3), ([3], 3), (1, 1), ([2], 2)])
@pytest.mark.parametrize("class_name", ["BatchNormalization", "BatchNormalizationV1"])
def test_batch_normalization(class_name: str, axis: Any, resolved: int, tmp_path: Path) -> None:
    weights = _norm_weights((0, 5, 6, 7)[resolved])
    spec = LayerSpec(class_name, "b", (), {"axis": axis, "epsilon": 0.01}, weights)
    graph = imported(tmp_path, spec, (5, 6, 7))
    assert ops(graph) == [("b", BatchNormalization(resolved, 0.01))]
    assert graph.nodes[0].inputs[1:] == ("b/gamma", "b/beta", "b/moving_mean", "b/moving_variance")


def test_batch_normalization_without_scale_and_center(tmp_path: Path) -> None:
    weights = {k: v for k, v in _norm_weights(4).items() if k.startswith("moving")}
    spec = LayerSpec("BatchNormalization", "b", (), {"scale": False, "center": False}, weights)
    graph = imported(tmp_path, spec, (4,), version="3.4.1", archive=True)
    assert ops(graph) == [("b", BatchNormalization(1, 1e-3))]
    np.testing.assert_array_equal(graph.constants["b/gamma"], np.ones(4))
    np.testing.assert_array_equal(graph.constants["b/beta"], np.zeros(4))


def test_layer_normalization(tmp_path: Path) -> None:
    for axis, axes, stored in (
        (-1, (3,), (4,)),
        ([3, 1], (1, 3), (2, 4)),
        ([1, 2], (1, 2), (2, 3)),
    ):
        weights = {"gamma": numbers(1, *stored), "beta": numbers(2, *stored)}
        spec = LayerSpec("LayerNormalization", "l", (), {"axis": axis, "epsilon": 0.1}, weights)
        graph = imported(tmp_path, spec, (2, 3, 4))
        assert ops(graph) == [("l", LayerNormalization(axes, 0.1))]
    weights = {"beta": numbers(2, 4)}
    spec = LayerSpec("LayerNormalization", "l", (), {"scale": False}, weights)
    assert imported(tmp_path, spec, (3, 4)).nodes[0].inputs == ("x0", "", "l/beta")


def test_group_normalization(tmp_path: Path) -> None:
    weights = {"gamma": numbers(1, 6), "beta": numbers(2, 6)}
    for groups, expected in ((2, 2), (-1, 6)):
        spec = LayerSpec("GroupNormalization", "g", (), {"groups": groups, "axis": -1}, weights)
        graph = imported(tmp_path, spec, (4, 4, 6))
        assert ops(graph) == [("g", GroupNormalization(expected, 3, 1e-3))]


def test_prelu_shares_slopes(tmp_path: Path) -> None:
    for shared, shape in ((None, (5, 6, 7)), ([1, 2], (1, 1, 7)), ([3], (5, 6, 1))):
        weights = {"alpha": numbers(1, *shape)}
        spec = LayerSpec("PReLU", "p", (), {"shared_axes": shared}, weights)
        graph = imported(tmp_path, spec, (5, 6, 7))
        assert ops(graph) == [("p", act.PRelu())]
        assert graph.types["p/alpha"].shape == shape


def test_prelu_as_an_activation_is_stored_within_its_layer(tmp_path: Path) -> None:
    activation = {"class_name": "PReLU", "config": {"name": "p", "shared_axes": None}}
    weights = {"kernel": numbers(1, 3, 4), "bias": numbers(2, 4), "alpha": numbers(3, 4)}
    spec = LayerSpec("Dense", "d", (), {"units": 4, "activation": activation}, weights)
    graph = imported(tmp_path, spec, (3,))
    assert ops(graph) == [("d", MatMul()), ("d/prelu", act.PRelu())]
    np.testing.assert_array_equal(graph.constants["d/activation/alpha"], weights["alpha"])


def test_rescaling(tmp_path: Path) -> None:
    spec = LayerSpec("Rescaling", "r", (), {"scale": 0.5, "offset": -1.0})
    graph = imported(tmp_path, spec, (4,))
    assert ops(graph) == [("r/scale", Mul()), ("r", Add())]
    spec = LayerSpec("Rescaling", "r", (), {"scale": [1.0, 2.0], "offset": 0.0})
    graph = imported(tmp_path, spec, (3, 2))
    assert ops(graph) == [("r", Mul())]
    np.testing.assert_array_equal(graph.constants["r/scale_value"], [1, 2])


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_normalization(invert: bool, given: bool, tmp_path: Path) -> None:
    mean, variance = np.float32([1.5, -2.0, 0.0]), np.float32([4.0, 0.25, 0.0])
    config: dict[str, Any] = {"axis": [-1], "invert": invert}
    weights = {"mean": mean, "variance": variance, "count": np.int64(7)}
    if given:
        config |= {"mean": mean.tolist(), "variance": variance.tolist()}
        weights = {}
    spec = LayerSpec("Normalization", "n", (), config, weights)
    graph = imported(tmp_path, spec, (2, 3))
    x = numbers(4, 1, 2, 3)
    (y,) = evaluate(graph, {"x0": x}).values()
    deviation = np.maximum(np.sqrt(variance.astype(float)), 1e-7)
    expected = mean + x * deviation if invert else (x.astype(float) - mean) / deviation
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_normalization_of_everything_together(tmp_path: Path) -> None:
    config = {"axis": None, "mean": 3.0, "variance": 4.0}
    graph = imported(tmp_path, LayerSpec("Normalization", "n", (), config), (2, 3))
    (y,) = evaluate(graph, {"x0": np.full((1, 2, 3), 5.0, np.float32)}).values()
    np.testing.assert_array_equal(y, np.ones((1, 2, 3)))
