"""Functions of a model, operators that ONNX defines by functions, branches and loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper

from cannery.errors import CanneryError, ModelError
from cannery.ir.evaluate import evaluate
from frontends.onnx_models import assert_as_onnx, floats, load, model, node

OPSET = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]


def with_functions(proto: Any, *functions: Any) -> Any:
    """The model with functions of the domain `mine`."""
    del proto.opset_import[:]
    proto.opset_import.extend(OPSET)
    proto.functions.extend(functions)
    return proto


def function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[Any], **more: Any
) -> Any:
    return helper.make_function("mine", name, inputs, outputs, nodes, OPSET, **more)


def leaky(reference: str) -> Any:
    """A LeakyRelu whose slope is an attribute of the call."""
    made = helper.make_node("LeakyRelu", ["v"], ["w"])
    made.attribute.add(name="alpha", ref_attr_name=reference, type=onnx.AttributeProto.FLOAT)
    return made


def test_functions_of_a_model_are_inlined(tmp_path: Path) -> None:
    inner = function("Inner", ["v"], ["w"], [leaky("slope")], attributes=["slope"])
    outer = function(
        "Outer", ["a", "b"], ["c", "a2"],
        [
            helper.make_node("Add", ["a", "b"], ["s"]),
            helper.make_node("Inner", ["s"], ["c"], domain="mine", slope=0.25),
            helper.make_node("Identity", ["a"], ["a2"]),
        ],
    )  # fmt: skip
    nodes = [
        node("Outer", ["x", "w"], ["p", "q"], domain="mine"),
        node("Outer", ["p", "q"], ["y"], domain="mine"),
    ]
    w = floats(3)
    proto = with_functions(model(nodes, {"x": [2, 3]}, weights={"w": w}), inner, outer)
    x = floats(2, 3, seed=1).astype(np.float64)
    p = np.where(x + w < 0, 0.25 * (x + w), x + w)
    (y,) = evaluate(load(tmp_path, proto), {"x": x}).values()
    np.testing.assert_allclose(y, np.where(p + x < 0, 0.25 * (p + x), p + x))


def test_a_function_that_calls_itself_is_an_error(tmp_path: Path) -> None:
    again = function("F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="mine")])
    proto = with_functions(model([node("F", ["x"], ["y"], domain="mine")], {"x": [2]}), again)
    with pytest.raises(ModelError, match=r"too deeply or too often|more than 20000 nodes"):
        load(tmp_path, proto)


def test_a_tree_of_functions_ends_with_one_error(tmp_path: Path) -> None:
    """Each function calls the next one eight times: 8^20 nodes, if they were inlined."""
    functions = []
    for k in range(20):
        kind, domain = (f"F{k + 1}", "mine") if k < 19 else ("Relu", "")
        calls = [helper.make_node(kind, [f"v{n}"], [f"v{n + 1}"], domain=domain) for n in range(8)]
        functions.append(function(f"F{k}", ["v0"], ["v8"], calls))
    nodes = [node("F0", ["x"], ["y"], domain="mine")]
    proto = with_functions(model(nodes, {"x": [2]}), *functions)
    with pytest.raises(ModelError, match=r"too deeply or too often|more than 20000 nodes"):
        load(tmp_path, proto)


def test_operators_that_are_functions(tmp_path: Path) -> None:
    nodes = [
        node("Shrink", ["x"], ["s"], lambd=0.2, bias=0.1),
        node("MeanVarianceNormalization", ["s"], ["m"]),
        node("Celu", ["m"], ["y"]),
    ]
    proto = model(nodes, {"x": [2, 3, 4, 5]})
    assert_as_onnx(proto, load(tmp_path, proto))


def branches(condition: Any) -> Any:
    shape = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "then", [], [shape])
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "k"], ["r"])], "else", [], [shape],
        [helper.make_tensor("k", TensorProto.FLOAT, [], [2.0])],
    )  # fmt: skip
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    if condition is None:
        nodes.insert(0, node("IsNaN", ["x"], ["c"]))
        return model(nodes, {"x": [1]})
    return model(nodes, {"x": [3]}, weights={"c": np.asarray(condition)})


@pytest.mark.parametrize("condition", [True, False])
def test_known_branches_are_taken(tmp_path: Path, condition: bool) -> None:
    proto = branches(condition)
    assert_as_onnx(proto, load(tmp_path, proto))


def test_branches_of_one_shape_are_chosen_at_run_time(tmp_path: Path) -> None:
    proto = branches(None)
    assert_as_onnx(proto, load(tmp_path, proto))


def loop(trips: int) -> Any:
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["v", "f"], ["v_out"]),
            helper.make_node("Mul", ["v_out", "x"], ["part"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("part", TensorProto.FLOAT, [3]),
        ],
    )
    nodes = [node("Loop", ["n", "", "x"], ["last", "parts"], body=body)]
    weights = {"n": np.asarray(trips, np.int64)}
    return model(nodes, {"x": [3]}, ["last", "parts"], weights)


def test_loops_are_unrolled(tmp_path: Path) -> None:
    x = floats(3).astype(np.float64)
    last, parts = evaluate(load(tmp_path, loop(4)), {"x": x}).values()
    np.testing.assert_allclose(last, x + 6)
    np.testing.assert_allclose(parts, [(x + k) * x for k in (0, 1, 3, 6)])


def test_endless_loops_end_with_one_error(tmp_path: Path) -> None:
    with pytest.raises(CanneryError, match=r"too deeply or too often|more than 20000 nodes"):
        load(tmp_path, loop(2**60))


@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_are_unrolled(tmp_path: Path, backwards: int) -> None:
    """A computation over the columns of one input and the rows of another."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["total", "a"], ["sum"]),
            helper.make_node("Mul", ["sum", "b"], ["next"]),
            helper.make_node("Sub", ["next", "a"], ["part"]),
        ],
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("total", "a", "b")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("next", "part")],
    )
    scan = node(
        "Scan", ["start", "a", "b"], ["last", "parts"], body=body, num_scan_inputs=2,
        scan_input_axes=[1, 0], scan_input_directions=[backwards, 0], scan_output_axes=[-1],
        scan_output_directions=[backwards],
    )  # fmt: skip
    proto = model([scan], {"start": [3], "a": [3, 4], "b": [4, 3]}, ["last", "parts"])
    given = {n: floats(*s).astype(np.float64) for n, s in (("a", (3, 4)), ("b", (4, 3)))}
    total = floats(3).astype(np.float64)
    last, parts = evaluate(load(tmp_path, proto), {"start": total, **given}).values()
    found = []
    for k in range(4):
        a = given["a"][:, 3 - k if backwards else k]
        total = (total + a) * given["b"][k]
        found.append(total - a)
    np.testing.assert_allclose(last, total)
    np.testing.assert_allclose(parts, np.stack(found[::-1] if backwards else found, -1))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_scan_inputs": 2}, "no num_scan_inputs that fits"),
        ({"num_scan_inputs": 1, "scan_input_axes": [5]}, "outside of its tensors"),
        ({"num_scan_inputs": 1, "scan_input_directions": [0, 1]}, "does not fit"),
    ],
)
def test_scans_that_do_not_fit(tmp_path: Path, attributes: dict[str, object], message: str) -> None:
    body = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])],
    )
    proto = model([node("Scan", ["x"], ["y"], body=body, **attributes)], {"x": [4, 3]})
    with pytest.raises(ModelError, match=message):
        load(tmp_path, proto)
