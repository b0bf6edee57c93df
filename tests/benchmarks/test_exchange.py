"""The files for rivals must compute what the model computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import UnsupportedError
from cannery.execution.samples import relative_error
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import GraphBuilder
from cannery.ir.orders import model_type
from cannery.lowering.lower import cut
from cannery.measure.trial import random_inputs
from cannery.ops.elementwise import Selu
from cannery.options import make_options
from cannery.pipeline import load_model
from networks import write_network
from rivals.exchange import exchange_graph, is_projection, is_same, lstm_layer

onnx = pytest.importorskip("onnx")

from rivals.layers import layer_graph, write_layers  # noqa: E402
from rivals.onnx_writer import onnx_model  # noqa: E402


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", ["ball", "pedestrian", "robot_detector", "segmenter"])
def test_onnx_file_computes_what_the_keras_file_does(name: str, order: str, tmp_path: Path) -> None:
    keras = load_model(make_options(write_network(name, tmp_path), {}))
    file = tmp_path / f"{name}.onnx"
    model = onnx_model(exchange_graph(tmp_path / f"{name}.h5"), order)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(file))
    written = load_model(make_options(file, {}))
    (x,) = random_inputs(keras).values()
    (expected,) = evaluate(keras, {keras.inputs[0]: x}).values()
    (found,) = evaluate(
        written, {written.inputs[0]: x.reshape(written.types[written.inputs[0]].shape)}
    ).values()
    assert relative_error(found, expected) < 1e-5
    shape = keras.types[keras.inputs[0]].shape
    wanted = shape if order == "nhwc" else tuple(shape[k] for k in (0, 3, 1, 2))
    assert model_type(written, written.inputs[0]).shape == wanted


def test_operators_without_a_form_are_refused() -> None:
    builder = GraphBuilder("net")
    builder.output(builder.node(Selu(), [builder.input("x", (1, 4))], name="y"))
    with pytest.raises(UnsupportedError, match="Selu"):
        onnx_model(builder.build(), "nchw")


def test_layers_compute_the_values_of_the_network(tmp_path: Path) -> None:
    graph = exchange_graph(write_network("segmenter", tmp_path))
    values = dict(random_inputs(graph))
    for step in cut(graph):
        layer = layer_graph(graph, step)
        values.update(evaluate(layer, {name: values[name] for name in layer.inputs}))
    expected = evaluate(graph, {name: values[name] for name in graph.inputs})
    for name, array in expected.items():
        assert np.allclose(values[name], array, rtol=0, atol=1e-5 * np.abs(array).max())


def test_layers_of_one_kind_are_written_once(tmp_path: Path) -> None:
    layers = list(write_layers(write_network("segmenter", tmp_path), tmp_path / "layers"))
    assert len({layer.file for layer in layers}) == len(layers)
    twice = [layer for layer in layers if layer.count == 2]
    assert {layer.kind for layer in twice} == {"Conv"}, "middle_1 and middle_2 are alike"
    assert all(layer.file.is_file() for layer in layers)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads", "same"),
    [
        (16, 5, 2, (1, 2), True),
        (16, 5, 2, (2, 1), False),
        (16, 3, 1, (1, 1), True),
        (16, 3, 1, (0, 0), False),
        (15, 3, 2, (1, 1), True),
        (16, 1, 1, (0, 0), True),
    ],
)
def test_same_padding(
    size: int, kernel: int, stride: int, pads: tuple[int, int], same: bool
) -> None:
    """TensorFlow puts the odd element of padding at the end."""
    assert is_same((size,), (kernel,), (stride,), (pads,), (1,)) is same


def test_lstm_layers_with_the_product_of_their_inputs(tmp_path: Path) -> None:
    """Weights in TensorFlow's order of gates compute what the network does."""
    graph = exchange_graph(write_network("blstm_peepholes", tmp_path))
    (node,) = (n for n in graph.nodes if n.op.kind == "Lstm")
    layer, h = lstm_layer(graph, node), 100
    assert layer.peepholes is not None
    x = np.random.default_rng(1).standard_normal((3, 25))
    steps = []
    for d, order in enumerate((slice(None), slice(None, None, -1))):
        w, r = (np.concatenate(layer.gates(m[d], "ifco")) for m in (layer.w, layer.r))
        bias = np.concatenate(layer.gates(layer.bias[d], "ifco"))
        p_i, p_o, p_f = np.split(layer.peepholes[d], 3)
        y, c, found = np.zeros(h), np.zeros(h), []
        for row in x[order]:
            i, f, g, o = np.split(w @ row + r @ y + bias, 4)
            c = c / (1 + np.exp(-f - p_f * c)) + np.tanh(g) / (1 + np.exp(-i - p_i * c))
            y = np.tanh(c) / (1 + np.exp(-o - p_o * c))
            found.append(y)
        steps.append(found[order])
    p = x @ layer.w.transpose(1, 0, 2).reshape(25, -1) + layer.bias.reshape(-1)
    op = replace(node.op, returns=("sequence",))
    inputs = [None if not v else graph.constants[v] for v in node.inputs[1:]]
    (expected,) = op.reference(p[np.newaxis], *inputs)
    assert np.abs(np.concatenate(steps, axis=1) - expected[0]).max() < 1e-6


def test_layers_with_several_results_are_no_products(tmp_path: Path) -> None:
    """As recurrent layers have them whose last states are read, too."""
    graph = exchange_graph(write_network("blstm", tmp_path))
    (node,) = (n for n in graph.nodes if n.op.kind == "Lstm")
    (product,) = (n for n in graph.nodes if n.outputs[0] == node.inputs[0])
    assert is_projection(graph, product)
    assert not is_projection(graph, replace(node, outputs=(*node.outputs, "hidden")))
