"""A residual that grows by channels of zeros is added by the convolution, and nothing is copied."""

from __future__ import annotations

from cannery.ir.parser import parse_graph
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.lower import cut
from cannery.ops.concat.view import ConcatView
from cannery.passes import run_passes
from cannery.schedule.program import Choice
from cannery.schedule.schedule import legal
from cannery.target.isa import isa

BLOCK = """graph net
input x: float32[1x6x6x3]
const w: float32[1x1x3x8]
const v: float32[1x1x8x12]
first = Conv(x, w) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
conv = Conv(first, v) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
padded = Pad(first) pads=((0, 0), (0, 0), (0, 0), (0, 4))
sum = Add(conv, padded)
y = Relu(sum)
output y
"""


def test_the_convolution_adds_it() -> None:
    steps = cut(run_passes(parse_graph(BLOCK)))
    assert [step.anchor.op.kind for step in steps] == ["Conv", "Expand", "Concat", "Conv"]
    assert [node.op.kind for node in steps[-1].epilogue] == ["Add", "Relu"]


def test_only_zeros_are_written_beside_the_image() -> None:
    graph, target = run_passes(parse_graph(BLOCK)), isa("generic")
    steps, choices = cut(graph), []
    for step in steps:
        ways = legal(graph, step, target)
        way = next((w for w in ways if isinstance(w, ConcatView)), ways[0])
        orders = way.candidates(graph, step, target)
        wanted = [p for p in orders if way.writes(graph, step, p, target)[0].order == nhwc.ORDER]
        choices.append(Choice(way, wanted[0]))
    program = assign(graph, steps, choices, target)
    assert [step.step.kind for step in program.steps] == ["Conv", "Expand", "Conv"]
    first = program.buffers[program.steps[0].writes[0]]
    assert program.steps[1].writes[0] != first.name
    assert {program.buffers[step.writes[0]].root for step in program.steps[:2]} == {first.root}
