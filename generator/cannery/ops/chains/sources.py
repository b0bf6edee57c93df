"""A convolution that reads the inputs of the upsampling and the concatenation before it.

It is a sum of convolutions of the small images and of the concatenated images, see
`cannery.ops.chains.terms`. Each term is an ordinary schedule on every scale-th row and column of
the output, which holds the sum so far. The terms take turns, a band of rows at a time, so that the
band stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cannery.ir.evaluate import Values
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.layouts import Want
from cannery.ops.chains.parts import LETTERS
from cannery.ops.chains.sources_code import Sum
from cannery.ops.chains.term_ways import (
    Option,
    by_source,
    chosen_ways,
    far_weights,
    may_compute,
    ways,
)
from cannery.ops.chains.terms import (
    Piece,
    pieces,
    sources,
    whole_weights,
    why_not_terms,
)
from cannery.ops.conv.winograd_oc import ConvWinogradOc
from cannery.ops.shared import epilogue as epilogues
from cannery.schedule.cost import elementwise_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    all_schedules,
    schedule,
)  # fmt: skip
from cannery.target.isa import ISAS, Isa

#: Roughly how many candidates all terms have together.
MAX_CANDIDATES = 32

#: Cycles of a call.
CALL = 10.0


@dataclass(frozen=True)
class Sources(Schedule):
    """See the module docstring."""

    #: Schedules of the terms, by id.
    each: ClassVar[tuple[str, ...]]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_terms(graph, step) or epilogues.why_not(step):
            return reason
        if len(sources(graph, step)) > len(LETTERS):
            return f"more than {len(LETTERS)} joined images"
        if self.inexact and not any(
            may_compute(self.each[0], own, isa) for own in by_source(graph, step)
        ):
            return "no term is inexact"
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        parts = by_source(graph, step)
        each = max(round(MAX_CANDIDATES ** (1 / len(parts))), 1)
        found: list[dict[str, int | str | bool]] = [{}]
        for letter, own in zip(LETTERS, parts, strict=False):
            found = [
                {**params, letter: o.id, **{f"{letter}_{k}": v for k, v in o.params.items()}}
                for params in found
                for o in self._options(own, isa)[:each]
            ]
        return [params for params in found if _has_inexact(params) == self.inexact]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        wants: dict[str, Want] = {}
        for piece, way, own in chosen_ways(graph, step, params):
            for phase in piece.phases:
                placed = piece.placed(phase)
                reads = way.reads(piece.graph, placed, own, isa)
                for value, want in zip(placed.inputs, reads, strict=True):
                    known = wants.get(value, want)
                    halo = known.halo.union(want.halo)
                    wants[value] = replace(want, halo=halo, slack=max(known.slack, want.slack))
        return tuple(wants[value] for value in step.inputs)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        cycles = code = 0.0
        chosen = chosen_ways(graph, step, params)
        for piece, way, own in chosen:
            found = way.cost(piece.graph, piece.step, own, isa)
            cycles += len(piece.phases) * (found.cycles + CALL)
            code += found.code_bytes
        more = len(sources(graph, step)) - 1
        elements = graph.types[step.output].elements
        cycles += more * elementwise_cycles(isa, elements, 2, 1)
        return Estimate(cycles + far_weights(isa, [(p, way) for p, way, _ in chosen]), code)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return sum(
            len(piece.phases) * way.constant_bytes(piece.graph, piece.step, own, isa)
            for piece, way, own in chosen_ways(graph, step, params)
        )

    def kernel(self, job: Job) -> Kernel:
        return Sum(job).kernel()

    def _options(self, own: Sequence[Piece], isa: Isa) -> list[Option]:
        """Ways to compute a source: the best candidate of each schedule, then the second best, and
        so on.
        """
        found = [
            (place, option) for id_ in self.each for place, option in enumerate(ways(id_, own, isa))
        ]
        return [option for _, option in sorted(found, key=lambda o: (o[0], o[1].cycles))]


def _has_inexact(params: Params) -> bool:
    return any(all_schedules()[str(params[k])].inexact for k in LETTERS if k in params)


@schedule
@dataclass(frozen=True)
class ChainsSources(Sources):
    """As exact as the direct form."""

    id = "chains.sources"
    each = ("conv.direct_oc", "conv.gemm", "conv.winograd_oc_f2")


@schedule
@dataclass(frozen=True)
class ChainsSourcesWinograd(Sources):
    """With Winograd's F(7-k, k) for at least one term: F(5x5, 2x2) after a scale of two."""

    id = "chains.sources_winograd"
    inexact = True
    each = ("conv.winograd_oc", "conv.direct_oc", "conv.gemm")

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output with all terms that Winograd may compute in float32, rounded as it
        rounds.
        """
        values = dict(zip(step.inputs, inputs, strict=True))
        weights = whole_weights(graph, step)
        y = np.zeros(graph.types[step.output].shape)
        for piece in pieces(graph, step):
            (down, across), own = piece.source.scales, piece.source.value
            for phase in piece.phases:
                there = np.s_[:, phase.rows.phase :: down, phase.cols.phase :: across]
                small, placed = piece.weighted(weights, phase), piece.placed(phase)
                known = {own: values[own], piece.so_far: y[there]}
                operands = [known[v] if v in known else values[v][there] for v in placed.inputs]
                y[there] = _emulated(small, placed, operands)
        return y.astype(np.float32)


def _emulated(graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
    """A term as Winograd rounds it if Winograd may compute it, else by the references."""
    way = ConvWinogradOc()
    if not way.why_not(graph, step, ISAS["generic"]):
        return way.emulate(graph, step, inputs)
    values = Values(graph, dict(zip(step.inputs, inputs, strict=True)))
    for node in step.nodes:
        values.compute(node)
    return values[step.output]
