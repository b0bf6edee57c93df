"""Generating takes work in proportion to the number of nodes, however they hang together.

Lines of Python are counted, not seconds: they are the same on every machine. Twice as many more
nodes add twice as much more work, to within half a percent; one loop over all nodes for each node
shows. Whole chains of 20,000 nodes take less than half a minute, by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.options import make_options
from cannery.pipeline import compile_model

pytest.importorskip("onnx")

from frontends.onnx_models import model, node, write

PACKAGE = str(Path(cannery.__file__).parent)


def chain(n: int, kinds: Sequence[str]) -> Any:
    """One operator after the other."""
    names = ["x", *(f"v{k}" for k in range(n))]
    nodes = [node(kinds[k % len(kinds)], [names[k]], [names[k + 1]]) for k in range(n)]
    return model(nodes, {"x": (1, 8)}, names[-1:])


def relus(n: int) -> Any:
    return chain(n, ["Relu"])


def activations(n: int) -> Any:
    return chain(n, ["Sigmoid", "Relu", "Softmax"])


def residuals(n: int) -> Any:
    names = ["x", *(f"v{k}" for k in range(n))]
    nodes = [node("Add", [names[k], names[max(k - 2, 0)]], [names[k + 1]]) for k in range(n)]
    return model(nodes, {"x": (1, 8)}, names[-1:])


def pools(n: int) -> Any:
    """Anchors without an epilogue, in images with halos."""
    names = ["x", *(f"v{k}" for k in range(n))]
    nodes = [
        node("MaxPool", [names[k]], [names[k + 1]], kernel_shape=[2, 2], pads=[0, 0, 1, 1])
        for k in range(n)
    ]
    return model(nodes, {"x": (1, 2, 3, 3)}, names[-1:])


def _readers(n: int) -> list[Any]:
    return [node("LeakyRelu", ["x"], [f"v{k}"], alpha=k / n) for k in range(n)]


def readers(n: int) -> Any:
    """One value that many read; all results live at once."""
    nodes = [*_readers(n), node("Sum", [f"v{k}" for k in range(n)], ["y"])]
    return model(nodes, {"x": (1, 8)})


def parts(n: int) -> Any:
    """One concatenation of many parts."""
    nodes = [*_readers(n), node("Concat", [f"v{k}" for k in range(n)], ["y"], axis=1)]
    return model(nodes, {"x": (1, 2)})


def nested(n: int) -> Any:
    """A concatenation within the next."""
    nodes = [
        node("Concat", [f"c{k - 1}" if k else "x", f"v{k}"], [f"c{k}"], axis=1) for k in range(n)
    ]
    return model([*_readers(n), *nodes], {"x": (1, 2)}, [f"c{n - 1}"])


def outputs(n: int) -> Any:
    return model(_readers(n), {"x": (1, 8)}, [f"v{k}" for k in range(n)])


def normalised(n: int) -> Any:
    nodes = []
    for k in range(n):
        nodes.append(node("BatchNormalization", [f"v{k - 1}" if k else "x", *"gggg"], [f"b{k}"]))
        nodes.append(node("PRelu", [f"b{k}", "s"], [f"v{k}"]))
    weights = {"g": np.ones(2, np.float32), "s": np.ones((2, 1, 1), np.float32)}
    return model(nodes, {"x": (1, 2, 3, 3)}, [f"v{n - 1}"], weights)


def scales(n: int) -> Any:
    """Scales and shifts in turn, all of which a product takes in."""
    names = ["x", *(f"v{k}" for k in range(n))]
    kinds = (("Mul", "m"), ("Add", "a"))
    nodes = []
    for k in range(n):
        kind, constant = kinds[k % 2]
        nodes.append(node(kind, [names[k], constant], [names[k + 1]]))
    weights = {"m": -np.ones(4, np.float32), "a": np.ones(4, np.float32)}
    weights["w"] = np.eye(4, dtype=np.float32)
    nodes.append(node("MatMul", [names[-1], "w"], ["y"]))
    return model(nodes, {"x": (1, 4)}, weights=weights)


def quantised(n: int) -> Any:
    """Residual sums of bytes."""

    def bytes_of(value: str, k: int) -> list[Any]:
        return [
            node("QuantizeLinear", [value, "s", "z"], [f"q{k}"]),
            node("DequantizeLinear", [f"q{k}", "s", "z"], [f"f{k}"]),
        ]

    nodes = [*bytes_of("x", 0), node("Relu", ["f0"], ["a1"]), *bytes_of("a1", 1)]
    for k in range(2, n):
        nodes += [node("Add", [f"f{k - 1}", f"f{k - 2}"], [f"a{k}"]), *bytes_of(f"a{k}", k)]
    weights = {"s": np.float32(0.1), "z": np.uint8(0)}
    return model(nodes, {"x": (1, 8)}, [f"f{n - 1}"], weights)


def deep_moves(n: int) -> list[Any]:
    return [
        node("MaxPool", [f"f{k}"], [f"f{k + 1}"], kernel_shape=[2, 2], pads=[0, 0, 1, 1])
        for k in range(n)
    ]


def maxima(n: int) -> Any:
    """Bytes that are made after a chain, and may be made before it."""
    nodes = [
        node("Sigmoid", ["x"], ["f0"]),
        *deep_moves(n),
        node("QuantizeLinear", [f"f{n}", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "z": np.uint8(0)}
    return model(nodes, {"x": (1, 2, 3, 3)}, weights=weights)


def lines_of(work: Callable[[], object]) -> int:
    """Lines of the package that run, those of each turn of a loop or comprehension."""
    count = 0

    def each(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return each

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return each if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


#: What is made, and of how many nodes to begin with: multiples of three, as operators alternate.
KINDS: tuple[tuple[Callable[[int], Any], int], ...] = (
    (relus, 24), (activations, 24), (residuals, 24), (pools, 15), (readers, 15), (parts, 15),
    (nested, 15), (outputs, 24), (normalised, 15), (quantised, 24), (maxima, 15), (scales, 24),
)  # fmt: skip


@pytest.mark.parametrize(("make", "first"), KINDS)
def test_work_grows_with_the_number_of_nodes(
    make: Callable[[int], Any], first: int, tmp_path: Path
) -> None:
    def work(n: int) -> int:
        path = write(tmp_path / "m.onnx", make(n))
        options = make_options(path, {"isa": ("sse2",)})
        return lines_of(lambda: compile_model(options))

    work(6)  # imports, templates
    some, double, fourfold = work(first), work(2 * first), work(4 * first)
    assert fourfold - double < 2.01 * (double - some)


def test_deep_chains_of_bytes_end(tmp_path: Path) -> None:
    """Deeper than functions of Python may call each other."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["f0"]),
        *deep_moves(1100),
        node("DequantizeLinear", ["w", "s", "i"], ["k"]),
        node("Conv", ["f1100", "k"], ["c"]),
        node("QuantizeLinear", ["c", "s", "z"], ["p"]),
        node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    weights: dict[str, Any] = {"s": np.float32(0.1), "z": np.uint8(0), "i": np.int8(0)}
    weights["w"] = np.ones((2, 2, 1, 1), np.int8)
    path = write(tmp_path / "m.onnx", model(nodes, {"x": (1, 2, 3, 3)}, weights=weights))
    assert compile_model(make_options(path, {"isa": ("sse2",)})).files


def test_deep_chains_become_bytes(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["f0"]),
        *deep_moves(1100),
        node("Conv", ["f1100", "w"], ["y"]),
    ]
    weights = {"w": np.ones((2, 2, 1, 1), np.float32)}
    path = write(tmp_path / "m.onnx", model(nodes, {"x": (1, 2, 3, 3)}, weights=weights))
    np.savez(tmp_path / "x.npz", x=np.ones((1, 2, 3, 3), np.float32))
    raw = {"isa": ("sse2",), "quantize": "int8", "calibration": tmp_path / "x.npz"}
    assert compile_model(make_options(path, raw)).source.graph.quantization


def test_deep_concatenations(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", nested(400))
    assert compile_model(make_options(path, {"isa": ("generic",)})).files
