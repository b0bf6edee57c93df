"""What each layer becomes: operators with their attributes, names of nodes, transformed weights.

That these compute what Keras does was established with `compare_with_keras.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise.binary import Add, Max, Min, Mul, Sub
from cannery.ops.elementwise.unary import Exp
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.reduce.op import ReduceMax, ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import LogSoftmax, Softmax
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5, write_keras

Ops = Sequence[tuple[str, Op]]


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def imported(
    folder: Path,
    spec: LayerSpec,
    *shapes: tuple[int, ...],
    version: str = "2.15.0",
    archive: bool = False,
) -> Graph:
    """The graph of a single layer on inputs x0, x1 ... of these shapes (without the batch)."""
    inputs = [image(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    names: Any = [spec.name for spec in inputs]
    call = [names] if len(names) > 1 and version.startswith("3") else names
    single = LayerSpec(spec.class_name, spec.name, [call], spec.config, spec.weights)
    model = Model("net", [*inputs, single], names, [spec.name])
    write = write_keras if archive else write_h5
    return load_graph(write(folder / "model", model, version))


def ops(graph: Graph) -> Ops:
    return [(node.name, node.op) for node in graph.nodes]


def conv(class_name: str, weights: Mapping[str, Any], **config: Any) -> LayerSpec:
    return LayerSpec(class_name, "c", (), {"use_bias": "bias" in weights, **config}, weights)


def kernel(*shape: int) -> dict[str, NDArray[np.float32]]:
    return {"kernel": numbers(1, *shape)}


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


NONE = ((0, 0), (0, 0))
ONE_NODE = [
    # pooling
    ("MaxPooling2D", {"pool_size": [3, 2], "strides": [2, 2], "padding": "same"}, (7, 8, 2),
     MaxPool((3, 2), (2, 2), ((1, 1), (0, 0)), (1, 1))),
    ("MaxPooling2D", {"pool_size": 2, "strides": None}, (7, 8, 2),
     MaxPool((2, 2), (2, 2), NONE, (1, 1))),
    ("MaxPooling1D", {"pool_size": [3], "strides": [1], "padding": "valid"}, (7, 2),
     MaxPool((3,), (1,), ((0, 0),), (1,))),
    ("AveragePooling2D", {"pool_size": [2, 2], "strides": [1, 3], "padding": "same"}, (7, 8, 2),
     AveragePool((2, 2), (1, 3), ((0, 1), (0, 0)), (1, 1))),
    ("AveragePooling1D", {"pool_size": 4, "strides": None, "padding": "valid"}, (9, 2),
     AveragePool((4,), (4,), ((0, 0),), (1,))),
    ("GlobalAveragePooling2D", {}, (7, 8, 2), ReduceMean((1, 2))),
    ("GlobalAveragePooling2D", {"keepdims": True, "data_format": "channels_first"}, (7, 8, 2),
     ReduceMean((2, 3), keepdims=True)),
    ("GlobalMaxPooling1D", {"keepdims": True}, (7, 2), ReduceMax((1,), keepdims=True)),
    # activations
    ("ReLU", {"max_value": None, "negative_slope": 0.0, "threshold": 0.0}, (4,), act.Relu()),
    ("ReLU", {"max_value": 6.0, "negative_slope": 0.0, "threshold": 0.0}, (4,), act.Clip(0.0, 6.0)),
    ("ReLU", {"max_value": None, "negative_slope": 0.25}, (4,), act.LeakyRelu(0.25)),
    ("ReLU", {"max_value": 3.0, "negative_slope": 0.5, "threshold": 1.0}, (4,),
     act.ReluGeneral(0.5, 1.0, 3.0)),
    ("LeakyReLU", {}, (4,), act.LeakyRelu(0.3)),
    ("LeakyReLU", {"alpha": 0.125}, (4,), act.LeakyRelu(0.125)),
    ("LeakyReLU", {"negative_slope": 0.125}, (4,), act.LeakyRelu(0.125)),
    ("ELU", {"alpha": 0.5}, (4,), act.Elu(0.5)),
    ("ThresholdedReLU", {"theta": 0.5}, (4,), act.ThresholdedRelu(0.5)),
    ("Softmax", {"axis": 1}, (3, 4), Softmax(1)),
    ("Softmax", {"axis": [-1]}, (3, 4), Softmax(2)),
    ("Activation", {"activation": "relu6"}, (4,), act.Clip(0.0, 6.0)),
    ("Activation", {"activation": "leaky_relu"}, (4,), act.LeakyRelu(0.2)),
    ("Activation", {"activation": "gelu"}, (4,), act.Gelu(approximate=False)),
    ("Activation", {"activation": "swish"}, (4,), act.Silu()),
    ("Activation", {"activation": "exponential"}, (4,), Exp()),
    ("Activation", {"activation": "softmax_v2"}, (3, 4), Softmax(2)),
    ("Activation", {"activation": "log_softmax"}, (3, 4), LogSoftmax(2)),
    ("Activation", {"activation": "hard_silu"}, (4,), act.HardSwish()),
    ("Activation", {"activation": {"class_name": "function", "config": "relu6"}}, (4,),
     act.Clip(0.0, 6.0)),
    ("Activation", {"activation": {"class_name": "LeakyReLU", "config": {"alpha": 0.5}}}, (4,),
     act.LeakyRelu(0.5)),
    # data movement
    ("Reshape", {"target_shape": [2, -1, 3]}, (6, 5, 2), Reshape((1, 2, 10, 3))),
    ("Reshape", {"target_shape": [-1]}, (6, 5, 2), Reshape((1, 60))),
    ("Flatten", {}, (6, 5), Reshape((1, 30))),
    ("Permute", {"dims": [3, 1, 2]}, (6, 5, 2), Transpose((0, 3, 1, 2))),
    ("ZeroPadding2D", {"padding": [[1, 2], [3, 0]]}, (6, 5, 2),
     Pad(((0, 0), (1, 2), (3, 0), (0, 0)))),
    ("ZeroPadding2D", {"padding": [1, 2], "data_format": "channels_first"}, (6, 5, 2),
     Pad(((0, 0), (0, 0), (1, 1), (2, 2)))),
    ("ZeroPadding1D", {"padding": [1, 2]}, (6, 5), Pad(((0, 0), (1, 2), (0, 0)))),
    ("ZeroPadding1D", {"padding": 2}, (6, 5), Pad(((0, 0), (2, 2), (0, 0)))),
    ("Cropping2D", {"cropping": [[1, 2], [0, 1]]}, (6, 5, 2),
     Slice((0, 1, 0, 0), (1, 4, 4, 2), (1, 1, 1, 1))),
    ("Cropping1D", {"cropping": [1, 2]}, (6, 5), Slice((0, 1, 0), (1, 4, 5), (1, 1, 1))),
    ("UpSampling2D", {"size": [2, 3], "interpolation": "nearest"}, (6, 5, 2),
     Resize("nearest", (12, 15), "asymmetric", "floor")),
    ("UpSampling2D", {"size": [2, 3], "interpolation": "bilinear"}, (6, 5, 2),
     Resize("linear", (12, 15), "half_pixel", "floor")),
    ("UpSampling1D", {"size": 3}, (6, 5), Resize("nearest", (18,), "asymmetric", "floor")),
]  # fmt: skip


@pytest.mark.parametrize(("class_name", "config", "shape", "op"), ONE_NODE)
@pytest.mark.parametrize("version", ["2.15.0", "3.4.1"])
def test_layers_of_one_node(
    class_name: str, config: Any, shape: tuple[int, ...], op: Op, version: str, tmp_path: Path
) -> None:
    graph = imported(tmp_path, LayerSpec(class_name, "n", (), config), shape, version=version)
    assert ops(graph) == [("n", op)]


@pytest.mark.parametrize(
    ("version", "alpha"), [("2.2.4-tf", 0.2), ("2.15.0", 0.2), ("3.0.5", 1 / 6), ("3.8.0", 1 / 6)]
)
def test_hard_sigmoid_depends_on_the_version(version: str, alpha: float, tmp_path: Path) -> None:
    spec = LayerSpec("Activation", "a", (), {"activation": "hard_sigmoid"})
    graph = imported(tmp_path, spec, (4,), version=version)
    assert ops(graph) == [("a", act.HardSigmoid(alpha, 0.5))]


@pytest.mark.parametrize(
    ("version", "coordinate"),
    [("2.2.4", "asymmetric"), ("2.3.1", "asymmetric"), ("2.3.0-tf", "half_pixel"),
     ("2.4.0", "half_pixel"), ("3.8.0", "half_pixel")],
)  # fmt: skip
def test_bilinear_depends_on_the_version(version: str, coordinate: str, tmp_path: Path) -> None:
    spec = LayerSpec("UpSampling2D", "u", (), {"size": [2, 2], "interpolation": "bilinear"})
    graph = imported(tmp_path, spec, (3, 4, 2), version=version)
    assert ops(graph) == [("u", Resize("linear", (6, 8), coordinate, "floor"))]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("nearest", [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8]),
     ("bilinear", [1, 1, 1.333333, 1.666667, 2, 2.666667, 3.333333, 4, 5.333333, 6.666667, 8, 8]),
     ("bicubic", [0.894794, 1, 1.206644, 1.536109, 2, 2.517976, 3.148854, 4, 5.426972, 6.96683, 8,
                  8.420825]),
     ("lanczos3", [0.924397, 1, 1.170544, 1.548545, 2, 2.364858, 2.881415, 4, 5.599294, 7.052973,
                   8, 8.570505]),
     ("lanczos5", [0.733224, 1, 1.366744, 1.743164, 2, 2.183664, 2.751768, 4, 5.547883, 6.940887,
                   8, 8.719982])],
)  # fmt: skip
def test_interpolation_is_that_of_tensorflow(
    mode: str, wanted: Sequence[float], tmp_path: Path
) -> None:
    spec = LayerSpec("UpSampling2D", "u", (), {"size": [1, 3], "interpolation": mode})
    graph = imported(tmp_path, spec, (1, 4, 1))
    x = np.asarray([1, 2, 4, 8], np.float32).reshape(1, 1, 4, 1)
    (y,) = evaluate(graph, {graph.inputs[0]: x}).values()
    assert np.allclose(np.ravel(y), wanted, atol=2e-6)


@pytest.mark.parametrize(
    "name",
    "Dropout SpatialDropout1D SpatialDropout2D GaussianDropout AlphaDropout GaussianNoise "
    "ActivityRegularization".split(),
)
def test_training_layers_vanish(name: str, tmp_path: Path) -> None:
    spec = LayerSpec(name, "gone", (), {"rate": 0.5, "stddev": 0.1, "l1": 0.1, "seed": 1})
    relu = LayerSpec("ReLU", "relu", ())
    graph = load_graph(write_h5(tmp_path / "m", chain(image("x", 4), relu, spec)))
    assert ops(graph) == [("relu", act.Relu())]
    assert graph.outputs == ("gone",)  # named as the layer that returns it


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


def test_softmax_over_several_axes(tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec("Softmax", "s", (), {"axis": [1, 3]}), (2, 3, 4))
    x = numbers(5, 1, 2, 3, 4)
    (y,) = evaluate(graph, {"x0": x}).values()
    e = np.exp(x.astype(float))
    np.testing.assert_allclose(y, e / e.sum(axis=(1, 3), keepdims=True), rtol=1e-12)


def test_flatten(tmp_path: Path) -> None:
    assert ops(imported(tmp_path, LayerSpec("Flatten", "f"), ())) == [("f", Reshape((1, 1)))]
    flat = LayerSpec("Flatten", "f")
    graph = load_graph(write_h5(tmp_path / "m", chain(image("x", 4), LayerSpec("ReLU", "r"), flat)))
    assert ops(graph) == [("r", act.Relu())]  # flat already
    spec = LayerSpec("Flatten", "f", (), {"data_format": "channels_first"})
    assert ops(imported(tmp_path, spec, (2, 5, 6))) == [
        ("f/channels_last", Transpose((0, 2, 3, 1))),
        ("f", Reshape((1, 60))),
    ]


def test_repeat_vector(tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec("RepeatVector", "r", (), {"n": 3}), (4,))
    assert ops(graph) == [("r/row", Reshape((1, 1, 4))), ("r", Expand((1, 3, 4)))]


@pytest.mark.parametrize(
    ("class_name", "op"),
    [("Add", Add()), ("Multiply", Mul()), ("Maximum", Max()), ("Minimum", Min())],
)
@pytest.mark.parametrize("version", ["2.15.0", "3.4.1"])
def test_merges_chain_from_the_left(class_name: str, op: Op, version: str, tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec(class_name, "m"), (4,), (4,), (4,), version=version)
    assert ops(graph) == [("m/part1", op), ("m", op)]
    assert [n.inputs for n in graph.nodes] == [("x0", "x1"), ("m/part1", "x2")]


def test_merges_lift_ranks_behind_the_batch(tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec("Subtract", "m"), (5,), (3, 4, 5))
    assert ops(graph) == [("m/input0", Reshape((1, 1, 1, 5))), ("m", Sub())]


def test_average(tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec("Average", "m"), (4,), (4,), (4,), (4,))
    assert ops(graph)[-1] == ("m", Mul())
    assert graph.constants["m/share"] == 0.25
    x = [numbers(i, 1, 4) for i in range(4)]
    (y,) = evaluate(graph, {f"x{i}": v for i, v in enumerate(x)}).values()
    np.testing.assert_allclose(y, np.mean(np.float64(x), axis=0), rtol=1e-12)


def test_concatenate(tmp_path: Path) -> None:
    spec = LayerSpec("Concatenate", "c", (), {"axis": -1})
    assert ops(imported(tmp_path, spec, (3, 4), (3, 2))) == [("c", Concat(2))]
    spec = LayerSpec("Concatenate", "c", (), {"axis": 1})
    assert imported(tmp_path, spec, (3, 4), (2, 4)).types["c"].shape == (1, 5, 4)


def _plain_dot(a: Any, b: Any, axes: tuple[int, int], normalize: bool) -> Any:
    a, b = a.astype(float), b.astype(float)
    if normalize:
        a = a / np.linalg.norm(a, axis=axes[0], keepdims=True)
        b = b / np.linalg.norm(b, axis=axes[1], keepdims=True)
    y = np.tensordot(a[0], b[0], axes=(axes[0] - 1, axes[1] - 1))[np.newaxis]
    return y.reshape(1, 1) if y.ndim == 1 else y


@pytest.mark.parametrize(
    ("shapes", "axes", "resolved"),
    [
        (((6,), (6,)), 1, (1, 1)),
        (((3, 6), (4, 6)), -1, (2, 2)),
        (((6, 3), (4, 6)), [1, 2], (1, 2)),
        (((6,), (4, 6)), -1, (1, 2)),
        (((4, 6), (6,)), [2, 1], (2, 1)),
        (((2, 6, 3), (6, 4, 5)), [2, 1], (2, 1)),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_dot(shapes: Any, axes: Any, resolved: Any, normalize: bool, tmp_path: Path) -> None:
    spec = LayerSpec("Dot", "d", (), {"axes": axes, "normalize": normalize})
    graph = imported(tmp_path, spec, *shapes)
    a, b = (numbers(i, 1, *s) for i, s in enumerate(shapes))
    (y,) = evaluate(graph, {"x0": a, "x1": b}).values()
    np.testing.assert_allclose(y, _plain_dot(a, b, resolved, normalize), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("version", "least"), [("2.15.0", 1e-12), ("3.4.1", 1e-14)])
def test_dot_normalizes_by_a_bounded_length(version: str, least: float, tmp_path: Path) -> None:
    spec = LayerSpec("Dot", "d", (), {"axes": 1, "normalize": True})
    graph = imported(tmp_path, spec, (4,), (4,), version=version)
    assert graph.constants["d/min_square"] == np.float32(least)


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
