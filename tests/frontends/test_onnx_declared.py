"""Shapes and element types that a file declares are compared with the computed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.errors import ModelError
from cannery.frontends import ImportOptions
from frontends.onnx_models import floats, load, model, node, onnx, write

FLOAT, INT64, DOUBLE, FLOAT16 = 1, 7, 11, 10


def _network(batch: Any = 1, height: Any = 8, width: Any = 8) -> Any:
    """X [N,3,H,W] -> c [N,4,H,W] -> p [N,4,1,1] -> f [N,4] -> y [N,5], i [N,1]."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("GlobalAveragePool", ["c"], ["p"]),
        node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "d"], ["y"]),
        node("ArgMax", ["y"], ["i"], axis=1),
    ]  # fmt: skip
    weights = {"w": floats(4, 3, 3, 3), "d": floats(4, 5)}
    return model(nodes, {"x": [batch, 3, height, width]}, ["y", "i"], weights)


def _declare(proto: Any, name: str, shape: Any, dtype: int = FLOAT) -> Any:
    """The model with what it says of an output or of a value between."""
    made = onnx.helper.make_tensor_value_info(name, dtype, shape)
    for output in proto.graph.output:
        if output.name == name:
            output.CopyFrom(made)
            return proto
    proto.graph.value_info.append(made)
    return proto


def _inside(kind: str, said: Any, where: str) -> Any:
    """Y = x W in a branch, a body or a function, which says that it is `said`."""
    info = onnx.helper.make_tensor_value_info
    product = node("MatMul", ["x" if kind != "Loop" else "s", "w"], ["inner"])
    told = [info("inner", FLOAT, said)] if where == "value" else []
    out = info("out", FLOAT, said if where == "output" else None)
    last = node("Identity", ["inner"], ["out"])
    weights = {"w": floats(4, 4)}
    if kind == "function":
        function = onnx.helper.make_function(
            "own", "f", ["x", "w"], ["out"], [product, last],
            [onnx.helper.make_opsetid("", 17)], value_info=told,
        )  # fmt: skip
        call = node("f", ["x", "w"], ["y"], domain="own")
        proto = model([call], {"x": [1, 4]}, weights=weights)
        proto.functions.append(function)
        proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
        return proto
    nodes, inputs, outputs = [product, last], [], [out]
    if kind == "Loop":
        inputs = [info("n", INT64, []), info("c", 9, []), info("s", FLOAT, None)]
        nodes.append(node("Identity", ["c"], ["going"]))
        outputs = [info("going", 9, []), out]
    body = onnx.helper.make_graph(nodes, "inside", inputs, outputs, value_info=told)
    if kind == "If":
        outer = node("If", ["flag"], ["y"], then_branch=body, else_branch=body)
        weights["flag"] = np.array(True)
    else:
        outer = node("Loop", ["turns", "", "x"], ["y"], body=body)
        weights["turns"] = np.array(2)
    return model([outer], {"x": [1, 4]}, weights=weights)


@pytest.mark.parametrize(
    ("kind", "where"),
    [(k, w) for k in ("If", "Loop", "function") for w in ("value", "output")][:-1],
)
def test_what_branches_bodies_and_functions_declare(kind: str, where: str, tmp_path: Path) -> None:
    for fits in ([1, 4], ["n", 4], None):
        assert load(tmp_path, _inside(kind, fits, where)).types["y"].shape == (1, 4)
    with pytest.raises(ModelError, match=r"as float32\[1x4\].*declares float32\[1x5\]"):
        load(tmp_path, _inside(kind, [1, 5], where))


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "message"),
    [
        ("y", [1, 7], FLOAT, r"node 'y' \(Gemm\).*'y' as float32\[1x5\].* float32\[1x7\]"),
        ("y", [1, 1, 5], FLOAT, r"node 'y'.*float32\[1x5\].*float32\[1x1x5\]"),
        ("y", ["n", 7], FLOAT, r"declares float32\[nx7\]"),
        ("y", [None, 7], FLOAT, r"declares float32\[\?x7\]"),
        ("c", [1, 8, 8, 4], FLOAT, r"node 'c' \(Conv\).*\[1x4x8x8\].*\[1x8x8x4\]"),
        ("f", [4], FLOAT, r"node 'f' \(Flatten\).*\[1x4\].*\[4\]"),
        ("i", [1, 1], FLOAT, r"node 'i' \(ArgMax\).*int64\[1x1\].*float32\[1x1\]"),
        ("c", None, INT64, r"node 'c' \(Conv\).*float32\[1x4x8x8\].*int64\[\]"),
    ],
)
def test_a_contradiction_names_the_node(
    name: str, shape: Any, dtype: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path, _declare(_network(), name, shape, dtype))
    assert "export the model again" in caught.value.cure


def test_the_first_node_is_named(tmp_path: Path) -> None:
    proto = _network()
    for name, shape in {"y": [1, 9], "f": [1, 9], "p": [1, 4, 1, 1], "i": [2, 1]}.items():
        _declare(proto, name, shape, INT64 if name == "i" else FLOAT)
    nodes = [type(n).FromString(n.SerializeToString()) for n in proto.graph.node][::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    with pytest.raises(ModelError, match=r"node 'f' \(Flatten\)"):
        load(tmp_path, proto)


def test_the_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "net.onnx", _declare(_network(), "y", [1, 7]))
    assert invoke(["compile", str(path), "-o", str(tmp_path / "out"), "--isa", "generic"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "float32[1x7]" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("y", [1, 5], FLOAT), ("y", ["batch", "classes"], FLOAT), ("y", [None, 5], FLOAT),
        ("y", None, FLOAT), ("y", [], FLOAT), ("y", [0, 5], FLOAT), ("y", [1, 5], 0),
        ("y", [1, 5], DOUBLE), ("y", [1, 5], FLOAT16), ("i", [1, 1], INT64), ("c", None, 0),
        ("c", [1, 4, 8, 8], FLOAT), ("nobody", [3], INT64),
    ],
)  # fmt: skip
def test_what_fits(name: str, shape: Any, dtype: int, tmp_path: Path) -> None:
    assert load(tmp_path, _declare(_network(), name, shape, dtype)).outputs == ("y", "i")


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_that_was_another_one(batch: int, tmp_path: Path) -> None:
    """As exporters leave it: the input is open, what is computed is as it was when exporting."""
    for exported in (1, 2, 8):
        proto = _network("batch")
        for name, shape in {"c": [4, 8, 8], "f": [4], "y": [5]}.items():
            _declare(proto, name, [exported, *shape])
        _declare(proto, "i", [exported, 1], INT64)
        graph = load(tmp_path, proto, ImportOptions(batch=batch))
        assert graph.types["y"].shape == (batch, 5)


@pytest.mark.parametrize(
    ("name", "shape", "node_"),
    [("y", [8, 7], "Gemm"), ("c", [2, 5, 8, 8], "Conv"), ("f", [8, 4, 1], "Flatten")],
)
def test_another_contradiction_is_seen_though_the_batch_is_open(
    name: str, shape: Any, node_: str, tmp_path: Path
) -> None:
    proto = _declare(_declare(_network("batch"), name, shape), "p", [8, 4, 1, 1])
    for batch in (1, 4):
        with pytest.raises(ModelError, match=rf"node '{name}' \({node_}\)"):
            load(tmp_path, proto, ImportOptions(batch=batch))


@pytest.mark.parametrize("shape", [["batch", 5], [8, 5], ["any", "of", "them"], None])
def test_another_type_is_seen_though_the_batch_is_open(shape: Any, tmp_path: Path) -> None:
    proto = _declare(_network("batch"), "y", shape, INT64)
    for batch in (1, 4):
        with pytest.raises(ModelError, match=r"node 'y' \(Gemm\)"):
            load(tmp_path, proto, ImportOptions(batch=batch))


def test_sizes_of_images_that_were_others(tmp_path: Path) -> None:
    options = ImportOptions(dims={"h": 12, "w": 20})
    proto = _declare(_network(1, "h", "w"), "c", [1, 4, 8, 8])
    assert load(tmp_path, proto, options).types["c"].shape == (1, 12, 20, 4)
    with pytest.raises(ModelError, match="node 'c'"):
        load(tmp_path, _declare(_network(1, "h", "w"), "c", [1, 6, 8, 8]), options)


def test_sizes_that_nothing_else_fits(tmp_path: Path) -> None:
    """If the network allows no other sizes, declarations cannot be judged."""
    nodes = [node("Reshape", ["x", "s"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    weights = {"s": np.array([1, -1]), "w": floats(6, 2)}
    proto = _declare(model(nodes, {"x": ["n", 6]}, weights=weights), "y", [3, 2])
    assert load(tmp_path, proto).types["y"].shape == (1, 2)


def test_names_within_branches_are_others(tmp_path: Path) -> None:
    helper = onnx.helper
    branches = [
        helper.make_graph(
            [node(kind, ["x"], ["t"]), node("Neg", ["t"], ["z"])], kind, [],
            [helper.make_tensor_value_info("z", FLOAT, [3, 4])],
        )
        for kind in ("Exp", "Abs")
    ]  # fmt: skip
    nodes = [node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    proto = model(nodes, {"x": [3, 4]}, weights={"yes": np.array(True)})
    for name in ("t", "z"):
        _declare(proto, name, [9])
    assert load(tmp_path, _declare(proto, "y", [3, 4])).types["y"].shape == (3, 4)
    with pytest.raises(ModelError, match=r"node 'y' \(If\)"):
        load(tmp_path, _declare(proto, "y", [3, 5]))


def test_what_is_cut_off_is_not_compared(tmp_path: Path) -> None:
    proto = _declare(_network(), "y", [1, 7])
    assert load(tmp_path, proto, ImportOptions(outputs=("f",))).types["f"].shape == (1, 4)
