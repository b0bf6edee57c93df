"""What each layer becomes: operators with their attributes, names of nodes.

Those with weights are in `test_keras_weights.py`. That they compute what Keras does was established
with `compare_with_keras.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise.binary import Add, Max, Min, Mul, Sub
from cannery.ops.elementwise.unary import Exp
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.reduce.op import ReduceMax, ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import LogSoftmax, Softmax
from frontends.keras_files import LayerSpec, chain, image, write_h5
from frontends.keras_single import imported, numbers, ops

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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hard_shrink", lambda x: np.where(np.abs(x) > 0.5, x, 0)),
        ("squareplus", lambda x: (x + np.sqrt(x * x + 4)) / 2),
        ("sparse_plus", lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
        ("sparse_sigmoid", lambda x: np.clip((x + 1) / 2, 0, 1)),
        ("glu", lambda x: x[..., :3] / (1 + np.exp(-x[..., 3:]))),
    ],
)
def test_activations_of_keras_ops(name: str, expected: Any, tmp_path: Path) -> None:
    graph = imported(tmp_path, LayerSpec("Activation", "a", (), {"activation": name}), (5, 6))
    x = 2 * numbers(4, 1, 5, 6)
    (y,) = evaluate(graph, {"x0": x}).values()
    np.testing.assert_allclose(y, expected(x.astype(float)), rtol=1e-10, atol=1e-12)


def test_halves_of_an_odd_axis(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="5 elements has no halves"):
        imported(tmp_path, LayerSpec("Activation", "a", (), {"activation": "glu"}), (5,))
