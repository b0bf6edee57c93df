"""Batch, open dimensions, chosen outputs, names, and uint8 inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.ops.elementwise.activations import Relu, Tanh
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Identity, Reshape, Slice
from cannery.passes import run_passes
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dense(name: str, *calls: Any, rows: int = 3, units: int = 3, **config: Any) -> LayerSpec:
    weights = {"kernel": numbers(1, rows, units), "bias": numbers(2, units)}
    return LayerSpec("Dense", name, calls, {"units": units, **config}, weights)


def saved(folder: Path, *layers: LayerSpec, inputs: Any = "x", outputs: Any) -> Path:
    many = inputs if isinstance(inputs, list) else [inputs]
    return write_h5(folder / "model.h5", Model("net", layers, many, outputs))


def checked(path: Path, **options: Any) -> Graph:
    graph = load_graph(path, ImportOptions(**options))
    verify(graph, after="the test")
    return graph


def nodes(graph: Graph) -> list[tuple[str, Any]]:
    return [(node.name, node.op) for node in graph.nodes]


def test_an_activation_gives_its_value_the_name_of_the_layer(tmp_path: Path) -> None:
    path = saved(tmp_path, image("x", 3), dense("d", ["x"], activation="tanh"), outputs=["d"])
    graph = checked(path)
    assert nodes(graph) == [("d", MatMul()), ("d/tanh", Tanh())]
    assert [node.output for node in graph.nodes] == ["d/pre", "d"]
    assert graph.outputs == ("d",)


def test_outputs_that_are_one_value_become_two(tmp_path: Path) -> None:
    gone = layer("Dropout", "gone", "d", rate=0.5)
    path = saved(tmp_path, image("x", 3), dense("d", ["x"]), gone, outputs=["d", "gone", "d"])
    graph = checked(path)
    assert graph.outputs == ("d", "gone", "d.1")
    assert nodes(graph) == [("d", MatMul()), ("gone", Identity()), ("d.1", Identity())]


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    graph = checked(saved(tmp_path, image("x", 3), outputs=["x"]))
    assert (graph.inputs, graph.outputs) == (("x",), ("x.1",))
    x = numbers(1, 1, 3)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["x.1"], x)


def two_branches(folder: Path) -> Path:
    layers = [
        image("x", 3), image("y", 3), dense("a", ["x"], activation="relu"), dense("b", ["y"]),
        layer("Add", "sum", "a", "b"),
    ]  # fmt: skip
    return saved(folder, *layers, inputs=["x", "y"], outputs=["sum"])


def test_chosen_outputs_drop_what_they_do_not_need(tmp_path: Path) -> None:
    graph = checked(two_branches(tmp_path), outputs=("a",))
    assert (graph.inputs, graph.outputs) == (("x",), ("a",))
    assert nodes(graph) == [("a", MatMul()), ("a/relu", Relu())]
    assert set(graph.constants) == {"a/kernel", "a/bias"}


def test_chosen_outputs_keep_their_order(tmp_path: Path) -> None:
    graph = checked(two_branches(tmp_path), outputs=("sum", "b"))
    assert (graph.inputs, graph.outputs) == (("x", "y"), ("sum", "b"))


def test_an_output_inside_a_nested_model(tmp_path: Path) -> None:
    layers = [image("p", 3), dense("one", ["p"]), dense("two", ["one"])]
    inner = Model("inner", layers, ["p"], ["two"])
    nested = LayerSpec("Functional", "inner", [["x"], [("inner", 1, 0)]], model=inner)
    path = saved(tmp_path, image("x", 3), nested, outputs=[("inner", 2, 0)])
    assert checked(path, outputs=("inner/one",)).outputs == ("inner/one",)
    second = checked(path, outputs=("inner.1/one",))
    assert [name for name, _ in nodes(second)] == ["inner/one", "inner/two", "inner.1/one"]
    assert checked(path, outputs=("inner.1",)).outputs == ("inner.1",)


def test_chosen_outputs_cut_off_what_is_not_supported(tmp_path: Path) -> None:
    odd = layer("Lambda", "odd", "d", function="x")
    path = saved(tmp_path, image("x", 3), dense("d", ["x"]), odd, outputs=["odd"])
    with pytest.raises(UnsupportedError, match="'odd'"):
        checked(path)
    assert checked(path, outputs=("d",)).outputs == ("d",)


def test_an_unknown_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no layer is called 'nope'.*sum"):
        checked(two_branches(tmp_path), outputs=("nope",))


def test_rename(tmp_path: Path) -> None:
    graph = checked(two_branches(tmp_path), rename={"x": "left", "sum": "x"})
    assert (graph.inputs, graph.outputs) == (("left", "y"), ("x",))
    assert [node.name for node in graph.nodes] == ["a", "a/relu", "b", "sum"]


@pytest.mark.parametrize(
    ("rename", "message"),
    [({"z": "w"}, "called 'z'.*x, y, sum"), ({"x": "y"}, "two .* are called 'y'")],
)
def test_a_rename_that_does_not_fit(rename: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        checked(two_branches(tmp_path), rename=rename)


def test_open_dimensions_are_given_by_axis(tmp_path: Path) -> None:
    path = saved(tmp_path, image("x", None, 3), dense("d", ["x"]), outputs=["d"])
    with pytest.raises(UnsupportedError, match=r"input 'x'.*dimension 1 is open.*--dim x\.1=n"):
        checked(path)
    assert checked(path, dims={"x.1": 7}).types["d"].shape == (1, 7, 3)
    with pytest.raises(OptionError, match=r"'x\.2'.*x\.1"):
        checked(path, dims={"x.1": 7, "x.2": 3})


def test_uint8_input_with_scale_and_offset(tmp_path: Path) -> None:
    path = saved(tmp_path, image("x", 3), dense("d", ["x"]), outputs=["d"])
    options = {"input_dtypes": {"x": DType.UINT8}, "scale": 1 / 127.5, "offset": -1.0}
    graph = checked(path, **options)
    assert graph.types["x"].dtype is DType.UINT8
    assert nodes(graph) == [
        ("x/cast", Cast(DType.FLOAT32)), ("x/scale", Mul()), ("x/offset", Add()), ("d", MatMul()),
    ]  # fmt: skip
    x = np.array([[0, 128, 255]], np.uint8)
    plain = evaluate(checked(path), {"x": x.astype(np.float64) * np.float32(1 / 127.5) - 1})
    np.testing.assert_allclose(evaluate(graph, {"x": x})["d"], plain["d"], rtol=1e-12)


NORM_WEIGHTS = ("gamma", "beta", "moving_mean", "moving_variance")


def colours(folder: Path, class_name: str = "Conv2D", padding: str = "same") -> Path:
    """A network that begins with a convolution of 4 x 5 pixels of RGB."""
    config: dict[str, Any] = {"kernel_size": [3, 3], "padding": padding}
    if class_name == "Conv2D":
        weights = {"kernel": numbers(3, 3, 3, 3, 2), "bias": numbers(4, 2)}
        config["filters"] = 2
    else:
        weights = {"depthwise_kernel": numbers(3, 3, 3, 3, 1), "bias": numbers(4, 3)}
    first = LayerSpec(class_name, "c", ["x"], config, weights)
    return saved(folder, image("x", 4, 5, 3), first, outputs=["c"])


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_bytes_of_bgr_with_scales_and_offsets_of_rgb(tmp_path: Path, padding: str) -> None:
    path = colours(tmp_path, padding=padding)
    scale, offset = (0.5, 0.25, 0.125), (-1.0, 2.0, 3.0)
    graph = checked(
        path, input_dtypes={"x": DType.UINT8}, scale=scale, offset=offset, reverse_channels=("x",)
    )
    lean = run_passes(graph)
    assert not any(isinstance(op, Slice) for _, op in nodes(lean))
    bgr = np.random.default_rng(5).integers(0, 256, (1, 4, 5, 3)).astype(np.uint8)
    rgb = bgr[..., ::-1].astype(np.float64) * scale + offset
    wanted = evaluate(checked(path), {"x": rgb})["c"]
    np.testing.assert_allclose(evaluate(graph, {"x": bgr})["c"], wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(evaluate(lean, {"x": bgr})["c"], wanted, rtol=1e-5, atol=1e-5)


def test_bgr_before_a_normalisation_of_rgb(tmp_path: Path) -> None:
    weights = {name: np.abs(numbers(k, 3)) for k, name in enumerate(NORM_WEIGHTS)}
    norm = LayerSpec("BatchNormalization", "n", ["x"], {"epsilon": 0.1, "axis": [3]}, weights)
    config = {"kernel_size": [3, 3], "padding": "same", "filters": 2, "use_bias": False}
    conv = LayerSpec("Conv2D", "c", ["n"], config, {"kernel": numbers(3, 3, 3, 3, 2)})
    path = saved(tmp_path, image("x", 4, 5, 3), norm, conv, outputs=["c"])
    lean = run_passes(checked(path, reverse_channels=("x",)))
    assert not any(isinstance(op, Slice) for _, op in nodes(lean))
    bgr = numbers(6, 1, 4, 5, 3).astype(np.float64)
    wanted = evaluate(checked(path), {"x": bgr[..., ::-1]})["c"]
    np.testing.assert_allclose(evaluate(lean, {"x": bgr})["c"], wanted, rtol=1e-5, atol=1e-5)


def test_floats_of_bgr_before_a_depthwise_convolution(tmp_path: Path) -> None:
    path = colours(tmp_path, "DepthwiseConv2D")
    lean = run_passes(checked(path, reverse_channels=("x",)))
    bgr = numbers(6, 1, 4, 5, 3).astype(np.float64)
    wanted = evaluate(checked(path), {"x": bgr[..., ::-1]})["c"]
    np.testing.assert_allclose(evaluate(lean, {"x": bgr})["c"], wanted, rtol=1e-6, atol=1e-6)


def test_channels_that_an_input_does_not_have(tmp_path: Path) -> None:
    as_bytes = {"input_dtypes": {"x": DType.UINT8}}
    with pytest.raises(OptionError, match=r"input 'x': scale has 2 numbers for 3 channels"):
        checked(colours(tmp_path), scale=(1.0, 2.0), **as_bytes)
    with pytest.raises(OptionError, match="no input is called 'y'"):
        checked(colours(tmp_path), reverse_channels=("y",))
    for wrong in ((3,), (3, 4, 5)):
        path = saved(tmp_path, image("x", *wrong), layer("ReLU", "d", "x"), outputs=["d"])
        with pytest.raises(OptionError, match=r"input 'x': reverse_channels: .* is not an image"):
            checked(path, reverse_channels=("x",))


def test_uint8_input_without_scale_is_a_plain_cast(tmp_path: Path) -> None:
    graph = checked(two_branches(tmp_path), input_dtypes={"y": DType.UINT8})
    assert graph.types["x"].dtype is DType.FLOAT32
    assert ("y/cast", Cast(DType.FLOAT32)) in nodes(graph)
    assert not any(name.startswith("x/") for name, _ in nodes(graph))


def test_input_that_is_uint8_in_the_file_is_cast_where_it_is_computed_with(tmp_path: Path) -> None:
    x = image("x", 2, 2, dtype="uint8")
    layers = [x, layer("Flatten", "f", "x"), dense("d", ["f"], rows=4), dense("e", ["f"], rows=4)]
    graph = checked(saved(tmp_path, *layers, outputs=["d", "e", "f"]))
    assert nodes(graph) == [
        ("f", Reshape((1, 4))), ("f/cast", Cast(DType.FLOAT32)), ("d", MatMul()), ("e", MatMul()),
    ]  # fmt: skip
    assert graph.types["f"].dtype is DType.UINT8


def test_integer_arithmetic_is_refused(tmp_path: Path) -> None:
    layers = [image("x", 2, dtype="uint8"), layer("Add", "a", "x", "x")]
    with pytest.raises(UnsupportedError, match=r"'a'.*integers.*Rescaling"):
        checked(saved(tmp_path, *layers, outputs=["a"]))


def test_a_uint8_input_can_be_made_float(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m", chain(image("x", 3, dtype="uint8"), dense("d")))
    graph = checked(path, input_dtypes={"x": DType.FLOAT32})
    assert nodes(graph) == [("d", MatMul())]


def test_input_dtype_of_an_unknown_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no input is called 'z'.*x, y"):
        checked(two_branches(tmp_path), input_dtypes={"z": DType.UINT8})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch 0"),
        ({"scale": 2.0}, "--scale: there is no input"),
        ({"offset": float("inf"), "input_dtypes": {"x": DType.UINT8}}, "not a finite float32"),
        ({"scale": -1e39, "input_dtypes": {"x": DType.UINT8}}, "not a finite float32 number"),
        ({"scale": 2e36, "input_dtypes": {"x": DType.UINT8}}, r"scale \* 255 \+ offset"),
        ({"input_dtypes": {"x": DType.INT16}}, "cannot be int16"),
        ({"outputs": ("a", "a")}, "twice"),
        ({"rename": {"a": "c", "b": "c"}}, "two tensors"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ImportOptions(**options)


def test_numbers_are_as_large_as_float32_allows() -> None:
    """And what becomes of 255 is."""
    most, inputs = float(np.finfo(np.float32).max), {"x": DType.UINT8}
    assert ImportOptions(offset=-most, input_dtypes=inputs).offset == -most
    assert ImportOptions(scale=most / 256, offset=most / 257, input_dtypes=inputs)
    for scale, offset in ((0.0, 1.0001 * most), (most / 254, 0.0), (most / 256, most / 255)):
        with pytest.raises(OptionError, match="finite float32 number"):
            ImportOptions(scale=scale, offset=offset, input_dtypes=inputs)
