"""A network and schedules for tests of planning and records: nothing is generated from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cannery.choose.plan import Option, Segment, make_option, make_segments
from cannery.ir.graph import Graph, GraphBuilder
from cannery.layouts import Halo, Want
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa, isa

ISA: Isa = isa("generic")


@dataclass(frozen=True)
class Toy(Schedule):
    """Reads and writes the orders in its parameters; `inexact` by construction."""

    id = "toy.toy"

    halo: Halo = field(default_factory=Halo)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [{"from": a, "to": b} for a in ("nhwc", "planar") for b in ("nhwc", "planar")]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(str(params["from"]), self.halo) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(str(params["to"])),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(1.0)

    def kernel(self, job: Job) -> Kernel:
        raise AssertionError("not for running")


def network(layers: int = 3, seed: int = 0, prefix: str = "conv") -> Graph:
    """A chain of equal 3x3 convolutions, each with an activation."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder("toy")
    value = builder.input("image", (1, 6, 6, 4))
    for k in range(layers):
        weight = builder.constant("w", rng.standard_normal((3, 3, 4, 4)).astype(np.float32))
        conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
        value = builder.node(conv, [value, weight], name=f"{prefix}_{k}")
        value = builder.node(Relu(), [value], name=f"{prefix}_{k}/relu")
    builder.output(value)
    return builder.build()


def singles(graph: Graph) -> tuple[Segment, ...]:
    """The segments that are no chains."""
    return tuple(segment for segment in make_segments(graph) if not segment.step.parts)


def option(
    graph: Graph, step: Step, source: str, target: str, cost: float, halo: Halo | None = None
) -> Option:
    """An option that reads one order and writes another."""
    choice = Choice(Toy(halo or Halo()), {"from": source, "to": target})
    return make_option(graph, step, choice, ISA, cost)
