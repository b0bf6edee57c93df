"""Chains: several steps computed row by row, with line buffers between them.

Each part is an ordinary schedule whose band function is called on pointers moved by rows (see
`Schedule.movable`). A line buffer holds the rows of a value that the next part's window needs for
the current rows, with that window's pad columns around them. Rows that stay in the window are moved
to the start of the buffer; rows outside the image are zeros. So nothing is computed twice within a
band, and the buffers are small enough to stay in the first-level cache.

A chain is a subclass of `RowChain` that says which steps it takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from cannery.ctext.environment import offset, render
from cannery.ctext.halves import make_kernel
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout, Want, image_dims, nhwc, plainest, planar
from cannery.ops.chains.parts import (
    LETTERS,
    ChainPart,
    RowWindow,
    chain_cost,
    chain_reads,
    chain_writes,
    combinations,
    link_rows,
    make_parts,
    part_options,
    repeats,
    row_window,
)
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa

#: Alignment of buffers in scratch memory, in floats.
_ALIGN = 16

#: "No row yet": less than any row.
_NEVER = -(2**30)


@dataclass(frozen=True)
class RowChain(Schedule):
    """See the module docstring."""

    #: How many rows of the last output are computed at a time: the values to try.
    rows: ClassVar[tuple[int, ...]] = (1, 2, 4)
    #: How many candidates of each part are combined.
    kept: ClassVar[tuple[int, ...]] = ()
    halves = True

    @abstractmethod
    def unfit(self, graph: Graph, step: Step) -> str:
        """Why these steps cannot be this chain; there are as many as in `kept`."""

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.parts) != len(self.kept):
            return f"not a chain of {len(self.kept)} steps"
        reason = self.unfit(graph, step)
        if reason:
            return reason
        if any(row_window(graph, part) is None for part in step.parts):
            return "border rows are special"
        return "" if self._orders(graph, step, isa) else "the parts have no movable schedules"

    def _orders(self, graph: Graph, step: Step, isa: Isa) -> list[str]:
        return [
            order
            for order in (nhwc.ORDER, planar.ORDER)
            if all(part_options(graph, part, isa, order, 1) for part in step.parts)
        ]

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        height = graph.types[step.output].shape[1]
        repeat = repeats(graph, step)
        counts = {min(count, height) for count in (*self.rows, repeat)}
        return [
            params
            for order in self._orders(graph, step, isa)
            for count in sorted(counts)
            if count % repeat == 0 or count == height
            for params in combinations(graph, step, isa, order, count, self.kept)
        ]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return chain_reads(graph, step, params, isa)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return chain_writes(graph, step, params, isa)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return chain_cost(graph, step, params, isa)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return sum(
            part.schedule.constant_bytes(graph, part.step, part.params, isa)
            for part in make_parts(graph, step, params, isa)
        )

    def scratch_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> int:
        parts = make_parts(graph, step, params, isa)
        counts = link_rows(parts, int(params["rows"]))
        rooms = 0
        for before, after, count in zip(parts, parts[1:], counts, strict=False):
            type_ = graph.types[before.step.output]
            _, _, width, channels = image_dims(type_)
            columns = Halo(left=after.want.halo.left, right=after.want.halo.right)
            layout = plainest((count, width, channels), replace(after.want, halo=columns))
            rooms += layout.bytes
        return rooms

    def kernel(self, job: Job) -> Kernel:
        return _ChainJob(job, tuple(make_parts(job.graph, job.step, job.params, job.isa))).kernel()


@dataclass(frozen=True)
class Link:
    """The line buffer between two parts: `size` is the height of the value, `at` its scratch."""

    layout: Layout
    window: RowWindow
    size: int
    at: int

    @property
    def overlap(self) -> bool:
        """Whether the window keeps some rows when it moves on."""
        return self.window.reach + 1 > self.window.stride

    @property
    def outside(self) -> bool:
        """Whether windows reach beyond the image."""
        return self.window.top > 0 or self.window.bottom > 0

    @property
    def columns(self) -> bool:
        """Whether there are pad columns, which must be zero."""
        return self.layout.halo.left > 0 or self.layout.halo.right > 0

    @property
    def planes(self) -> int:
        """How many pieces a row is split into."""
        return self.layout.shape[2] if self.layout.order == planar.ORDER else 1

    @property
    def room(self) -> int:
        """Floats of scratch memory."""
        return -(-self.layout.elements // _ALIGN) * _ALIGN

    def as_input(self, halo: Halo) -> Layout:
        """The layout that the next part sees: its first row is the top of that part's window."""
        origin = self.layout.origin + self.window.top * self.layout.row
        columns = replace(self.layout.halo, top=halo.top, bottom=halo.bottom)
        return replace(self.layout, origin=origin, halo=columns)


@dataclass(frozen=True)
class _ChainJob:
    """Generates one chain."""

    job: Job
    chain: tuple[ChainPart, ...]

    def kernel(self) -> Kernel:
        """The kernels of the parts, and the loop that calls them."""
        job = self.job
        rows = int(job.params["rows"])
        links = self.links(rows)
        work = sum(link.room for link in links)
        jobs = [self.part_job(links, number) for number in range(len(self.chain))]
        kernels = [make_kernel(p.schedule, j) for p, j in zip(self.chain, jobs, strict=True)]
        code = render(
            "ops/chains/rows.c.j2",
            kernels=kernels,
            links=links,
            rows=rows,
            never=f"({_NEVER})",
            calls=[self.call(links, k, kernel, work) for k, kernel in enumerate(kernels)],
            describe=describe(job),
            signature=signature(job, scratch=True, band=True),
        )
        return Kernel(
            code,
            tuple(constant for kernel in kernels for constant in kernel.constants),
            4 * work + max(kernel.scratch_bytes for kernel in kernels),
            band=self.chain[0].window.repeat,
            needs_math=any(kernel.needs_math for kernel in kernels),
        )

    def input_layout(self, value: str) -> Layout | None:
        """The layout of an input of the chain; None for values between the parts."""
        inputs = self.job.step.inputs
        return self.job.inputs[inputs.index(value)] if value in inputs else None

    def links(self, rows: int) -> list[Link]:
        """The line buffers for `rows` rows of the last output at a time."""
        links: list[Link] = []
        at = 0
        counts = link_rows(self.chain, rows)[::-1]
        pairs = zip(self.chain[-2::-1], self.chain[:0:-1], counts, strict=True)
        for before, after, count in pairs:
            _, height, width, channels = image_dims(self.job.type(before.step.output))
            columns = self.columns(before, after)
            layout = plainest((count, width, channels), replace(after.want, halo=columns))
            links.append(Link(layout, after.window, height, at))
            at += links[-1].room
        return links[::-1]

    def columns(self, before: ChainPart, after: ChainPart) -> Halo:
        """Pad columns of a link: the window's, and those that make the row pitch equal to the
        input's.

        Some schedules are faster when input and output have the same pitch.
        """
        halo = Halo(left=after.want.halo.left, right=after.want.halo.right)
        source = self.input_layout(before.step.inputs[0])
        if not before.want.shared_pitch or source is None:
            return halo
        return halo.union(Halo(left=source.halo.left, right=source.halo.right))

    def part_job(self, links: Sequence[Link], number: int) -> Job:
        """The job of a part: layouts of the chain's own inputs and output, and of line buffers."""
        job, part = self.job, self.chain[number]
        inputs = [
            self.input_layout(value) or links[number - 1].as_input(part.want.halo)
            for value in part.step.inputs
        ]
        last = number == len(self.chain) - 1
        output = job.output if last else replace(links[number].layout, slack=0)
        symbol = f"{job.symbol}_{LETTERS[number]}"
        return Job(job.graph, part.step, job.isa, part.params, symbol, tuple(inputs), (output,))

    def call(self, links: Sequence[Link], k: int, kernel: Kernel, work: int) -> str:
        """The call of part k on its new rows a<k> to e<k>."""
        job, part = self.job, self.chain[k]
        names = parameter_names(job)
        arguments = []
        for number, value in enumerate(part.step.inputs):
            layout = self.input_layout(value)
            if layout is None:
                arguments.append(f"b{k - 1}")
                continue
            row = (part.window.stride if number == 0 else 1) * layout.row
            first = f"a{k}" if part.window.repeat == 1 or number else f"a{k} / {part.window.repeat}"
            arguments.append(f"{names[job.step.inputs.index(value)]} + {first} * {row}")
        if k == len(self.chain) - 1:
            arguments.append(f"{names[-1]} + a{k} * {job.output.row}")
        else:
            arguments.append(f"b{k} + (a{k} - low{k}) * {links[k].layout.row}")
        if kernel.scratch_bytes:
            arguments.append(f"scratch{offset(work)}")
        arguments += ["0", f"e{k} - a{k}"]
        return f"{job.symbol}_{LETTERS[k]}({', '.join(arguments)});"
