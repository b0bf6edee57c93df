"""A convolution that reads what an upsampling and a concatenation before it would have read.

A sum of convolutions of the small images and of the images that are joined, see
`cannery.ops.chains.terms`. Each term is an ordinary schedule on every scale-th row and column of
the output, where the sum so far waits. The terms take turns, a band of rows at a time, which stays
in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import ClassVar, NamedTuple

import numpy as np

from cannery.emit.environment import offset, render
from cannery.ir.evaluate import Values
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout, Want
from cannery.ops.chains.parts import LETTERS
from cannery.ops.chains.terms import (
    Line,
    Phase,
    Piece,
    pieces,
    sources,
    whole_weights,
    why_not_terms,
)
from cannery.ops.conv.direct_oc import ConvDirectOc
from cannery.ops.conv.gemm import ConvGemm
from cannery.ops.conv.geometry import sizes
from cannery.ops.conv.winograd_oc import ConvWinogradOc, WinogradOc
from cannery.ops.registry import RefArray
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.cost import FAR_BYTES_PER_CYCLE, L2_BYTES, elementwise_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    ConstArray,
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    all_schedules,
    schedule,
)  # fmt: skip
from cannery.target.isa import ISAS, Isa

#: Bytes of output and inputs that a band of rows touches.
BAND_BYTES = L2_BYTES // 2

#: Candidates of all terms together, about.
MAX_CANDIDATES = 32

#: Parameters that make candidates of a term differ enough.
DISTINCT = ("lanes", "mr", "nr", "joined", "unroll", "opaque")

#: Cycles of a call.
CALL = 10.0


class Option(NamedTuple):
    """How a source may be computed, and the cycles of all its phases."""

    id: str
    params: Params
    cycles: float


@dataclass(frozen=True)
class Sources(Schedule):
    """See the module's text."""

    #: Schedules of the terms, by id.
    each: ClassVar[tuple[str, ...]]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_terms(graph, step):
            return reason
        if not epilogues.step_supports(step):
            return "epilogue not elementwise"
        if len(sources(graph, step)) > len(LETTERS):
            return f"more than {len(LETTERS)} joined images"
        if self.inexact and not any(
            _may_compute(self.each[0], own, isa) for own in _by_source(graph, step)
        ):
            return "no term is inexact"
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        by_source = _by_source(graph, step)
        each = max(round(MAX_CANDIDATES ** (1 / len(by_source))), 1)
        found: list[dict[str, int | str | bool]] = [{}]
        for letter, own in zip(LETTERS, by_source, strict=False):
            found = [
                {**params, letter: o.id, **{f"{letter}_{k}": v for k, v in o.params.items()}}
                for params in found
                for o in self._options(own, isa)[:each]
            ]
        return [params for params in found if _has_inexact(params) == self.inexact]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        wants: dict[str, Want] = {}
        for piece, way, own in _chosen(graph, step, params):
            for phase in piece.phases:
                placed = piece.placed(phase)
                reads = way.reads(piece.graph, placed, own, isa)
                for value, want in zip(placed.inputs, reads, strict=True):
                    known = wants.get(value, want)
                    halo = known.halo.union(want.halo)
                    wants[value] = replace(want, halo=halo, slack=max(known.slack, want.slack))
        return tuple(wants[value] for value in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        cycles = code = 0.0
        chosen = _chosen(graph, step, params)
        for piece, way, own in chosen:
            found = way.cost(piece.graph, piece.step, own, isa)
            cycles += len(piece.phases) * (found.cycles + CALL)
            code += found.code_bytes
        more = len(sources(graph, step)) - 1
        elements = graph.types[step.output].elements
        cycles += more * elementwise_cycles(isa, elements, 2, 1)
        return Estimate(cycles + _far_weights([(p, way) for p, way, _ in chosen]), code)

    def kernel(self, job: Job) -> Kernel:
        return _Sum(job).kernel()

    def _options(self, own: Sequence[Piece], isa: Isa) -> list[Option]:
        """Ways to compute a source: the best of each schedule, then the second ones ..."""
        found = [
            (place, option)
            for id_ in self.each
            for place, option in enumerate(_ways(id_, own, isa))
        ]
        return [option for _, option in sorted(found, key=lambda o: (o[0], o[1].cycles))]


def _by_source(graph: Graph, step: Step) -> list[list[Piece]]:
    """The pieces of each source, in order."""
    all_pieces = pieces(graph, step)
    return [[p for p in all_pieces if p.source == source] for source in sources(graph, step)]


def _has_inexact(params: Params) -> bool:
    return any(all_schedules()[str(params[k])].inexact for k in LETTERS if k in params)


def _may_compute(id_: str, own: Sequence[Piece], isa: Isa) -> bool:
    """Whether a schedule can compute all pieces of a source.

    Where phases differ in shape, only tiles that can be cut to them will do.
    """
    way = all_schedules()[id_]
    fits = len(own) == 1 or isinstance(way, ConvDirectOc)
    return fits and not any(way.why_not(piece.graph, piece.step, isa) for piece in own)


def _ways(id_: str, own: Sequence[Piece], isa: Isa) -> list[Option]:
    """The candidates of a schedule for all pieces of a source, cheapest first.

    Of those that have their tiles and loops in common there is only the best.
    """
    if not _may_compute(id_, own, isa):
        return []
    way = all_schedules()[id_]
    far = _far_weights([(piece, way) for piece in own])
    best: dict[tuple[object, ...], Option] = {}
    for params in way.candidates(own[0].graph, own[0].step, isa):
        if own[0].so_far and _overwrites(own[0], way, params):
            continue
        cycles = sum(
            replace(found, cycles=len(piece.phases) * found.cycles).total
            for piece in own
            for found in [way.cost(piece.graph, piece.step, _fitted(params, piece), isa)]
        )
        tile = tuple(params.get(key) for key in DISTINCT)
        if tile not in best or cycles < best[tile].cycles:
            best[tile] = Option(id_, params, cycles + far)
    return sorted(best.values(), key=lambda option: option.cycles)


def _far_weights(ways: Sequence[tuple[Piece, Schedule]]) -> float:
    """Cycles of reading the weights of all phases, beyond those of the whole window.

    Each phase has its own: what they take may not stay in the second-level cache from run to run.
    """
    more = 0.0
    for piece, way in ways:
        shape = sizes(piece.graph, piece.step)
        pairs = 4.0 * shape.ic * shape.oc
        each = way.weight_bytes(shape) if isinstance(way, WinogradOc) else shape.taps * pairs
        more += len(piece.phases) * each - piece.phases[0].window * pairs
    return max(more - L2_BYTES, 0.0) / FAR_BYTES_PER_CYCLE


def _overwrites(piece: Piece, way: Schedule, params: Params) -> bool:
    """Whether sums are stored before they are whole, over those of the terms before."""
    if isinstance(way, ConvGemm):
        shape = sizes(piece.graph, piece.step)
        return int(params["kc"]) != shape.taps * shape.ic
    return bool(params.get("joined"))


def _fitted(params: Params, piece: Piece) -> Params:
    """The parameters with tiles that are not wider than a phase."""
    if "unroll" not in params or "batch" in params:
        return params
    return {**params, "mr": min(int(params["mr"]), piece.phases[0].cols.size)}


def _chosen(graph: Graph, step: Step, params: Params) -> list[tuple[Piece, Schedule, Params]]:
    """All pieces with the schedule and the parameters that a candidate has for them."""
    letters = dict(zip(sources(graph, step), LETTERS, strict=False))
    found = []
    for piece in pieces(graph, step):
        letter = letters[piece.source]
        own = {k[2:]: v for k, v in params.items() if k.startswith(f"{letter}_")}
        found.append((piece, all_schedules()[str(params[letter])], _fitted(own, piece)))
    return found


@dataclass(frozen=True)
class _Sum:
    """The generation of one kernel."""

    job: Job

    def kernel(self) -> Kernel:
        """The kernels of all pieces, and the loop that calls them."""
        job = self.job
        weights = whole_weights(job.graph, job.step)
        chosen = _chosen(job.graph, job.step, job.params)
        jobs = [self.piece_job(k, piece, own) for k, (piece, _, own) in enumerate(chosen)]
        kernels = [way.kernel(each) for (_, way, _), each in zip(chosen, jobs, strict=True)]
        band = lcm(
            *(p.source.scales[0] * k.band for (p, _, _), k in zip(chosen, kernels, strict=True))
        )
        scratch = max(kernel.scratch_bytes for kernel in kernels)
        code = render(
            "ops/chains/sources.c.j2",
            codes=[kernel.code for kernel in kernels],
            calls=[
                call
                for k, ((piece, _, _), kernel) in enumerate(zip(chosen, kernels, strict=True))
                for call in self.calls(k, piece, kernel)
            ],
            rows=self.rows(band, chosen, kernels),
            describe=describe(job),
            signature=signature(job, scratch=scratch > 0, band=True),
        )
        constants: list[ConstArray] = []
        for (piece, way, _), each, kernel in zip(chosen, jobs, kernels, strict=True):
            name = f"{each.symbol}_w"
            for k, phase in enumerate(piece.phases):
                found = way.weights(replace(each, graph=piece.weighted(weights, phase)))
                constants.append(replace(found, name=f"{name}{k}" if each.weights_apart else name))
            constants += [c for c in kernel.constants if c.name != name]
        needs_math = any(kernel.needs_math for kernel in kernels)
        return Kernel(code, tuple(constants), scratch, band, needs_math)

    def rows(
        self, band: int, chosen: Sequence[tuple[Piece, Schedule, Params]], kernels: Sequence[Kernel]
    ) -> int:
        """Rows that take turns, a multiple of `band`: about BAND_BYTES. 0 for all rows at once.

        Winograd's tiles are computed by the dozen: none may be left over in a band.
        """
        job = self.job
        each = 4 * job.output.row
        for source in sources(job.graph, job.step):
            each += 4 * self.layout(source.value).row // source.scales[0]
        least = -(-max(BAND_BYTES // each, 1) // band) * band
        for rows in range(least, min(4 * least, job.output.shape[0]), band):
            if not any(
                isinstance(way, WinogradOc)
                and rows // (piece.source.scales[0] * kernel.band)
                * way.tiles_per_row(sizes(piece.graph, piece.step)) % int(params["mr"])
                for (piece, way, params), kernel in zip(chosen, kernels, strict=True)
            ):  # fmt: skip
                return rows
        return 0

    def layout(self, value: str) -> Layout:
        """The layout of an input of the chain."""
        return self.job.inputs[self.job.step.inputs.index(value)]

    def symbol(self, number: int) -> str:
        """The name of a piece's function."""
        return f"{self.job.symbol}_{LETTERS[number % len(LETTERS)]}{number // len(LETTERS) or ''}"

    def piece_job(self, number: int, piece: Piece, params: Params) -> Job:
        """What makes the kernel of a piece, for its first phase and without weights."""
        job, lead, scales = self.job, piece.phases[0], piece.source.scales
        inputs = []
        for value in piece.step.inputs:
            if value == piece.source.value:
                inputs.append(self.layout(value))
            else:
                whole = job.output if value == piece.so_far else self.layout(value)
                inputs.append(_lattice(whole, lead, scales))
        shared = [k for k, value in enumerate(piece.step.inputs) if value == piece.so_far]
        return Job(
            piece.graph, piece.step, job.isa, params, self.symbol(number), tuple(inputs),
            (_lattice(job.output, lead, scales),), frozenset(shared),
            weights_apart=len(piece.phases) > 1,
        )  # fmt: skip

    def calls(self, number: int, piece: Piece, kernel: Kernel) -> list[str]:
        """The calls of a piece's function, one per phase, for the rows `begin` to `end`."""
        names = dict(zip(self.job.step.inputs, parameter_names(self.job), strict=False))
        lead = piece.phases[0]
        found = []
        for k, phase in enumerate(piece.phases):
            arguments = []
            for value in piece.step.inputs:
                if value == piece.source.value:
                    to = _moved(self.layout(value), lead.rows.pad - phase.rows.pad,
                                lead.cols.pad - phase.cols.pad)  # fmt: skip
                    arguments.append(f"{names[value]}{to}")
                elif value == piece.so_far:
                    arguments.append(f"y{self.place(self.job.output, lead, phase)}")
                else:
                    to = self.place(self.layout(value), lead, phase)
                    arguments.append(f"{names[value]}{to}")
            arguments.append(f"y{self.place(self.job.output, lead, phase)}")
            arguments += [f"{self.symbol(number)}_w{k}"] if len(piece.phases) > 1 else []
            arguments += ["scratch"] if kernel.scratch_bytes else []
            arguments += [
                _row(side, phase.rows, piece.source.scales[0]) for side in ("begin", "end")
            ]
            found.append(f"{self.symbol(number)}({', '.join(arguments)});")
        return found

    def place(self, layout: Layout, lead: Phase, phase: Phase) -> str:
        """How far the first pixel of a phase is behind that of the first one."""
        rows, cols = phase.rows.phase - lead.rows.phase, phase.cols.phase - lead.cols.phase
        return _moved(layout, rows, cols)


def _moved(layout: Layout, rows: int, cols: int) -> str:
    """What is added to a pointer to move it by so many rows and columns."""
    return offset(rows * layout.row + cols * layout.col)


def _row(side: str, rows: Line, scale: int) -> str:
    """The first row of a phase from row `side` of the output on."""
    return side if scale == 1 else f"({side}{offset(scale - 1 - rows.phase)}) / {scale}"


def _lattice(layout: Layout, phase: Phase, scales: tuple[int, int]) -> Layout:
    """The pixels of a phase of an image, as an image."""
    if scales == (1, 1):
        return layout
    return replace(
        layout,
        shape=(phase.rows.size, phase.cols.size, layout.shape[2]),
        row=layout.row * scales[0],
        col=layout.col * scales[1],
        origin=layout.at(phase.rows.phase, phase.cols.phase, 0),
        halo=Halo(),
    )


@schedule
@dataclass(frozen=True)
class ChainsSources(Sources):
    """As exact as the direct form."""

    id = "chains.sources"
    each = ("conv.direct_oc", "conv.gemm", "conv.winograd_oc_f2")


@schedule
@dataclass(frozen=True)
class ChainsSourcesWinograd(Sources):
    """With Winograd's F(7-k, k) for a term at least: F(5x5, 2x2) behind a scale of two."""

    id = "chains.sources_winograd"
    inexact = True
    each = ("conv.winograd_oc", "conv.direct_oc", "conv.gemm")

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output with all terms in float32 that Winograd may compute, as it rounds."""
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
    """A term as Winograd rounds it, if it may be computed so; else by the references."""
    way = ConvWinogradOc()
    if not way.why_not(graph, step, ISAS["generic"]):
        return way.emulate(graph, step, inputs)
    values = Values(graph, dict(zip(step.inputs, inputs, strict=True)))
    for node in step.nodes:
        values.compute(node)
    return values[step.output]
