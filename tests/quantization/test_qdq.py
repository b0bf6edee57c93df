"""Quantised networks of ONNX become integer layers, and compute what ONNX defines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.execution.program import network_program
from cannery.execution.samples import seeded_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Scale
from cannery.ir.orders import to_model
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph, load_model
from cannery.target.toolchain import find_toolchain
from frontends.onnx_models import expected, model, node, onnx, write
from needs import need_runner

Array = NDArray[Any]
Nodes = tuple[list[Any], dict[str, Any]]
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def the_same_numbers() -> None:
    """In whatever order tests run."""
    RNG.bit_generator.state = np.random.default_rng(11).bit_generator.state


def quantised(name: str, scale: float, zero: int, dtype: str = "uint8") -> Nodes:
    """QuantizeLinear and DequantizeLinear of `name`, which becomes `name/q` and `name/dq`."""
    weights = {f"{name}/s": np.float32(scale), f"{name}/z": np.asarray(zero, dtype)}
    return [
        node("QuantizeLinear", [name, *weights], [f"{name}/q"]),
        node("DequantizeLinear", [f"{name}/q", *weights], [f"{name}/dq"]),
    ], weights


def constant(name: str, values: Array, scale: Any, axis: int = 0) -> Nodes:
    """Stored integers with symmetric scales as `name`."""
    weights = {f"{name}/q": values, f"{name}/s": np.asarray(scale, np.float32),
               f"{name}/z": np.zeros(np.shape(scale), values.dtype)}  # fmt: skip
    return [node("DequantizeLinear", [*weights], [name], axis=axis)], weights


def integers(*shape: int, bits: int = 8) -> Array:
    top = 2 ** (bits - 1) - 1
    return RNG.integers(-top, top, shape, np.int8 if bits <= 8 else np.int16, endpoint=True)


def joined(*parts: Nodes) -> Nodes:
    weights: dict[str, Any] = {}
    for _, given in parts:
        weights |= given
    return [n for nodes, _ in parts for n in nodes], weights


def conv(name: str, x: str, ic: int, oc: int, x_scale: float, **attributes: Any) -> Nodes:
    """A convolution of `x/dq` with a scale for each channel, its bias in units of the products."""
    scale = RNG.uniform(0.5, 1.5, oc).astype(np.float32) / 300
    w = constant(f"{name}/w", integers(oc, ic, 3, 3), scale)
    bias = RNG.integers(-3000, 3000, oc, np.int32)
    b = constant(f"{name}/b", bias, (np.float32(x_scale) * scale).astype(np.float32))
    made = node("Conv", [f"{x}/dq", f"{name}/w", f"{name}/b"], [name], **attributes)
    return joined(w, b, ([made], {}))


def camera(dtype: str = "uint8") -> Any:
    """Convolutions, maxima, a sum, a function, a concatenation, a dense layer; softmax."""
    low = np.iinfo(dtype).min
    nodes, weights = joined(
        quantised("x", 0.02, low + 117, dtype), conv("a", "x", 3, 8, 0.02, pads=[1, 1, 1, 1]),
        ([node("Relu", ["a"], ["a+"])], {}), quantised("a+", 0.03, low, dtype),
        ([node("MaxPool", ["a+/dq"], ["m"], kernel_shape=[2, 2], strides=[2, 2])], {}),
        quantised("m", 0.03, low, dtype), conv("b", "m", 8, 8, 0.03, pads=[1, 1, 1, 1]),
        quantised("b", 0.05, low + 120, dtype), ([node("Add", ["m/dq", "b/dq"], ["c"])], {}),
        ([node("Relu", ["c"], ["c+"])], {}), quantised("c+", 0.04, low, dtype),
        ([node("Sigmoid", ["b/dq"], ["d"])], {}), quantised("d", 1 / 256, low, dtype),
        ([node("Concat", ["c+/dq", "d/dq"], ["e"], axis=1)], {}),
        quantised("e", 0.04, low, dtype),
        ([node("Flatten", ["e/dq"], ["f"])], {}), quantised("f", 0.04, low, dtype),
        constant("g/w", integers(16 * 12, 5), np.float32(0.004)),
        ([node("MatMul", ["f/dq", "g/w"], ["g"])], {}),
        ([node("Softmax", ["g"], ["y"])], {}),
    )  # fmt: skip
    return model(nodes, {"x": (1, 3, 6, 8)}, weights=weights, opset=19)


def kinds(graph: Graph) -> list[str]:
    return [n.op.kind for n in graph.nodes]


def graphs(folder: Path, proto: Any) -> tuple[Graph, Graph]:
    """As the model has it, and as it is compiled."""
    options = make_options(write(folder / "net.onnx", proto), {})
    return load_model(options), import_graph(options)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_all_layers_are_integers(tmp_path: Path, dtype: str) -> None:
    proto = camera(dtype)
    before, graph = graphs(tmp_path, proto)
    assert not {"Conv", "MatMul", "MaxPool", "Sigmoid", "Add"} & {*kinds(graph)}
    assert len(graph.integer_layers) == 3
    assert kinds(graph).count("QuantizeLinear") == 1
    for sample in seeded_samples(before, 6):
        (found,), (reference,) = evaluate(graph, sample).values(), evaluate(before, sample).values()
        assert np.abs(found - reference).max() < 0.02
        image = {"x": np.moveaxis(sample["x"], -1, 1)}
        assert np.abs(found - expected(proto, image)[0]).max() < 0.02


def separable(dtype: str = "uint8") -> Any:
    """A depthwise convolution whose padding is not 0, one that is strided, 1x1 after them."""
    scale = RNG.uniform(0.5, 1.5, 6).astype(np.float32) / 300
    low = np.iinfo(dtype).min
    nodes, weights = joined(
        quantised("x", 0.02, low + 99, dtype), constant("d/w", integers(6, 1, 3, 3), scale),
        constant("d/b", RNG.integers(-3000, 3000, 6, np.int32), np.float32(0.02) * scale),
        ([node("Conv", ["x/dq", "d/w", "d/b"], ["d"], group=6, pads=[1, 0, 1, 2])], {}),
        ([node("Clip", ["d", "", "six"], ["d+"])], {"six": np.float32(6.0)}),
        quantised("d+", 6 / 255, low, dtype),
        constant("e/w", integers(6, 1, 3, 3), np.float32(0.004)),
        ([node("Conv", ["d+/dq", "e/w"], ["e"], group=6, strides=[2, 2])], {}),
        quantised("e", 0.05, low + 130, dtype),
        constant("f/w", integers(9, 6, 1, 1), np.float32(0.003)),
        ([node("Conv", ["e/dq", "f/w"], ["y"])], {}),
    )  # fmt: skip
    return model(nodes, {"x": (1, 6, 7, 9)}, weights=weights, opset=19)


def plain() -> Any:
    return without_softmax(camera())


@pytest.mark.parametrize(
    ("make", "isa"),
    [
        *((plain, isa) for isa in ("generic", "ssse3", "avx512vnni", "neon64")),
        *((separable, isa) for isa in ("avx2", "neon32")),
    ],
)
def test_every_bit_of_a_network(tmp_path: Path, make: Any, isa: str) -> None:
    path = write(tmp_path / "net.onnx", make())
    options = make_options(path, {"isa": (isa,)})
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    graph = compiled.source.graph
    samples = seeded_samples(graph, 4)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    for sample, outputs in zip(samples, found, strict=True):
        for name, result in evaluate(graph, sample).items():
            assert outputs[name].tobytes() == result.astype(np.float32).tobytes()
    assert b"3 layers compute with the integers of the model" in compiled.files["net.h"]


def without_softmax(proto: Any) -> Any:
    proto.graph.node.pop()
    proto.graph.output[0].name = "g"
    return proto


def qlinear(weights: Array, zero_w: int) -> Any:
    """QLinearConv, QLinearMatMul and integer sums, with bytes as inputs and outputs."""
    w_type = weights.dtype
    k = {
        "sx": np.float32(0.02), "zx": np.uint8(119), "sw": np.float32(0.004),
        "zw": np.asarray(zero_w, w_type), "sy": np.float32(0.06), "zy": np.int8(-11),
        "w": weights, "bias": RNG.integers(-2000, 2000, len(weights), np.int32),
        "v": integers(6, 7), "sv": RNG.uniform(0.001, 0.004, 7).astype(np.float32),
        "zv": np.zeros(7, np.int8), "st": np.float32(0.11), "zt": np.uint8(100),
    }  # fmt: skip
    nodes = [
        node("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "bias"], ["c"],
             pads=[1, 1, 1, 1], strides=[2, 1]),
        node("QLinearMatMul", ["c", "sy", "zy", "v", "sv", "zv", "st", "zt"], ["y"]),
        node("ConvInteger", ["x", "w", "zx", "zw"], ["s"]),
        node("MatMulInteger", ["c", "v", "zy"], ["t"]),
    ]  # fmt: skip
    return model(nodes, {"x": (1, 3, 7, 6)}, ("y", "s", "t"), k, dtype=2)


WEIGHTS = {
    "signed": (lambda: integers(4, 3, 3, 3), 0),
    "lowest": (lambda: RNG.integers(-128, -100, (4, 3, 3, 3), np.int8), -3),
    "unsigned": (lambda: RNG.integers(0, 255, (4, 3, 3, 3), np.uint8, endpoint=True), 128),
    "wide": (lambda: RNG.integers(0, 255, (4, 3, 3, 3), np.uint8, endpoint=True), 90),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "isa"),
    [*((name, "avx2") for name in WEIGHTS), ("lowest", "neon64dot"), ("wide", "neon64")],
)
def test_qlinear_operators_are_exact(tmp_path: Path, name: str, isa: str) -> None:
    make, zero = WEIGHTS[name]
    path = write(tmp_path / "net.onnx", qlinear(make(), zero))
    options = make_options(path, {"isa": (isa,)})
    compiled = compile_model(options)
    toolchain, before = find_toolchain(options), load_model(options)
    runner = need_runner(toolchain)
    graph = compiled.source.graph
    assert not {"ConvInteger", "MatMulInteger", "Requantize"} & {*kinds(graph)}
    samples = seeded_samples(graph, 4)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    for sample, outputs in zip(samples, found, strict=True):
        for output, result in evaluate(before, sample).items():
            assert np.array_equal(outputs[output], result)


def test_integers_at_the_interface(tmp_path: Path) -> None:
    """An input that begins with QuantizeLinear, and what bytes of a model mean."""
    path = write(tmp_path / "net.onnx", without_softmax(camera()))
    graph = import_graph(make_options(path, {"io_type": "raw"}))
    assert graph.types["x"].dtype is DType.UINT8
    assert "QuantizeLinear" not in kinds(graph)
    assert graph.scales["x"] == Scale(float(np.float32(0.02)), 117)
    path = write(tmp_path / "bytes.onnx", qlinear(integers(4, 3, 3, 3), 0))
    graph = import_graph(make_options(path, {}))
    assert graph.scales["y"] == Scale(float(np.float32(0.11)), 100)
    assert graph.scales["x"] == Scale(float(np.float32(0.02)), 119)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_depthwise_layers_are_integers(tmp_path: Path, dtype: str) -> None:
    proto = separable(dtype)
    before, graph = graphs(tmp_path, proto)
    assert not {"Conv", "DequantizeLinear"} & {*kinds(graph)}
    assert len(graph.integer_layers) == 3
    for sample in seeded_samples(before, 6):
        (found,), (reference,) = evaluate(graph, sample).values(), evaluate(before, sample).values()
        assert np.abs(found - reference).max() < 0.1 * np.abs(reference).max() / 8
        (judged,) = expected(proto, {"x": np.moveaxis(sample["x"], -1, 1)})
        assert np.abs(np.moveaxis(found, -1, 1) - judged).max() < 0.1 * np.abs(judged).max() / 8


def runtimes_own() -> tuple[Any, Any]:
    """A network of ONNX Runtime's own operators, and what it stands for."""
    k = {
        "sx": np.float32(0.02), "zx": np.uint8(119), "sa": np.float32(0.03), "za": np.uint8(7),
        "sb": np.float32(0.015), "zb": np.uint8(128), "w": integers(6, 4), "zw": np.int8(0),
        "sw": np.float32(0.004), "c": RNG.integers(-2000, 2000, 6, np.int32),
        "sc": np.float32(0.02) * np.float32(0.004),
    }  # fmt: skip
    own = {"domain": "com.microsoft"}
    x, a, b = ["x", "sx", "zx"], ["a", "sa", "za"], ["b", "sb", "zb"]
    short = [
        node("QGemm", [*x, "w", "sw", "zw", "c", *a[1:]], ["a"], transB=1, **own),
        node("QLinearSigmoid", [*a, *b[1:]], ["b"], **own),
        node("QLinearAdd", [*a, *b, "sb", "za"], ["s"], **own),
        node("QLinearConcat", ["sa", "za", *a, "s", "sb", "za"], ["j"], axis=1, **own),
        node("QLinearSoftmax", ["j", *a[1:], *b[1:]], ["y"], axis=1, opset=13, **own),
    ]
    long = [
        node("DequantizeLinear", x, ["x/f"]), node("DequantizeLinear", ["w", "sw", "zw"], ["w/f"]),
        node("DequantizeLinear", ["c", "sc"], ["c/f"]),
        node("Gemm", ["x/f", "w/f", "c/f"], ["g"], transB=1),
        node("QuantizeLinear", ["g", *a[1:]], ["a"]), node("DequantizeLinear", a, ["a/f"]),
        node("Sigmoid", ["a/f"], ["b/e"]), node("QuantizeLinear", ["b/e", *b[1:]], ["b"]),
        node("DequantizeLinear", b, ["b/f"]), node("Add", ["a/f", "b/f"], ["s/e"]),
        node("QuantizeLinear", ["s/e", "sb", "za"], ["s"]),
        node("DequantizeLinear", ["s", "sb", "za"], ["s/f"]),
        node("Concat", ["a/f", "s/f"], ["j/e"], axis=1),
        node("QuantizeLinear", ["j/e", *a[1:]], ["j"]),
        node("DequantizeLinear", ["j", *a[1:]], ["j/f"]),
        node("Softmax", ["j/f"], ["y/e"], axis=1), node("QuantizeLinear", ["y/e", *b[1:]], ["y"]),
    ]  # fmt: skip
    used = {name: value for name, value in k.items() if name != "sc"}
    first = model(short, {"x": (3, 4)}, weights=used, dtype=2)
    first.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return first, model(long, {"x": (3, 4)}, weights=k, dtype=2)


def test_operators_of_the_runtime(tmp_path: Path) -> None:
    first, second = runtimes_own()
    _, short = graphs(tmp_path, first)
    before, long = graphs(tmp_path, second)
    assert sorted(kinds(short)) == sorted(kinds(long))
    assert {"QuantizedMatMul", "QuantizedElementwise", "ByteTable"} < {*kinds(short)}
    for sample in seeded_samples(before, 4):
        results = [next(iter(evaluate(g, sample).values())) for g in (short, long, before)]
        assert np.array_equal(results[0], results[1])
        assert np.abs(results[0].astype(int) - results[2]).max() <= 1


@pytest.mark.parametrize("bits", ["int8", "uint8"])
def test_a_zero_point_that_is_computed(tmp_path: Path, bits: str) -> None:
    """What ONNX Runtime's quantize_dynamic writes."""
    w = integers(6, 5) if bits == "int8" else RNG.integers(0, 255, (6, 5), np.uint8)
    weights = {
        "w": w,
        "z": np.asarray(0 if bits == "int8" else 77, bits),
        "v": integers(4, 2, 1, 1),
    }
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "zx"]),
        node("MatMulInteger", ["q", "w", "zx", "z"], ["y"]),
        node("ConvInteger", ["q", "v", "zx"], ["c"]),
    ]
    before, graph = graphs(
        tmp_path, model(nodes, {"x": (1, 2, 3, 6)}, ("y", "c"), weights, opset=17)
    )
    assert {"QuantizedMatMul", "QuantizedConv"} < {*kinds(graph)}
    net = cannery.load(tmp_path / "net.onnx", isa="avx2")
    for sample in seeded_samples(before, 4):
        results = to_model(before, evaluate(before, sample))
        found = net(to_model(before, sample)["x"])
        for k, name in enumerate(("y", "c")):
            assert np.array_equal(found[k], results[name])


def test_what_is_not_known_stays(tmp_path: Path) -> None:
    """Weights that are computed when the network runs; a scale for each row."""
    nodes, weights = joined(
        quantised("x", 0.1, 3), quantised("w", 0.1, 3),
        ([node("MatMul", ["x/dq", "w/dq"], ["y"])], {}),
    )  # fmt: skip
    proto = model(nodes, {"x": (4, 5), "w": (5, 3)}, weights=weights)
    _, graph = graphs(tmp_path, proto)
    assert kinds(graph).count("MatMul") == 1
    assert not graph.integer_layers
    rows = {"a": integers(3, 4), "za": np.array([1, 2, 3], np.int8), "b": integers(4, 5)}
    proto = model([node("MatMulInteger", ["a", "b", "za"], ["y"])], {"a": (3, 4)}, dtype=3,
                  weights={k: v for k, v in rows.items() if k != "a"})  # fmt: skip
    _, graph = graphs(tmp_path, proto)
    assert "MatMulInteger" in kinds(graph)


def test_constants_that_no_layer_multiplies_with_are_floats(tmp_path: Path) -> None:
    """Statistics of a normalisation that are stored as integers."""
    names = ("scale", "bias", "mean", "var")
    parts = [constant(n, np.abs(integers(3)), np.float32(0.02)) for n in names]
    nodes, weights = joined(
        *parts, quantised("x", 0.02, 100),
        ([node("BatchNormalization", ["x/dq", *names], ["y"], epsilon=0.1)], {}),
    )  # fmt: skip
    before, graph = graphs(tmp_path, model(nodes, {"x": (1, 3, 4, 5)}, weights=weights))
    assert "BatchNormalization" in kinds(before)
    assert not {"Div", "Sqrt"} & {*kinds(graph)}


def test_large_biases_stay_floats(tmp_path: Path) -> None:
    """Sums that might leave int32 are not made of integers."""
    nodes, weights = joined(
        quantised("x", 0.1, 3), constant("w", integers(5, 3), np.float32(0.01)),
        constant("b", np.full(3, 2**31 - 5, np.int32), np.float32(0.1) * np.float32(0.01)),
        ([node("Gemm", ["x/dq", "w", "b"], ["y"])], {}),
    )  # fmt: skip
    _, graph = graphs(tmp_path, model(nodes, {"x": (4, 5)}, weights=weights))
    assert not graph.integer_layers
    assert graph.types[graph.outputs[0]].dtype is DType.FLOAT32


def words(dtype: str, bits: int) -> Any:
    """16-bit activations: a convolution, a sum, means, a depthwise convolution, a dense layer."""
    low = np.iinfo(dtype).min
    type_ = "int8" if bits <= 8 else "int16"
    k = {"a/w": integers(6, 3, 3, 3, bits=bits), "d/w": integers(6, 1, 1, 3, bits=6)}
    nodes, weights = joined(
        quantised("x", 2e-4, low + 30000, dtype), constant("a/w", k["a/w"].astype(type_), 0.003),
        ([node("Conv", ["x/dq", "a/w"], ["a"], pads=[1, 1, 1, 1])], {}),
        ([node("Relu", ["a"], ["a+"])], {}), quantised("a+", 3e-4, low, dtype),
        constant("d/w", k["d/w"], np.float32(0.01)),
        ([node("Conv", ["a+/dq", "d/w"], ["d"], group=6, pads=[0, 1, 0, 1])], {}),
        quantised("d", 3e-4, low + 32700, dtype),
        ([node("Add", ["a+/dq", "d/dq"], ["s"])], {}), quantised("s", 4e-4, low + 20000, dtype),
        ([node("AveragePool", ["s/dq"], ["p"], kernel_shape=[2, 3], strides=[2, 2])], {}),
        quantised("p", 3e-4, low + 20000, dtype),
        ([node("GlobalAveragePool", ["p/dq"], ["g"])], {}), quantised("g", 2e-4, low + 9, dtype),
        ([node("Flatten", ["g/dq"], ["f"])], {}), quantised("f", 2e-4, low + 9, dtype),
        constant("y/w", integers(6, 5), np.float32(0.004)),
        ([node("MatMul", ["f/dq", "y/w"], ["y"])], {}),
    )  # fmt: skip
    return model(nodes, {"x": (1, 3, 6, 8)}, weights=weights, opset=21)


@pytest.mark.parametrize(
    ("dtype", "bits", "isa"),
    [("uint16", 8, "avx2"), ("int16", 8, "neon64"), ("int16", 6, "ssse3"), ("uint16", 16, "avx2")],
)
def test_sixteen_bits(tmp_path: Path, dtype: str, bits: int, isa: str) -> None:
    """Where sums provably fit; int16 times int16 of many terms do not, and stay floats."""
    proto = words(dtype, bits)
    path = write(tmp_path / "net.onnx", proto)
    options = make_options(path, {"isa": (isa,)})
    compiled, before = compile_model(options), load_model(options)
    graph = compiled.source.graph
    assert kinds(graph).count("QuantizedAveragePool") == 2
    assert "QuantizedElementwise" in kinds(graph)
    assert ("Conv" in kinds(graph)) == (bits == 16)
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    samples = seeded_samples(graph, 3)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    for sample, outputs in zip(samples, found, strict=True):
        (result,), (judged,) = evaluate(graph, sample).values(), evaluate(before, sample).values()
        if bits < 16:
            assert outputs["y"].tobytes() == result.astype(np.float32).tobytes()
        assert np.abs(outputs["y"] - judged).max() < 4e-3 * np.abs(judged).max()
        (reference,) = expected(proto, {"x": np.moveaxis(sample["x"], -1, 1)})
        assert np.abs(outputs["y"] - reference).max() < 4e-3 * np.abs(reference).max()


@pytest.mark.parametrize(
    ("group", "kernel", "zero", "integer"),
    [(1, 3, 0, True), (1, 3, 5, True), (2, 3, 0, False), (6, 3, 0, True), (6, 3, 5, True),
     (6, 25, 0, False)],
)  # fmt: skip
def test_convolutions_of_bytes_are_what_onnx_says(
    group: int, kernel: int, zero: int, integer: bool, tmp_path: Path
) -> None:
    """Groups, zero points of weights, windows whose sums float32 does not hold."""
    w = np.full((6, 6 // group, kernel, kernel), 127, np.int8)
    w[RNG.random(w.shape) < 0.2] = -100
    names = {"w/q": w, "w/s": np.float32(1e-3), "w/z": np.asarray(zero, np.int8)}
    nodes, weights = joined(
        quantised("x", 0.02, 0), ([node("DequantizeLinear", [*names], ["w"])], names),
        ([node("Conv", ["x/dq", "w"], ["y"], group=group)], {}),
    )  # fmt: skip
    size = kernel + 2
    before, graph = graphs(tmp_path, model(nodes, {"x": (1, 6, size, size)}, weights=weights))
    assert bool(graph.integer_layers) is integer
    for sample in seeded_samples(before, 2):
        (found,), (right,) = evaluate(graph, sample).values(), evaluate(before, sample).values()
        assert np.abs(found - right).max() <= 1e-5 * np.abs(right).max()
