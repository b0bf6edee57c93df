"""Files whose nodes are not in order are sorted; those in order keep it; cycles are errors."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cannery.errors import ModelError
from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.order import ordered
from cannery.ir.printer import format_graph
from frontends.onnx_models import assert_as_onnx, floats, load, model, node, onnx


def _network() -> Any:
    """Branches, a node with two outputs, and one of constants alone."""
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
        node("Split", ["b", "n"], ["c", "d"], axis=1), node("Constant", [], ["k"], value_float=2.0),
        node("Mul", ["c", "k"], ["e"]), node("Add", ["e", "d"], ["f"]),
        node("Concat", ["f", "b"], ["y"], axis=1),
    ]  # fmt: skip
    weights = {"w": floats(4, 2, 3, 3), "n": np.array([2, 2], np.int64)}
    return model(nodes, {"x": [1, 2, 5, 6]}, weights=weights)


def _shuffled(nodes: Any, seed: int) -> None:
    mixed = list(nodes)
    Random(seed).shuffle(mixed)
    copies = [type(n).FromString(n.SerializeToString()) for n in mixed]
    del nodes[:]
    nodes.extend(copies)


@pytest.mark.parametrize("seed", range(8))
def test_nodes_in_any_order(seed: int, tmp_path: Path) -> None:
    proto = _network()
    sound = load(tmp_path, proto)
    _shuffled(proto.graph.node, seed)
    graph = load(tmp_path, proto)
    assert {n.outputs for n in graph.nodes} == {n.outputs for n in sound.nodes}
    assert_as_onnx(_network(), graph)


def test_nodes_in_order_keep_it(tmp_path: Path) -> None:
    def nodes(order: str) -> list[OnnxNode]:
        reads = {"a": "x", "b": "x", "c": "a", "d": "b"}
        return [OnnxNode("Relu", "", "", (reads[o],), (o,), {}) for o in order]

    for order in ("abcd", "badc", "acbd", "bdac"):
        assert ordered(nodes(order)) == nodes(order)
    assert ordered(nodes("cabd")) == nodes("acbd")
    assert ordered(nodes("dcba")) == nodes("bdac")


def _branch(name: str, kinds: list[str], output: str) -> Any:
    """A graph of nodes in the wrong order that reads `a` of the graph around it."""
    nodes = [node(kinds[1], [f"{name}/1"], [output]), node(kinds[0], ["a"], [f"{name}/1"])]
    value = onnx.helper.make_empty_tensor_value_info(output)
    return onnx.helper.make_graph(nodes, name, [], [value])


def test_what_branches_read_comes_before_them(tmp_path: Path) -> None:
    nodes = [
        node("If", ["yes"], ["y"], then_branch=_branch("t", ["Exp", "Neg"], "z"),
             else_branch=_branch("e", ["Abs", "Neg"], "z")),
        node("Relu", ["x"], ["a"]),
    ]  # fmt: skip
    graph = load(tmp_path, model(nodes, {"x": [3, 4]}, weights={"yes": np.array(True)}))
    assert [n.op.kind for n in graph.nodes] == ["Relu", "Exp", "Neg"]


def test_what_branches_return_comes_before_them(tmp_path: Path) -> None:
    """Without a node of theirs: the value of the graph around them itself."""
    value = onnx.helper.make_empty_tensor_value_info("a")
    branch = onnx.helper.make_graph([], "t", [], [value])
    nodes = [
        node("If", ["yes"], ["b"], then_branch=branch,
             else_branch=_branch("e", ["Abs", "Neg"], "z")),
        node("Exp", ["b"], ["y"]), node("Relu", ["x"], ["a"]),
    ]  # fmt: skip
    graph = load(tmp_path, model(nodes, {"x": [3, 4]}, weights={"yes": np.array(True)}))
    assert [n.op.kind for n in graph.nodes] == ["Relu", "Exp"]


def test_a_name_within_a_branch_is_another_value(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("If", ["yes"], ["b"], then_branch=_branch("y", ["Exp", "Neg"], "z"),
             else_branch=_branch("e", ["Abs", "Neg"], "z")),
        node("Relu", ["b"], ["y/1"]), node("Sigmoid", ["y/1"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, {"x": [3, 4]}, weights={"yes": np.array(True)})
    kinds = [n.op.kind for n in load(tmp_path, proto).nodes]
    assert kinds == ["Relu", "Exp", "Neg", "Relu", "Sigmoid"]


def test_functions_and_loops(tmp_path: Path) -> None:
    helper = onnx.helper
    twice = helper.make_function(
        "own", "Twice", ["p"], ["q"], [node("Neg", ["r"], ["q"]), node("Exp", ["p"], ["r"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    body = helper.make_graph(
        [
            node("Add", ["u", "x"], ["out"]), node("Twice", ["in"], ["u"], domain="own"),
            node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []),
            helper.make_tensor_value_info("in", 1, [3]),
        ],
        [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("out", 1, [3])],
    )  # fmt: skip
    nodes = [node("Relu", ["l"], ["y"]), node("Loop", ["n", "", "x"], ["l"], body=body)]
    proto = model(nodes, {"x": [3]}, weights={"n": np.int64(2)})
    proto.functions.append(twice)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    kinds = [n.op.kind for n in load(tmp_path, proto).nodes]
    assert kinds == ["Exp", "Neg", "Add", "Exp", "Neg", "Add", "Relu"]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Relu", "a", "a")], r"'a' \(Relu\).*needs its own result"),
        (
            [("Relu", "y", "a"), ("Exp", "a", "b"), ("Neg", "b", "y")],
            r"nodes 'a' \(Relu\), 'b' \(Exp\), 'y' \(Neg\) need each other's results",
        ),
        ([("Relu", f"{k}", f"{(k + 1) % 9}") for k in range(9)], "and 5 more need each other"),
    ],
    ids=["one", "three", "nine"],
)
def test_cycles(nodes: list[tuple[str, str, str]], message: str, tmp_path: Path) -> None:
    made = [node("Sigmoid", ["x"], ["s"]), *(node(k, [i], [o]) for k, i, o in nodes)]
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path, model(made, {"x": [3]}, [nodes[-1][2]]))
    assert "export the model again" in caught.value.cure


def test_a_long_chain_backwards(tmp_path: Path) -> None:
    count = 3000
    nodes = [node("Relu" if k % 2 else "Neg", [f"v{k}"], [f"v{k + 1}"]) for k in range(count)]
    forwards = load(tmp_path, model(nodes, {"v0": [3]}, [f"v{count}"]))
    backwards = load(tmp_path, model(nodes[::-1], {"v0": [3]}, [f"v{count}"]))
    assert format_graph(forwards) == format_graph(backwards)
