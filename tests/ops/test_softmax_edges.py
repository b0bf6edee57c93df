"""Softmax of two classes, which has code of its own, at infinities, NaN and far-off numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.execution.program import network_program
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import GraphBuilder
from cannery.ops.softmax.op import Softmax
from needs import need_runner, need_toolchain
from nets.net_bench import make_net_source

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
