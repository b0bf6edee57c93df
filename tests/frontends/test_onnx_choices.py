"""Branches and loops whose course is known only at run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from frontends.onnx_models import expected, floats, load, model, node, onnx, write

helper = onnx.helper


def body(nodes: list[Any], inputs: list[tuple[str, int]], outputs: list[str]) -> Any:
    """A branch or a body; the types of inputs are numbers of TensorProto.DataType."""
    return helper.make_graph(
        nodes, "body", [helper.make_tensor_value_info(n, t, None) for n, t in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )  # fmt: skip


def branching(
    first: list[Any], second: list[Any], dims: list[int] | None = None, **weights: Any
) -> Any:
    """`first` computes a, and `second` b, if the sum of x is above 0, or not."""
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
        *([] if dims is None else [node("Reshape", ["c", "dims"], ["flag"])]),
        node("If", ["c" if dims is None else "flag"], ["y"], then_branch=body(first, [], ["a"]),
             else_branch=body(second, [], ["b"])),
    ]  # fmt: skip
    known = {"zero": np.float32(0), "two": np.float32(2), **weights}
    if dims is not None:
        known["dims"] = np.array(dims, np.int64)
    return model(nodes, {"x": [3, 2]}, weights=known)


def check(folder: Path, proto: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """Compares with ONNX's own interpreter; returns the outputs."""
    graph = load(folder, proto, ImportOptions(**options))
    found = list(evaluate(graph, inputs).values())
    for y, reference in zip(found, expected(proto, inputs), strict=True):
        assert y.shape == reference.shape and np.allclose(y, reference, atol=1e-6)
    return found


@pytest.mark.parametrize("dims", [None, [1], [1, 1]])
@pytest.mark.parametrize("sign", [1, -1])
def test_both_branches_are_there(tmp_path: Path, sign: int, dims: list[int] | None) -> None:
    proto = branching([node("Mul", ["x", "two"], ["a"])], [node("Abs", ["x"], ["b"])], dims)
    x = {"x": sign * np.abs(floats(3, 2))}
    graph = load(tmp_path, proto)
    y = evaluate(graph, x)["y"]
    assert np.allclose(y, 2 * x["x"] if sign > 0 else np.abs(x["x"]))
    if dims is None:
        check(tmp_path, proto, x)
    net = cannery.load(tmp_path / "model.onnx")
    assert np.allclose(net(x["x"]), y, atol=1e-6)


def test_what_is_not_read_may_differ(tmp_path: Path) -> None:
    branches = [
        body([node("Neg", ["x"], ["a"]), node("Transpose", ["x"], ["t"])], [], ["a", "t"]),
        body([node("Abs", ["x"], ["b"]), node("Identity", ["x"], ["u"])], [], ["b", "u"]),
    ]
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Less", ["most", "zero"], ["c"]),
        node("If", ["c"], ["y", "z"], then_branch=branches[0], else_branch=branches[1]),
    ]
    proto = model(nodes, {"x": [3, 2]}, weights={"zero": np.float32(0)})
    for sign in (1, -1):
        check(tmp_path, proto, {"x": sign * np.abs(floats(3, 2))})
    proto = model(nodes, {"x": [3, 2]}, ["y", "z"], {"zero": np.float32(0)})
    with pytest.raises(UnsupportedError, match=r"float32\[2, 3\] or float32\[3, 2\].*--set"):
        load(tmp_path, proto)


def test_branches_within_branches(tmp_path: Path) -> None:
    inner = node("If", ["d"], ["a"], then_branch=body([node("Neg", ["x"], ["p"])], [], ["p"]),
                 else_branch=body([node("Exp", ["x"], ["q"])], [], ["q"]))  # fmt: skip
    first = [
        node("ReduceMax", ["x"], ["most"], keepdims=0), node("Less", ["most", "two"], ["d"]), inner
    ]  # fmt: skip
    proto = branching(first, [node("Abs", ["x"], ["b"])])
    for x in ([[1, 1], [1, 1], [1, 1]], [[1, 1], [1, 9], [1, 1]], [[-1, 1], [-1, 1], [-1, 0]]):
        check(tmp_path, proto, {"x": np.array(x, np.float32)})


def test_a_branch_that_is_not_supported(tmp_path: Path) -> None:
    proto = branching([node("Mul", ["x", "two"], ["a"])], [node("NoSuch", ["x"], ["b"])])
    with pytest.raises(UnsupportedError, match=r"NoSuch.*this operator is not supported"):
        load(tmp_path, proto)


def test_a_condition_of_several_numbers(tmp_path: Path) -> None:
    nodes = [
        node("Greater", ["x", "x"], ["c"]),
        node("If", ["c"], ["y"], then_branch=body([node("Neg", ["x"], ["a"])], [], ["a"]),
             else_branch=body([node("Abs", ["x"], ["b"])], [], ["b"])),
    ]  # fmt: skip
    with pytest.raises(ModelError, match=r"its condition is bool\[3\], not one bool"):
        load(tmp_path, model(nodes, {"x": [3]}))


def doubling(trips: int | None, *, collects: bool = False) -> Any:
    """Doubles x until its sum is above 10; counts the iterations."""
    nodes = [
        node("Mul", ["v", "two"], ["w"]),
        node("Add", ["n", "one"], ["k"]),
        node("ReduceSum", ["w"], ["sum"], keepdims=0),
        node("Less", ["sum", "ten"], ["go"]),
        node("Identity", ["w"], ["row"]),
    ]
    rows = [("row", "rows")] if collects else []
    results = ["go", "w", "k", *(row for row, _ in rows)]
    inner = body(nodes, [("i", 7), ("c", 9), ("v", 1), ("n", 7)], results)
    names = ["y", "turns", *(name for _, name in rows)]
    loop = node("Loop", ["" if trips is None else "m", "yes", "x", "zero"], names, body=inner)
    weights = {
        "two": np.float32(2), "ten": np.float32(10), "one": np.int64(1), "zero": np.int64(0),
        "m": np.int64(trips or 0), "yes": np.array(True),
    }  # fmt: skip
    return model([loop], {"x": [2]}, names, weights)


@pytest.mark.parametrize("x", [[6, 6], [1, 1], [0.01, 0], [0.3, 0.4], [-1, 0]])
def test_loops_end_when_their_condition_says_so(tmp_path: Path, x: list[float]) -> None:
    given = {"x": np.array(x, np.float32)}
    _, turns = check(tmp_path, doubling(12), given)
    assert turns == {6: 1, 1: 3, 0.01: 10, 0.3: 4, -1: 12}[x[0]]
    net = cannery.load(tmp_path / "model.onnx")
    assert net(given["x"])[1] == turns


def test_loops_without_a_limit_need_one(tmp_path: Path) -> None:
    for trips in (None, 2**40):
        proto = doubling(trips)
        with pytest.raises(UnsupportedError, match="at most: --max-trips N"):
            load(tmp_path, proto)
    given = {"x": np.ones(2, np.float32)}
    for limit, turns in ((3, 3), (2, 2), (9, 3)):
        graph = load(tmp_path, proto, ImportOptions(max_trips=limit))
        found = evaluate(graph, given)
        assert found["turns"] == turns and np.array_equal(found["y"], [2**turns] * 2)


@pytest.mark.parametrize("x", [[6, 6], [1, 1], [0.3, 0.4], [-1, 0]])
def test_rows_that_are_collected_have_a_count(tmp_path: Path, x: list[float]) -> None:
    given = {"x": np.array(x, np.float32)}
    proto = doubling(5, collects=True)
    graph = load(tmp_path, proto)
    assert graph.outputs == ("y", "turns", "rows", "rows.count")
    y, turns, rows, count = evaluate(graph, given).values()
    wanted = expected(proto, given)
    assert count == turns == len(wanted[2])
    assert np.allclose(rows[: int(count)], wanted[2])
    assert not rows[int(count) :].any()
    found = cannery.load(tmp_path / "model.onnx")(given["x"])
    assert found[3] == count and np.allclose(found[2], rows) and np.allclose(found[0], y)


def test_rows_that_are_collected_are_not_mixed(tmp_path: Path) -> None:
    """Row by row works: squared, and the greatest of each; the greatest of all does not."""
    proto = doubling(None, collects=True)
    proto.graph.node.extend(
        [node("Mul", ["rows", "rows"], ["squares"]),
         node("ReduceMax", ["squares"], ["lengths"], keepdims=0, axes=[1])]
    )  # fmt: skip
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_empty_tensor_value_info("lengths"))
    graph = load(tmp_path, proto, ImportOptions(max_trips=6))
    assert graph.outputs == ("lengths", "unfinished", "lengths.count")
    lengths, unfinished, count = evaluate(graph, {"x": np.ones(2, np.float32)}).values()
    assert lengths.tolist() == [4, 16, 64, 0, 0, 0]
    assert count == 3 and not unfinished
    proto.graph.node.append(node("ReduceMax", ["squares"], ["total"], keepdims=0, axes=[0]))
    proto.graph.output[0].name = "total"
    with pytest.raises(UnsupportedError, match="of which only some count"):
        load(tmp_path, proto, ImportOptions(max_trips=6))


@pytest.mark.parametrize("turns", [0, 1, 3, 5])
@pytest.mark.parametrize("condition", ["", "c"])
def test_a_number_of_iterations_that_is_computed(
    tmp_path: Path, turns: int, condition: str
) -> None:
    inner = body(
        [node("Cast", ["i"], ["f"], to=1), node("Add", ["v", "f"], ["u"]),
         node("Mul", ["u", "x"], ["w"]), node("Identity", ["c"], ["go"])],
        [("i", 7), ("c", 9), ("v", 1)], ["go", "w"],
    )  # fmt: skip
    nodes = [
        node("Cast", ["t"], ["m"], to=7),
        node("Greater", ["t", "one"], ["c0"]),
        node("Loop", ["m", "c0" if condition else "", "x"], ["y"], body=inner),
    ]
    proto = model(nodes, {"x": [2], "t": []}, weights={"one": np.float32(1)})
    given = {"x": floats(2), "t": np.asarray(turns, np.float32)}
    found = evaluate(load(tmp_path, proto, ImportOptions(max_trips=5)), given)["y"]
    value = given["x"]
    for turn in range(turns if turns > 1 or not condition else 0):
        value = (value + turn) * given["x"]
    assert np.allclose(found, value, atol=1e-6)
    with pytest.raises(UnsupportedError, match="how often it repeats is known only at run time"):
        load(tmp_path, proto)


def test_a_loop_that_is_cut_short_says_so(tmp_path: Path) -> None:
    proto = doubling(None)
    for limit, x, cut in ((3, 1, False), (2, 1, True), (9, 0.3, False), (3, 0.3, True)):
        graph = load(tmp_path, proto, ImportOptions(max_trips=limit))
        assert graph.outputs == ("y", "turns", "unfinished")
        assert "'unfinished' is true where a loop would have gone on" in graph.notes[-1]
        found = evaluate(graph, {"x": np.full(2, x, np.float32)})
        assert bool(found["unfinished"]) is cut
    net = cannery.load(tmp_path / "model.onnx", max_trips=3)
    assert [bool(net(np.full(2, x, np.float32))[2]) for x in (1, 0.3)] == [False, True]
    assert load(tmp_path, doubling(12)).outputs == ("y", "turns")


@pytest.mark.parametrize("turns", [0, 3, 4, 9])
def test_a_number_of_iterations_that_is_too_large(tmp_path: Path, turns: int) -> None:
    inner = body([node("Add", ["v", "v"], ["w"]), node("Identity", ["c"], ["go"])],
                 [("i", 7), ("c", 9), ("v", 1)], ["go", "w"])  # fmt: skip
    nodes = [node("Cast", ["t"], ["m"], to=7), node("Loop", ["m", "", "x"], ["y"], body=inner)]
    graph = load(tmp_path, model(nodes, {"x": [2], "t": []}), ImportOptions(max_trips=3))
    found = evaluate(graph, {"x": np.ones(2), "t": np.float64(turns)})
    assert np.array_equal(found["y"], [2 ** min(turns, 3)] * 2)
    assert bool(found["unfinished"]) is (turns > 3)


def test_a_loop_in_a_branch_that_is_not_taken_is_not_cut_short(tmp_path: Path) -> None:
    inner = body(
        [node("Mul", ["v", "two"], ["w"]), node("ReduceSum", ["w"], ["s"], keepdims=0),
         node("Less", ["s", "ten"], ["go"])],
        [("i", 7), ("c", 9), ("v", 1)], ["go", "w"],
    )  # fmt: skip
    loop = node("Loop", ["", "yes", "x"], ["b"], body=inner)
    known = {"ten": np.float32(10), "yes": np.array(True)}
    proto = branching([node("Abs", ["x"], ["a"])], [loop], **known)
    turned = branching([node("Loop", ["", "yes", "x"], ["a"], body=inner)],
                       [node("Abs", ["x"], ["b"])], **known)  # fmt: skip
    for graph, taken in ((proto, -1), (turned, 1)):
        read = load(tmp_path, graph, ImportOptions(max_trips=2))
        for sign in (1, -1):
            x = np.full((3, 2), sign * 0.1)
            assert bool(evaluate(read, {"x": x})["unfinished"]) is (sign == taken)


@pytest.mark.parametrize(("trips", "go"), [(0, True), (5, False), (0, False)])
def test_loops_without_an_iteration(tmp_path: Path, trips: int, go: bool) -> None:
    nodes = [
        node("Mul", ["v", "two"], ["w"]), node("Identity", ["c"], ["more"]),
        node("Concat", ["w", "w"], ["row"], axis=0), node("Shape", ["row"], ["size"]),
    ]  # fmt: skip
    inner = body(nodes, [("i", 7), ("c", 9), ("v", 1)], ["more", "w", "row", "size"])
    outer = [
        node("Loop", ["m", "go", "x"], ["y", "rows", "sizes"], body=inner),
        node("Concat", ["rows", "four"], ["z"], axis=0),
    ]
    weights = {"two": np.float32(2), "m": np.int64(trips), "go": np.array(go),
               "four": floats(1, 4)}  # fmt: skip
    graph = load(tmp_path, model(outer, {"x": [2]}, ["y", "z", "sizes"], weights))
    found = evaluate(graph, {"x": floats(2)})
    assert np.array_equal(found["y"], floats(2)) and np.array_equal(found["z"], floats(1, 4))
    assert found["sizes"].shape == (0, 1)
    graph = load(tmp_path, model(outer[:1], {"x": [2]}, ["y"], weights))
    assert np.array_equal(evaluate(graph, {"x": floats(2)})["y"], floats(2))


def test_a_loop_whose_first_condition_is_computed_but_has_no_iterations(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0), node("Less", ["most", "two"], ["go"]),
        node("Loop", ["m", "go", "x"], ["y", "rows"],
             body=body([node("Neg", ["v"], ["w"]), node("Identity", ["c"], ["more"]),
                        node("Identity", ["w"], ["row"])],
                       [("i", 7), ("c", 9), ("v", 1)], ["more", "w", "row"])),
    ]  # fmt: skip
    weights = {"two": np.float32(2), "m": np.int64(0)}
    graph = load(tmp_path, model(nodes, {"x": [2]}, ["y", "rows"], weights))
    assert graph.types["rows"].shape == (0, 2)


def test_loops_do_not_change_shapes(tmp_path: Path) -> None:
    inner = body(
        [node("Concat", ["v", "v"], ["w"], axis=0), node("ReduceMax", ["w"], ["m"], keepdims=0),
         node("Less", ["m", "two"], ["go"])],
        [("i", 7), ("c", 9), ("v", 1)], ["go", "w"],
    )  # fmt: skip
    loop = node("Loop", ["n", "", "x"], ["y"], body=inner)
    weights = {"two": np.float32(2), "n": np.int64(3)}
    with pytest.raises(UnsupportedError, match=r"float32\[8\] or float32\[4\]"):
        load(tmp_path, model([loop], {"x": [2]}, weights=weights))


def test_random_numbers_in_a_branch(tmp_path: Path) -> None:
    first = [node("RandomNormalLike", ["x"], ["a"])]
    proto = branching(first, [node("Abs", ["x"], ["b"])])
    graph = load(tmp_path, proto, ImportOptions(noise="input"))
    z = floats(3, 2, seed=5)
    for sign, expect in ((1, z), (-1, np.abs(floats(3, 2)))):
        x = sign * np.abs(floats(3, 2))
        assert np.allclose(evaluate(graph, {"x": x, "noise": z})["y"], expect)


@pytest.mark.parametrize("text", ["0", "-1", "many", "20000"])
def test_the_option(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match="--max-trips"):
        make_options(tmp_path / "m.onnx", {"max_trips": text})
    path = write(tmp_path / "m.onnx", doubling(None))
    net = cannery.load(path, max_trips=4)
    assert np.array_equal(net(np.ones(2, np.float32))[0], [8, 8])
