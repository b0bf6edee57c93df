"""Functions of one value become tables, in which no processor rounds otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.graph import Graph, Quantization
from cannery.ir.numeric import F64, f64
from cannery.ops.elementwise import Exp
from cannery.ops.quantized.arithmetic import f32
from cannery.ops.quantized.table import ONE, tabulated
from cannery.ops.same_bits import differing_layers
from cannery.options import make_options
from cannery.pipeline import import_graph
from frontends.onnx_models import floats, model, node, write
from quantization.bits import assert_every_bit
from quantization.networks import integers

#: Functions of x, by their nodes; each makes y.
FUNCTIONS: dict[str, list[Any]] = {
    "silu": [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])],
    "gelu": [
        node("Div", ["x", "root"], ["d"]), node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["f"]), node("Mul", ["x", "f"], ["y"]),
    ],
    "elu": [node("Elu", ["x"], ["y"])],
    "hard_swish": [node("HardSwish", ["x"], ["y"])],
    "mish": [
        node("Softplus", ["x"], ["s"]), node("Tanh", ["s"], ["t"]), node("Mul", ["x", "t"], ["y"])
    ],
    "root": [
        node("Abs", ["x"], ["s"]), node("Add", ["s", "one"], ["t"]), node("Sqrt", ["t"], ["y"])
    ],
    "log": [
        node("Mul", ["x", "x"], ["s"]), node("Add", ["s", "one"], ["t"]), node("Log", ["t"], ["y"])
    ],
    "pow": [node("Max", ["x", "one"], ["s"]), node("Pow", ["s", "root"], ["y"])],
    "where": [
        node("Greater", ["x", "zero"], ["c"]), node("Neg", ["x"], ["n"]), node("Exp", ["n"], ["e"]),
        node("Add", ["x", "one"], ["p"]), node("Where", ["c", "e", "p"], ["y"]),
    ],
    "reciprocal": [
        node("Exp", ["x"], ["s"]), node("Add", ["s", "one"], ["t"]),
        node("Reciprocal", ["t"], ["y"]),
    ],
}  # fmt: skip

NUMBERS = {"root": np.float32(1.4), "one": np.float32(1), "zero": np.float32(0)}


def renamed(nodes: Sequence[Any], prefix: str, source: str) -> list[Any]:
    """Nodes whose values begin with a prefix, of a function of `source`."""
    names = {"x": source} | {name: name for name in NUMBERS}

    def of(value: str) -> str:
        return names.get(value, f"{prefix}_{value}")

    return [node(n.op_type, [of(i) for i in n.input], [of(o) for o in n.output]) for n in nodes]


def network(
    names: Sequence[str], ends: Sequence[str] = ("out",), more: Sequence[Any] = (), **weights: Any
) -> Any:
    """A dense layer, functions of its result side by side, a dense layer of them."""
    known = {"w1": floats(9, 7, seed=1) / 3, "w2": floats(7 * len(names), 4, seed=2), **weights}
    nodes = [node("MatMul", ["in", "w1"], ["a"])]
    for name in names:
        nodes += renamed(FUNCTIONS[name], name, "a")
    nodes.append(node("Concat", [f"{name}_y" for name in names], ["joined"], axis=1))
    nodes += [node("MatMul", ["joined", "w2"], ["out"]), *more]
    return model(nodes, {"in": [5, 9]}, ends, {**known, **NUMBERS})


def samples(folder: Path) -> Path:
    file = folder / "samples.npz"
    np.savez(file, **{"in": floats(20, 9, seed=3)})
    return file


def quantised(folder: Path, proto: Any, dtype: str = "int8", **options: Any) -> Graph:
    file = write(folder / "net.onnx", proto)
    return import_graph(make_options(file, integers(samples(folder), dtype, **options)))


def facts(graph: Graph) -> Quantization:
    assert graph.quantization is not None
    return graph.quantization


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_no_function_is_left_to_floats(dtype: str, tmp_path: Path) -> None:
    graph = quantised(tmp_path, network(list(FUNCTIONS)), dtype, same_everywhere=True)
    assert facts(graph).floats == ()
    assert max(facts(graph).by_output.values()) < {"int8": 0.05, "int16": 5e-4}[dtype]
    tables = [n for n in graph.nodes if n.op.kind in ("ByteTable", "TableFunction")]
    assert len(tables) == len(FUNCTIONS)


@pytest.mark.parametrize("isa", ["generic", "avx2", "neon64"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_every_bit(dtype: str, isa: str, tmp_path: Path) -> None:
    """Between layers and as outputs."""
    proto = network(list(FUNCTIONS), ["out", "elu_y"])
    assert_every_bit(write(tmp_path / "net.onnx", proto), samples(tmp_path), dtype, isa)


def test_functions_that_lose_too_much_stay_floats(tmp_path: Path) -> None:
    """Of numbers whose channels differ much in size, int8 leaves nothing of the small ones; that
    counts where a function makes all of one size.
    """
    steep = [node("Softsign", ["a"], ["even"]), node("MatMul", ["even", "w3"], ["steep"])]
    far, small = floats(9, 7, seed=1) / 3, floats(7, 4, seed=5)
    far[:, 0] *= 200
    small[0] = 0
    proto = network(["elu"], ["out", "steep"], steep, w1=far, w3=small)
    graph = quantised(tmp_path, proto, max_loss=0.1)
    reason = "as a table it would lose more than --max-loss"
    assert {f.name: f.reason for f in facts(graph).floats} == {"even": reason}
    assert sum(n.op.kind == "ByteTable" for n in graph.nodes) == 1
    assert facts(quantised(tmp_path, proto, max_loss=1)).floats == ()
    known = facts(graph).ranges  # which other weights, and calls of other sizes, take over
    assert known[0][0] == 0 and all(bound > 0 for bound, _ in known[1:])
    options = make_options(
        tmp_path / "net.onnx", integers(samples(tmp_path), "int8", max_loss=1)
    )  # fmt: skip
    assert facts(import_graph(replace(options, ranges=known))).floats == facts(graph).floats
    with pytest.raises(OptionError, match="more than --max-loss 1e-06"):
        quantised(tmp_path, proto, max_loss=1e-6)


def test_what_was_floats_before_a_function_stays_so(tmp_path: Path) -> None:
    """The input of a network is not rounded before a logarithm."""
    nodes = [*renamed(FUNCTIONS["log"], "log", "in"), node("MatMul", ["log_y", "w"], ["out"])]
    weights = {"w": floats(9, 4, seed=1), **NUMBERS}
    graph = quantised(tmp_path, model(nodes, {"in": [5, 9]}, ("out",), weights))
    assert {f.reason for f in facts(graph).floats} == {"its input is floats"}
    assert [layer.name for layer in differing_layers(graph)] == ["log_y"]


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: f64(Exp().reference(x)[0]), True),
        (lambda x: np.abs(x), True),
        (lambda x: np.sqrt(np.abs(x)), False),
        (lambda x: np.where(x > 0.1, 1.0, -1.0), False),
        (lambda x: 0.0 * x, False),
    ],
)
def test_tables_are_precise_or_none(function: Callable[[F64], F64], found: bool) -> None:
    made = tabulated(function, 4.0, 8.0 / ONE)
    assert (made is not None) == found
    if made is not None:
        table, largest = made
        x = np.linspace(-4.0, 4.0, 1001)
        results = f64(table.lookup(f32(x * table.scale))) * table.unit * largest
        assert np.abs(results - function(x)).max() <= 1.01 * largest / ONE
