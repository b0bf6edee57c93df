"""Long sums are added up in blocks: their rounding does not grow with the number of terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.execution.program import network_program
from cannery.execution.samples import reference_outputs, relative_error
from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering.assign import assign
from cannery.lowering.lower import cut
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.shared.sums import block_steps, even_steps
from cannery.schedule.program import Choice
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import ISAS, Isa
from needs import need_runner, need_toolchain

#: Terms of a sum, all of one sign: a chain of so many is off by 1e-6, blocks by 2e-7.
TERMS = 4096

#: The layers of `long_sums`, one schedule each, with the words of a candidate's label.
WAYS = {
    "oc": ("conv.direct_oc", "unroll=none"),
    "taps": ("conv.direct_oc", "unroll=none"),
    "gemm": ("conv.gemm", f"kc={TERMS}"),
    "parts": ("conv.gemm", "kc=256"),
    "px": ("conv.direct_px", "unroll=kh"),
    "dense": ("matmul.dense_n", "split=1"),
}


def long_sums() -> Graph:
    """Layers side by side, each an output, that sum up positive products."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("sums")
    x = b.input("x", (1, 2, 4, TERMS))
    z = b.input("z", (1, 4, 4, TERMS // 16))
    row = b.input("row", (1, TERMS))
    pointwise = Conv((1, 1), ((0, 0), (0, 0)), (1, 1))
    for name in WAYS:
        if name == "dense":
            w = b.constant("w", rng.random((TERMS, 4)).astype(np.float32))
            b.output(b.node(MatMul(), [row, w], name=name))
        elif name == "taps":
            w = b.constant("w", rng.random((4, 4, TERMS // 16, 4)).astype(np.float32))
            b.output(b.node(pointwise, [z, w], name=name))
        else:
            w = b.constant("w", rng.random((1, 1, TERMS, 4)).astype(np.float32))
            b.output(b.node(pointwise, [x, w], name=name))
    return b.build()


@pytest.mark.parametrize("target", ["generic", "ssse3", "avx2"])
def test_the_rounding_of_long_sums(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    runner, isa = need_runner(toolchain), toolchain.target.isa
    graph = long_sums()
    steps, choices = cut(graph), []
    for step in steps:
        schedule, words = all_schedules()[WAYS[step.name][0]], WAYS[step.name][1]
        found = schedule.candidates(graph, step, isa)
        choices.append(Choice(schedule, next(p for p in found if words in schedule.label(p))))
    rng = np.random.default_rng(1)
    types = {name: graph.types[name].shape for name in graph.inputs}
    samples = [{name: rng.random(shape, np.float32) for name, shape in types.items()}]
    source = make_source(assign(graph, steps, choices, isa), isa, "sums", {})
    with network_program(source, output_files(source, "test"), toolchain, samples) as program:
        (found,) = program.run(runner)
    (expected,) = reference_outputs(graph, samples)
    errors = {
        step.name: relative_error(found[step.output], expected[step.output]) for step in steps
    }
    assert max(errors.values()) < 5e-7, errors


@pytest.mark.parametrize("isa", ISAS.values(), ids=ISAS)
def test_blocks_are_long_enough_to_cost_nothing(isa: Isa) -> None:
    for steps in range(1, 300):
        every = block_steps(steps, 4, isa)
        assert every == 0 or (4 * every >= 64 and every < steps)
        even = even_steps(steps, 4, isa)
        assert even == 0 or (even >= every and steps % even == 0 and even < steps)
    assert block_steps(256, 4, isa) and even_steps(256, 4, isa)
