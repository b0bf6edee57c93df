"""Import of ONNX models: orders of axes, folded shapes, open sizes, options, external data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

import cannery
from cannery.cli import invoke
from cannery.errors import CanneryError, ModelError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.onnx.file import recognises
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Transpose
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_model
from frontends.onnx_models import assert_as_onnx, expected, floats, load, model, node, write


def kinds(graph: Graph) -> Counter[str]:
    return Counter(n.op.kind for n in graph.nodes)


def conv_net(**changes: Any) -> Any:
    """Two convolutions with a residual, a mean over space and a matrix product."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], auto_pad="SAME_LOWER"),
        node("Mul", ["c2", "slope"], ["m"]),
        node("Add", ["m", "r1"], ["s"]),
        node("GlobalAveragePool", ["s"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    weights = {
        "w1": floats(4, 3, 3, 3), "b1": floats(4), "w2": floats(4, 4, 2, 2), "w3": floats(5, 4),
        "b3": floats(5), "slope": floats(4, 1, 1),
    }  # fmt: skip
    return model(nodes, {"x": ["n", 3, 6, 8]}, weights=weights, **changes)


def test_images_run_with_channels_last_and_nothing_is_transposed(tmp_path: Path) -> None:
    proto = conv_net()
    graph = load(tmp_path, proto)
    assert graph.types["x"].shape == (1, 6, 8, 3)
    assert graph.channels_first == {"x"}
    assert "Transpose" not in kinds(graph)
    assert_as_onnx(proto, graph)


def test_transposes_of_the_model_only_change_what_is_known(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w"], ["c"]),
        node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    proto = model(nodes, {"x": [1, 5, 6, 3]}, weights={"w": floats(4, 3, 2, 2)})
    graph = load(tmp_path, proto)
    assert kinds(graph) == {"Conv": 1}
    assert not graph.channels_first
    assert_as_onnx(proto, graph)


def test_outputs_keep_the_order_of_the_model(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Transpose", ["c"], ["y"], perm=[3, 1, 2, 0]),
    ]
    proto = model(nodes, {"x": [1, 3, 5, 6]}, ["c", "y"], {"w": floats(4, 3, 2, 2)})
    graph = load(tmp_path, proto)
    assert graph.channels_first == {"x", "c"}
    assert_as_onnx(proto, graph)


def test_orders_that_do_not_agree_meet_by_one_transpose(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Add", ["c", "z"], ["s"]),
        node("Mul", ["s", "z"], ["y"]),
    ]
    inputs = {"x": [1, 3, 5, 6], "z": [1, 4, 4, 5]}
    proto = model(nodes, inputs, weights={"w": floats(4, 3, 2, 2)})
    graph = load(tmp_path, proto)
    assert kinds(graph)["Transpose"] == 1
    assert_as_onnx(proto, graph)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_operators_with_an_axis_behind_a_convolution(tmp_path: Path, axis: int) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Softmax", ["c"], ["s"], axis=axis),
        node("Concat", ["s", "c"], ["k"], axis=axis),
        node("ReduceMean", ["k"], ["r"], axes=[axis], keepdims=0),
        node("Slice", ["k", "one", "many", "axis"], ["l"]),
        node("Unsqueeze", ["r", "axis"], ["u"]),
        node("Pad", ["k", "pads"], ["p"]),
        node("LayerNormalization", ["c", "scale"], ["n"], axis=axis),
    ]
    shape = [2, 4, 4, 5]
    weights = {
        "w": floats(4, 3, 2, 2), "one": [1], "many": [99], "axis": [axis],
        "pads": [0, 1, 2, 3, 1, 0, 0, 2], "scale": floats(*shape[axis % 4 :]),
    }  # fmt: skip
    outputs = ["k", "r", "l", "u", "p", "n"]
    proto = model(nodes, {"x": [2, 3, 5, 6]}, outputs, weights)
    assert_as_onnx(proto, load(tmp_path, proto))


def test_computed_shapes_are_folded(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Constant", [], ["rest"], value_ints=[-1]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["flat"]),
        node("ConstantOfShape", ["target2"], ["ones"], value=onnx.numpy_helper.from_array(
            np.ones(1, np.float32))),
        node("Range", ["zero", "three", "one"], ["range"]),
        node("Cast", ["range"], ["steps"], to=1),
        node("Mul", ["ones", "steps"], ["grid"]),
        node("Slice", ["shape", "one1", "two1"], ["width"]),
        node("Equal", ["width", "four"], ["is_four"]),
        node("Where", ["is_four", "grid", "ones"], ["chosen"]),
        node("Expand", ["flat", "target3"], ["wide"]),
        node("Tile", ["chosen", "times"], ["tiled"]),
        node("Add", ["wide", "tiled"], ["y"]),
    ]  # fmt: skip
    weights = {
        "zero": 0, "axis": [0], "target2": [2, 3], "three": 3, "one": 1, "one1": [1],
        "two1": [2], "four": [4], "target3": [2, 12], "times": [1, 4],
    }  # fmt: skip
    proto = model(nodes, {"x": ["n", 4, 3]}, weights=weights)
    graph = load(tmp_path, proto)
    assert kinds(graph) == {"Reshape": 1, "Expand": 1, "Add": 1}
    assert_as_onnx(proto, graph)


def test_what_no_output_needs_is_left_out(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("NonZero", ["x"], ["unused"]),
        node("Dropout", ["y"], ["z", "mask"]),
    ]
    graph = load(tmp_path, model(nodes, {"x": [1, 4]}, ["z"]))
    assert kinds(graph) == {"Relu": 1}
    assert graph.outputs == ("z",)


def test_initializers_may_be_inputs_too(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "b"], ["y"])], {"x": [1, 4], "b": [4]}, weights={
        "b": floats(4)})  # fmt: skip
    graph = load(tmp_path, proto)
    assert graph.inputs == ("x",)


def test_outputs_cut_the_network(tmp_path: Path) -> None:
    graph = load(tmp_path, conv_net(), ImportOptions(outputs=("r1",)))
    assert graph.outputs == ("r1",)
    assert kinds(graph) == {"Conv": 1, "Relu": 1}
    with pytest.raises(OptionError, match="no tensor of the model is called 'none'"):
        load(tmp_path, conv_net(), ImportOptions(outputs=("none",)))


def test_renamed_images_keep_their_order(tmp_path: Path) -> None:
    graph = load(tmp_path, conv_net(), ImportOptions(rename={"x": "image"}))
    assert graph.inputs == ("image",)
    assert graph.channels_first == {"image"}


def test_bytes_instead_of_floats(tmp_path: Path) -> None:
    options = ImportOptions(input_dtypes={"x": DType.UINT8}, scale=0.5, offset=-1.0)
    graph = load(tmp_path, conv_net(), options)
    plain = load(tmp_path, conv_net())
    image = np.random.default_rng(0).integers(0, 256, (1, 6, 8, 3)).astype(np.uint8)
    (found,) = evaluate(graph, {"x": image}).values()
    (reference,) = evaluate(plain, {"x": image * 0.5 - 1.0}).values()
    assert np.allclose(found, reference)


def test_open_dimensions(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": ["batch", "length", None]})
    with pytest.raises(UnsupportedError, match="--dim length=n"):
        load(tmp_path, proto)
    options = ImportOptions(batch=2, dims={"length": 5, "x.2": 7})
    assert load(tmp_path, proto, options).types["x"].shape == (2, 5, 7)
    named = replace(options, dims={"batch": 3, **options.dims})
    assert load(tmp_path, proto, named).types["x"].shape == (3, 5, 7)
    with pytest.raises(OptionError, match="no open dimension is called 'hight'"):
        load(tmp_path, proto, ImportOptions(dims={"hight": 5}))
    fixed = model([node("Relu", ["x"], ["y"])], {"x": [1, 4]})
    with pytest.raises(OptionError, match=r"fixed at 1 .*or leave this out and call run_many"):
        load(tmp_path, fixed, ImportOptions(batch=2))
    with pytest.raises(OptionError, match=r"fixed at 1 .*or keep a state for each sequence"):
        load(tmp_path, fixed, ImportOptions(batch=2, streaming=True))


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13])
def test_softmax_of_old_versions_is_over_all_that_follows(tmp_path: Path, opset: int) -> None:
    proto = model([node("Softmax", ["x"], ["y"])], {"x": [2, 3, 4]}, opset=opset)
    graph = load(tmp_path, proto)
    x = floats(2, 3, 4)
    y = evaluate(graph, {"x": x})["y"]
    axes = (1, 2) if opset < 13 else 2
    e = np.exp(x.astype(np.float64))
    assert np.allclose(y, e / e.sum(axis=axes, keepdims=True))


def external(folder: Path, location: str, data: bytes | None, **entries: str) -> Path:
    """A model whose weight lies in another file."""
    proto = model([node("Add", ["x", "b"], ["y"])], {"x": [1, 4]}, weights={"b": floats(4)})
    (tensor,) = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    if data is not None:
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(data)
    return write(folder / "model.onnx", proto)


def test_weights_in_another_file(tmp_path: Path) -> None:
    data = b"\0" * 8 + floats(4).tobytes()
    for location in ("weights.bin", "data/weights.bin"):
        path = external(tmp_path, location, data, offset="8", length="16")
        graph = load_graph(path)
        (array,) = graph.constants.values()
        assert np.array_equal(array, floats(4))
        assert graph.files == (tmp_path / location,)
        compiled = compile_model(make_options(path, {"isa": ("generic",)}))
        assert compiled.dependencies == (path, tmp_path / location)


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../weights.bin", {}, "outside of the model's folder"),
        ("/etc/passwd", {}, "outside of the model's folder"),
        ("a/../../weights.bin", {}, "outside of the model's folder"),
        ("", {}, "outside of the model's folder"),
        ("link.bin", {}, "outside of the model's folder"),
        ("none.bin", {}, "missing"),
        ("a" * 300, {}, "missing"),
        ("a/" * 3000 + "b", {}, "missing"),
        ("a\0b", {}, "outside of the model's folder"),
        ("weights.bin", {"length": "99"}, "needs 16 bytes"),
        ("weights.bin", {"offset": "4"}, "shorter"),
        ("weights.bin", {"offset": "-4"}, "needs 16 bytes"),
        ("weights.bin", {"offset": "x"}, "malformed"),
    ],
)
def test_weights_elsewhere_are_refused(
    tmp_path: Path, location: str, entries: dict[str, str], message: str
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    for name in (tmp_path / "weights.bin", folder / "weights.bin"):
        name.write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = external(folder, location, None, **entries)
    with pytest.raises(ModelError, match=message):
        load_graph(path)


def test_all_that_is_not_supported_is_told_at_once(tmp_path: Path) -> None:
    nodes = [
        node("StringConcat", ["x", "x"], ["a"]),
        node("Conv", ["a", "w"], ["b"]),
        node("Optional", ["b"], ["c"]),
        node("Mine", ["c"], ["y"], domain="org.example"),
    ]
    proto = model(nodes, {"x": [1, 3, 4, 4]}, weights={"w": floats(4, 3, 2, 2)})
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, proto)
    text = str(caught.value)
    assert "3 layers" in text
    assert all(word in text for word in ("StringConcat", "Optional", "Mine", "org.example"))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (model([node("Relu", ["z"], ["y"])], {"x": [1, 4]}), "reads 'z', which nothing"),
        (model([node("Relu", ["x"], ["z"])], {"x": [1, 4]}), "reads|not computed"),
        (
            model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": [1]}, ["b"]),
            "nodes 'a' .Add., 'b' .Relu. need each other's results",
        ),
        (
            model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])], {"x": [1, 4]}),
            "computed twice",
        ),
        (model([node("Relu", ["x"], ["y"], alpha=2.0)], {"x": [1]}), "attribute 'alpha'"),
        (model([node("Softmax", ["x"], ["y"], axis=3)], {"x": [1, 4]}), "axis 3"),
        (model([node("Relu", ["x"], ["y"])], {"x": None}), "no shape"),
        (model([node("Relu", ["x"], ["y"])], {"x": [1, 4]}, opset=99), "1 to"),
        (model([node("Relu", ["x"], ["y"])], {"x": [1, 4]}, dtype=8), "string"),
        (model([node("Relu", ["x"], ["y"])], {"x": [2**20, 2**20]}), "more than 2"),
        (
            model(
                [node("ConstantOfShape", ["s"], ["y"])], {}, weights={"s": [2**20, 2**20]}
            ),
            "too large",
        ),
        (
            model([node("Reshape", ["x", "s"], ["y"])], {"x": [1, 4]}, weights={"s": [3, -1]}),
            "cannot become",
        ),
        (
            model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, 4, 4], "w": [4, 2, 2, 2]}),
            "kernel reads 2 channels",
        ),
    ],
)  # fmt: skip
def test_faults_are_one_clear_error(tmp_path: Path, proto: Any, message: str) -> None:
    with pytest.raises(CanneryError, match=message) as caught:
        load(tmp_path, proto)
    assert str(tmp_path / "model.onnx") in str(caught.value)


def test_small_files_cannot_fill_the_memory(tmp_path: Path) -> None:
    count = 40
    nodes = [node("ConstantOfShape", ["s"], [f"c{k}"]) for k in range(count)]
    nodes.append(node("Sum", ["x", *(f"c{k}" for k in range(count))], ["y"]))
    proto = model(nodes, {"x": [1, 4]}, weights={"s": [2**12, 2**12]})
    with pytest.raises(ModelError, match="computed from constants are too large"):
        load(tmp_path, proto)


def test_lies_about_sizes_are_errors(tmp_path: Path) -> None:
    for dims in ((5,), (-4,), (2**40, 2**40), (3,)):
        proto = model([node("Add", ["x", "b"], ["y"])], {"x": [1, 4]}, weights={"b": floats(4)})
        (tensor,) = proto.graph.initializer
        del tensor.dims[:]
        tensor.dims.extend(dims)
        with pytest.raises(ModelError, match="tensor 'b'"):
            load(tmp_path, proto)


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    data = conv_net().SerializeToString()
    path = tmp_path / "model.onnx"
    for cut in (1, 2, 10, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ModelError):
            load_graph(path)


def test_a_model_is_recognised_by_content() -> None:
    assert recognises(conv_net().SerializeToString()[:4096])
    for other in (b"PK\3\4" + bytes(99), b"\x89HDF\r\n\x1a\n" + bytes(99), b"junk" * 99, b"\0" * 99,
                  b"\x1c\0\0\0TFL3" + bytes(99)):  # fmt: skip
        assert not recognises(other)


def test_without_the_package_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "model.onnx", conv_net())
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(CanneryError, match=r"pip install 'cannery\[onnx\]'"):
        load_graph(path)


def test_no_transpose_is_left_before_a_matrix_product(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Flatten", ["r"], ["f"]),
        node("Gemm", ["f", "w2", "b2"], ["y"], transB=1),
    ]
    weights = {"w": floats(4, 3, 2, 2), "w2": floats(5, 4 * 4 * 5), "b2": floats(5)}
    proto = model(nodes, {"x": [2, 3, 5, 6]}, weights=weights)
    graph = run_passes(load(tmp_path, proto))
    assert not any(isinstance(n.op, Transpose) for n in graph.nodes)
    assert_as_onnx(proto, graph)


@pytest.mark.parametrize("name", ["channels first", "channels last", "vectors"])
def test_compiled_networks_compute_what_onnx_does(tmp_path: Path, name: str) -> None:
    if name == "channels first":
        proto = conv_net()
    elif name == "channels last":
        nodes = [
            node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
            node("Conv", ["t", "w"], ["c"], strides=[2, 2], pads=[0, 0, 1, 1]),
            node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
            node("Transpose", ["p"], ["y"], perm=[0, 2, 3, 1]),
        ]
        proto = model(nodes, {"x": [1, 9, 9, 3]}, ["y", "p"], {"w": floats(4, 3, 3, 3)})
    else:
        nodes = [
            node("Gemm", ["x", "w1", "b1"], ["a"], transB=1, alpha=0.5),
            node("Elu", ["a"], ["e"]),
            node("MatMul", ["e", "w2"], ["m"]),
            node("LogSoftmax", ["m"], ["y"]),
        ]
        weights = {"w1": floats(16, 8), "b1": floats(16), "w2": floats(16, 3)}
        proto = model(nodes, {"x": ["n", 8]}, weights=weights)
    net = cannery.load(write(tmp_path / "net.onnx", proto))
    inputs = {port.name: floats(*port.shape) for port in net.inputs}
    found = net(**inputs)
    for y, reference in zip(found if isinstance(found, tuple) else (found,),
                            expected(proto, inputs), strict=True):  # fmt: skip
        assert y.shape == reference.shape
        assert np.allclose(y, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["model", "nhwc", "nchw"])
def test_files_of_arrays_lie_as_in_the_model(tmp_path: Path, layout: str) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])]
    proto = model(nodes, {"x": [1, 3, 5, 6]}, weights={"w": floats(4, 3, 2, 2)})
    path = str(write(tmp_path / "net.onnx", proto))
    x = floats(1, 3, 5, 6)
    (y,) = expected(proto, {"x": x})
    given, wanted, found = (str(tmp_path / f"{name}.npz") for name in ("in", "out", "found"))
    np.savez(given, x=x)
    np.savez(wanted, y=y)
    verify = ["verify", path, "--inputs", given, "--against", wanted, "--io-layout", layout]
    assert invoke(verify) == 0
    assert invoke(["run", path, "--inputs", given, "-o", found, "--io-layout", layout]) == 0
    assert np.allclose(np.load(found)["y"], y, rtol=1e-4, atol=1e-5)
    dims = {port.shape for port in cannery.load(path, io_layout=layout).inputs}
    assert dims == {(1, 5, 6, 3) if layout == "nhwc" else (1, 3, 5, 6)}


@pytest.mark.parametrize(("to", "name"), [(8, "string"), (17, "type 17 of ONNX")])
def test_element_types_without_a_form_are_named(tmp_path: Path, to: int, name: str) -> None:
    nodes = [node("Cast", ["x"], ["h"], to=to), node("Cast", ["h"], ["y"], to=1)]
    with pytest.raises(UnsupportedError, match=f"elements of {name} are not supported") as caught:
        load(tmp_path, model(nodes, {"x": [1, 4]}))
    assert "float32" in caught.value.cure


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_of_other_float_types(tmp_path: Path, dtype: Any) -> None:
    """Stored small or large and cast in the model, as converters leave them."""
    w = floats(4, 3).astype(np.float16).astype(dtype)
    nodes = [node("Cast", ["w"], ["f"], to=1), node("MatMul", ["x", "f"], ["y"])]
    graph = load(tmp_path, model(nodes, {"x": [1, 4]}, weights={"w": w}))
    (weights,) = graph.constants.values()
    assert weights.dtype == np.float32
    assert np.array_equal(weights, w.astype(np.float32))


def test_slices_that_begin_before_the_first_element(tmp_path: Path) -> None:
    """Backwards: ONNX bounds where they begin by the first element, numpy by none."""
    bounds = {"a": [-9], "b": [-(2**31)], "c": [0], "d": [-1]}
    proto = model([node("Slice", ["x", *"abcd"], ["y"])], {"x": [4]}, weights=bounds)
    graph = load(tmp_path, proto)
    (y,) = evaluate(graph, {"x": np.arange(4.0)}).values()
    assert y.tolist() == [0.0]


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_known_rests_have_the_sign_that_onnx_says(fmod: int, dtype: type, tmp_path: Path) -> None:
    """Of the divisor, or with fmod of the dividend; quotients go towards zero."""
    known = {"a": np.array([-7, 7, -7, 7, 6], dtype), "b": np.array([3, -3, -3, 3, -3], dtype)}
    nodes = [
        node("Mod", ["a", "b"], ["m"], fmod=fmod), node("Div", ["a", "b"], ["d"]),
        node("Cast", ["m"], ["mf"], to=1), node("Cast", ["d"], ["df"], to=1),
        node("Add", ["x", "mf"], ["s"]), node("Mul", ["s", "df"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, {"x": (5,)}, weights=known)
    x = {"x": np.arange(5, dtype=np.float32)}
    (found,) = evaluate(load(tmp_path, proto), x).values()
    assert np.array_equal(found, expected(proto, x)[0])
