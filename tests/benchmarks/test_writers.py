"""Files for rivals, operator by operator: they compute what the references compute.

ONNX files are read by Cannery, those of TensorFlow Lite by LiteRT, where that is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import UnsupportedError
from cannery.execution.samples import relative_error
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.orders import from_model, to_model
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import (
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Relu,
    Selu,
    Silu,
    Square,
)
from cannery.ops.indexing.gather import Gather
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.reduce.op import ReduceMax, ReduceMean
from cannery.ops.softmax.op import Softmax
from cannery.options import make_options
from cannery.pipeline import load_model
from needs import need_program, need_toolchain
from networks import write_network
from rivals.exchange import exchange_graph
from rivals.inputs import contest_inputs
from rivals.packages import RIVALS

onnx = pytest.importorskip("onnx")

from rivals.onnx_writer import onnx_model  # noqa: E402

RNG = np.random.default_rng(5)
IMAGE = (1, 9, 7, 4)
PADS = ((1, 2), (2, 1))


def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return RNG.standard_normal(shape, np.float32)


def graph_of(op: Op, *weights: RefArray, shape: tuple[int, ...] = IMAGE) -> Graph:
    """A network of one operator."""
    builder = GraphBuilder("net")
    x = builder.input("x", shape)
    names = [builder.constant(f"w{k}", w) for k, w in enumerate(weights)]
    builder.output(builder.node(op, [x, *names], name="y"))
    return builder.build()


def max_pool(pads: tuple[tuple[int, int], ...]) -> MaxPool:
    return MaxPool(kernel=(3, 3), strides=(2, 2), pads=pads, dilations=(1, 1))


#: Operators that both formats have.
BOTH: dict[str, Graph] = {
    "conv": graph_of(Conv((2, 1), PADS, (1, 1)), normal(3, 3, 4, 5), normal(5)),
    "depthwise": graph_of(Conv((1, 1), ((1, 1), (1, 1)), (1, 1), 4), normal(3, 3, 1, 8)),
    "transposed": graph_of(
        ConvTranspose((2, 2), ((0, 0), (0, 0)), (1, 1), (0, 0)), normal(2, 2, 5, 4), normal(5)
    ),
    "max_pool": graph_of(max_pool(((0, 0), (0, 0)))),
    "max_pool_padded": graph_of(max_pool(PADS)),
    "average_pool": graph_of(
        AveragePool((3, 3), (2, 2), pads=PADS, dilations=(1, 1), count_include_pad=True)
    ),
    "relu": graph_of(Relu()),
    "relu6": graph_of(Clip(0.0, 6.0)),
    "clip": graph_of(Clip(-0.5, 0.25)),
    "leaky_relu": graph_of(LeakyRelu(0.1)),
    "elu": graph_of(Elu()),
    "hard_swish": graph_of(HardSwish()),
    "hard_sigmoid": graph_of(HardSigmoid(1 / 6, 0.5)),
    "hard_sigmoid_of_keras": graph_of(HardSigmoid(0.2, 0.5)),
    "silu": graph_of(Silu()),
    "mean_of_image": graph_of(ReduceMean((1, 2))),
    "mean_of_image_kept": graph_of(ReduceMean((1, 2), keepdims=True)),
    "max_of_rows": graph_of(ReduceMax((1,)), shape=(1, 9, 4)),
    "slice": graph_of(Slice((0, 1, 0, 2), (1, 9, 7, 4), (1, 1, 1, 1))),
    "slice_in_steps": graph_of(Slice((0, 1, 0, 2), (1, 9, 7, 4), (1, 2, 3, 1))),
    "pad": graph_of(Pad(((0, 0), (1, 2), (0, 3), (0, 4)))),
    "dense": graph_of(MatMul(), normal(6, 5), normal(5), shape=(1, 6)),
    "softmax": graph_of(Softmax(1), shape=(1, 6)),
}

#: Operators that only the writer for TensorFlow Lite knows: the others get ONNX files as they are.
LITE: dict[str, Graph] = {
    "gelu": graph_of(Gelu()),
    "square": graph_of(Square()),
    "dense_rows": graph_of(MatMul(), normal(6, 5), normal(5), shape=(1, 3, 6)),
    "softmax_of_rows": graph_of(Softmax(1), shape=(1, 5, 6)),
    "layer_norm": graph_of(
        LayerNormalization((2,), 1e-5), normal(6), normal(6), shape=(1, 3, 6)
    ),
    "transpose": graph_of(Transpose((0, 2, 1)), shape=(1, 3, 6)),
}  # fmt: skip


def differs(graph: Graph, run: Callable[[dict[str, RefArray]], RefArray]) -> float:
    """How far `run` is from the reference."""
    inputs = contest_inputs(graph)
    (expected,) = evaluate(graph, inputs).values()
    found = run(inputs)
    assert found.size == expected.size
    return relative_error(found.reshape(expected.shape), expected)


def by_litert(graph: Graph, folder: Path) -> Callable[[dict[str, RefArray]], RefArray]:
    """Runs the file that is written for LiteRT."""
    for package in ("ai_edge_litert", "flatbuffers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from rivals.runtimes import LiteRt
    from rivals.tflite.model import tflite_model

    file = folder / "network.tflite"
    file.write_bytes(tflite_model(graph))

    def run(inputs: dict[str, RefArray]) -> RefArray:
        runtime = LiteRt(file, 1)
        runtime.set({k: np.ascontiguousarray(v) for k, v in inputs.items()})
        runtime.call()
        (found,) = runtime.outputs().values()
        return found

    return run


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", [*BOTH])
def test_onnx_operator(name: str, order: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    model = onnx_model(BOTH[name], order)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(file))
    written = load_model(make_options(file, {}))

    first = order == "nchw"

    def run(inputs: dict[str, RefArray]) -> RefArray:
        images = [np.moveaxis(x, -1, 1) if first and x.ndim == 4 else x for x in inputs.values()]
        given = dict(zip(written.inputs, images, strict=True))
        found = evaluate(written, from_model(written, given))
        (y,) = to_model(written, found).values()
        return np.moveaxis(y, 1, -1) if first and y.ndim == 4 else y

    assert differs(BOTH[name], run) < 1e-5


@pytest.mark.parametrize("name", [*BOTH, *LITE])
def test_litert_operator(name: str, tmp_path: Path) -> None:
    graph = {**BOTH, **LITE}[name]
    assert differs(graph, by_litert(graph, tmp_path)) < 1e-5


@pytest.mark.parametrize(
    "name", ["ball", "ds_cnn", "tcn", "gru", "policy_64", "blstm", "gru_denoiser", "blazeface"]
)
def test_litert_takes_part(name: str, tmp_path: Path) -> None:
    graph = exchange_graph(write_network(name, tmp_path))
    run, inputs = by_litert(replace_outputs(graph), tmp_path), contest_inputs(graph)
    expected = evaluate(replace_outputs(graph), inputs)
    (array,) = expected.values()
    assert relative_error(run(inputs).reshape(array.shape), array) < 1e-5


def replace_outputs(graph: Graph) -> Graph:
    """The graph with its first output alone."""
    return Graph(
        graph.name, graph.nodes, graph.inputs, graph.outputs[:1], graph.types, graph.constants
    )


@pytest.mark.parametrize("name", ["ds_cnn", "tcn", "gru", "policy_256"])
def test_onnx_file_of_a_keras_network(name: str, tmp_path: Path) -> None:
    keras = write_network(name, tmp_path)
    graph, file = exchange_graph(keras), tmp_path / f"{name}.onnx"
    onnx.save(onnx_model(graph, "nchw"), str(file))
    written, inputs = load_model(make_options(file, {})), contest_inputs(graph)
    (expected,) = evaluate(load_model(make_options(keras, {})), inputs).values()
    (x,) = inputs.values()
    shape = written.types[written.inputs[0]].shape
    (found,) = evaluate(written, {written.inputs[0]: x.reshape(shape)}).values()
    assert relative_error(found.reshape(expected.shape), expected) < 1e-5


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_among_the_outputs(kind: str, tmp_path: Path) -> None:
    """All writers say so where they have no form for that, or write all of them."""
    from rivals.contest import Noops, Settings, compare

    need_toolchain("native")
    need_program("ninja", "ninja-build")
    gates, names = {"LSTM": (4, ["y", "h", "c"]), "GRU": (3, ["y", "h"])}[kind]
    helper, states = onnx.helper, names[1:]
    weights = {"w": normal(1, 8 * gates, 6), "r": normal(1, 8 * gates, 8)}
    value, shapes = helper.make_tensor_value_info, {"x": [5, 1, 6], "y": [5, 1, 1, 8]}
    node = helper.make_node(
        kind, ["x", "w", "r", "", "", *(f"{s}_before" for s in states)], names, hidden_size=8
    )
    inputs, outputs = ["x", *(f"{s}_before" for s in states)], names
    body = helper.make_graph(
        [node], "net",
        [value(name, onnx.TensorProto.FLOAT, shapes.get(name, [1, 1, 8])) for name in inputs],
        [value(name, onnx.TensorProto.FLOAT, shapes.get(name, [1, 1, 8])) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    file, settings = tmp_path / "states.onnx", Settings(rounds=1)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(body, opset_imports=opset, ir_version=8), str(file))
    with ExitStack() as stack:
        noops = Noops(tmp_path / "noop", settings, stack)
        contest = compare(file, settings, tmp_path / "work", noops, as_given=True)
    assert contest.results[0].error < 1e-5
    took_part = {result.rival for result in contest.results if result.is_right}
    titles = {rival.title for rival in RIVALS.values()}
    assert took_part - {""} | contest.absent.keys() == titles


def test_integers_are_indices_that_every_runtime_accepts() -> None:
    builder = GraphBuilder("net")
    tokens = builder.input("tokens", (1, 500), DType.INT64)
    table = builder.constant("table", normal(7, 3))
    builder.output(builder.node(Gather(0), [table, tokens], name="y"))
    (found,) = contest_inputs(builder.build()).values()
    assert found.dtype == np.int64
    assert (found.min(), found.max()) == (0, 6)


def test_lite_refuses_what_it_has_no_form_for(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no form for Selu"):
        by_litert(graph_of(Selu()), tmp_path)
