"""Softmax and reductions at infinities, NaN and far-off numbers, as the references.

Softmax of two classes has its own code. Everything else is computed along lanes and across them, of
few numbers and of many.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.execution.program import network_program
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ops.movement.op import Transpose
from cannery.ops.quantized.softmax import QuantizedSoftmax
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from cannery.ops.softmax.op import LogSoftmax, Softmax
from needs import need_runner, need_toolchain
from nets.net_bench import make_net_source
from ops.cases import Net

EDGES = [np.nan, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1000.0, -90.0, 0.25, -0.0]


@pytest.mark.parametrize("isa_name", ["generic", "ssse3", "avx2", "avx512", "neon64"])
def test_two_classes_at_the_edges(isa_name: str) -> None:
    """Every pair of them gives what the reference gives, NaN for NaN."""
    toolchain = need_toolchain(isa_name)
    b = GraphBuilder("edges")
    count = len(EDGES)
    b.output(b.node(Softmax(3), [b.input("x", (1, count, count, 2))], name="y"))
    graph = b.build()
    pairs = np.array(list(itertools.product(EDGES, EDGES)), np.float32)
    sample = {"x": pairs.reshape(1, count, count, 2)}
    source = make_net_source(graph, toolchain.target.isa, "edges")
    assert [s.choice.schedule.id for s in source.program.steps] == ["softmax.across"]
    with network_program(source, output_files(source, "test"), toolchain, [sample]) as program:
        (found,) = program.run(need_runner(toolchain))
    with np.errstate(all="ignore"):
        expected = evaluate(graph, sample)["y"]
    assert np.isnan(expected).any() and np.isfinite(expected).any()
    np.testing.assert_allclose(found["y"], expected, rtol=1e-6, atol=1e-30, equal_nan=True)


INF = np.inf

#: What the numbers of a row are, one after the other, again and again.
PATTERNS = (
    (-INF,), (INF,), (1.0, -INF), (-INF, 1.0, 2.0), (INF, 1.0), (100.0, -100.0), (-1e30, 0.5),
    (3e38, 1.0), (-3e38, -3.1e38), (0.0,), (1e-40, 1e-41),
)  # fmt: skip

REDUCTIONS = (ReduceLogSumExp, ReduceMax, ReduceMin, ReduceSum, ReduceL1, ReduceProd)


def edges_graph(lengths: tuple[int, ...]) -> Graph:
    """Each operator along rows of [patterns, length], and along columns of [length, patterns]."""
    net, outputs = Net(), []
    for length in lengths:
        x = net.input(f"x{length}", (len(PATTERNS), length))
        turned = net.node(Transpose((1, 0)), [x])
        for axis, value in ((1, x), (0, turned)):
            ops: list[Op] = [reduction((axis,)) for reduction in REDUCTIONS]
            ops += [Softmax(axis), LogSoftmax(axis)]
            outputs += [net.node(op, [value]) for op in ops]
    return net.graph(*outputs)


@pytest.mark.parametrize("isa_name", ["generic", "avx2", "neon64"])
def test_edges_along_lanes_and_across(isa_name: str) -> None:
    toolchain = need_toolchain(isa_name)
    lengths = (3, 21, 150)
    graph = edges_graph(lengths)
    rows = [list(itertools.islice(itertools.cycle(p), max(lengths))) for p in PATTERNS]
    numbers = np.array(rows, np.float32)
    sample = {f"x{n}": np.ascontiguousarray(numbers[:, :n]) for n in lengths}
    source = make_net_source(graph, toolchain.target.isa, "edges")
    with network_program(source, output_files(source, "test"), toolchain, [sample]) as program:
        (found,) = program.run(need_runner(toolchain))
    with np.errstate(all="ignore"):
        expected = evaluate(graph, sample)
        for node in graph.nodes:
            for name in set(node.outputs) & set(graph.outputs):
                right = np.asarray(expected[name], np.float32)
                words = f"{node.op} of {graph.types[node.inputs[0]]}"
                np.testing.assert_allclose(
                    found[name], right, rtol=1e-5, atol=1e-30, equal_nan=True, err_msg=words
                )


def test_integer_softmax_of_an_infinity_is_not_a_number() -> None:
    """It must not become an integer; neighbouring rows are not affected."""
    x = np.array([[np.inf, 1.0], [np.nan, 1.0], [2.0, 2.0], [-np.inf, 0.0]])
    (y,) = QuantizedSoftmax().reference(x)
    assert np.isnan(y[:2]).all()
    assert y[2:].tolist() == [[0.5, 0.5], [0.0, 1.0]]
