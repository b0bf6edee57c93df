"""The C of a sum of convolutions: a function for each term, and the loop that calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from cannery.ctext.environment import offset, render
from cannery.layouts import Halo, Layout
from cannery.ops.chains.parts import LETTERS
from cannery.ops.chains.term_ways import (
    chosen_ways,
)
from cannery.ops.chains.terms import (
    Line,
    OutputPhase,
    Piece,
    sources,
    whole_weights,
)
from cannery.ops.conv.geometry import sizes
from cannery.ops.conv.winograd_oc import WinogradOc
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.caches import L2_BYTES
from cannery.schedule.schedule import (
    ConstArray,
    Job,
    Kernel,
    Params,
    Schedule,
)  # fmt: skip

#: Limit on the bytes of output and inputs that a band of rows touches.
BAND_BYTES = L2_BYTES // 2


@dataclass(frozen=True)
class Sum:
    """Generates one kernel."""

    job: Job

    def kernel(self) -> Kernel:
        """The kernels of all pieces, and the loop that calls them."""
        job = self.job
        weights = whole_weights(job.graph, job.step)
        chosen = chosen_ways(job.graph, job.step, job.params)
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

        Winograd computes many tiles at once, so a band must not leave any over.
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
        """The job of a piece's kernel, for its first phase and without weights."""
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

    def place(self, layout: Layout, lead: OutputPhase, phase: OutputPhase) -> str:
        """Offset of a phase's first pixel from the first pixel of the first phase."""
        rows, cols = phase.rows.phase - lead.rows.phase, phase.cols.phase - lead.cols.phase
        return _moved(layout, rows, cols)


def _moved(layout: Layout, rows: int, cols: int) -> str:
    """What to add to a pointer to move it by these rows and columns."""
    return offset(rows * layout.row + cols * layout.col)


def _row(side: str, rows: Line, scale: int) -> str:
    """The first row of a phase from row `side` of the output on."""
    return side if scale == 1 else f"({side}{offset(scale - 1 - rows.phase)}) / {scale}"


def _lattice(layout: Layout, phase: OutputPhase, scales: tuple[int, int]) -> Layout:
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
