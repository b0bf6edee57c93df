"""Chains: several steps computed row by row, what is between them in line buffers.

Each part is an ordinary schedule whose band function is called on pointers moved by rows (see
`Schedule.movable`). A line buffer holds the rows of a value that the next part's window needs for
the rows in work, with that window's pad columns around them; rows that stay in the window are
moved to its start, rows outside the image are zeros. So nothing is computed twice within a band,
and the buffers are small enough to stay in the first-level cache.

A chain schedule says which parts it takes (`links` and `sub_options` do most of it) and calls
`chain_kernel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cannery.emit.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout, Want, image_dims, nhwc
from cannery.ops.conv.geometry import conv_shape
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.pool import pool_shape
from cannery.schedule.cost import stored_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, all_schedules, legal
from cannery.target.isa import Isa

#: Floats by which buffers in scratch memory are aligned.
_ALIGN = 16

#: "No row yet": less than any row.
_NEVER = -(2**30)


@dataclass(frozen=True)
class RowWindow:
    """Output row r reads the input rows  r * stride - top  to  r * stride - top + reach."""

    stride: int
    reach: int
    top: int
    bottom: int


@dataclass(frozen=True)
class Part:
    """One step of a chain, how it is computed, and what it asks of its first input."""

    step: Step
    schedule: Schedule
    params: Params
    want: Want
    window: RowWindow


@dataclass(frozen=True)
class Link:
    """The line buffer between two parts: `size` is the height of the value, `at` its scratch."""

    layout: Layout
    window: RowWindow
    size: int
    at: int

    @property
    def overlap(self) -> bool:
        """Whether rows stay when the window moves on."""
        return self.window.reach + 1 > self.window.stride

    @property
    def outside(self) -> bool:
        """Whether windows reach beyond the image."""
        return self.window.top > 0 or self.window.bottom > 0

    @property
    def columns(self) -> bool:
        """Whether there are pad columns, which have to be zero."""
        return self.layout.halo.left > 0 or self.layout.halo.right > 0


def row_window(graph: Graph, step: Step) -> RowWindow | None:
    """The rows that a step's anchor reads; None where it is no window over rows.

    Pools with pads over and below are none: they treat border rows differently.
    """
    conv = conv_shape(graph, step)
    if conv is not None:
        reach = (conv.kh - 1) * conv.dh
        return RowWindow(conv.sh, reach, conv.top, conv.halo.bottom)
    pool = pool_shape(graph, step)
    if pool is not None and pool.row_versions == (True,):
        return RowWindow(pool.rows.stride, (pool.rows.taps - 1) * pool.rows.dilation, 0, 0)
    return None


def sub_options(
    graph: Graph, step: Step, isa: Isa, count: int, rows: int = 1
) -> list[tuple[Schedule, Params, Estimate]]:
    """The `count` candidates of a part that are estimated best, channels last, cheapest first.

    None has tiles of more than `rows` rows; of each tile size there is only the best.
    """
    best: dict[tuple[object, ...], tuple[Schedule, Params, Estimate]] = {}
    for schedule in legal(graph, step, isa):
        if not schedule.movable or schedule.inexact:
            continue
        for params in schedule.candidates(graph, step, isa):
            reads = schedule.reads(graph, step, params, isa)
            writes = schedule.writes(graph, step, params, isa)
            plain = all(w.order == nhwc.ORDER and not w.dense for w in reads)
            if int(params.get("mh", 1)) > rows or not plain or writes != (Want(),):
                continue
            cost = schedule.cost(graph, step, params, isa)
            tile = (schedule.id, *(params.get(key) for key in ("lanes", "mh", "mr", "nr")))
            if tile not in best or cost.cycles < best[tile][2].cycles:
                best[tile] = (schedule, params, cost)
    return sorted(best.values(), key=lambda option: option[2].cycles)[:count]


def part_params(letter: str, schedule: Schedule, params: Params) -> dict[str, int | str | bool]:
    """The parameters of a part among those of its chain: `a=conv.depthwise_c,a_mr=4,...`."""
    return {letter: schedule.id, **{f"{letter}_{key}": value for key, value in params.items()}}


def parts(graph: Graph, step: Step, params: Params, isa: Isa) -> list[Part]:
    """The parts as the chain's parameters say."""
    found = []
    for letter, part in zip("abcdefgh", step.parts, strict=False):
        schedule = all_schedules()[str(params[letter])]
        own = {k[2:]: v for k, v in params.items() if k.startswith(f"{letter}_")}
        window = row_window(graph, part)
        assert window is not None
        found.append(Part(part, schedule, own, schedule.reads(graph, part, own, isa)[0], window))
    return found


def chain_reads(graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
    """What all parts together ask of each input of the chain."""
    wants: dict[str, Want] = {}
    for part in parts(graph, step, params, isa):
        reads = part.schedule.reads(graph, part.step, part.params, isa)
        for value, want in zip(part.step.inputs, reads, strict=True):
            known = wants.get(value, want)
            halo, slack = known.halo.union(want.halo), max(known.slack, want.slack)
            wants[value] = replace(want, halo=halo, slack=slack)
    return tuple(wants[value] for value in step.inputs)


def chain_cost(graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
    """The parts' cycles, less what storing a value between them costs.

    Half of the parts' time hides such traffic when they are computed one after the other.
    """
    found = parts(graph, step, params, isa)
    estimates = [p.schedule.cost(graph, p.step, p.params, isa) for p in found]
    cycles = sum(estimate.cycles for estimate in estimates)
    stored = sum(stored_cycles(graph.types[p.step.output].bytes) for p in found[:-1])
    calls = len(found) * graph.types[step.output].shape[1] / int(params["rows"])
    code = sum(estimate.code_bytes for estimate in estimates)
    return Estimate(cycles + 20.0 * calls - max(stored - cycles / 2.0, 0.0), code)


def make_links(graph: Graph, chain: Sequence[Part], rows: int) -> list[Link]:
    """The line buffers for `rows` rows of the last output at a time."""
    links: list[Link] = []
    at = 0
    for before, after in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
        window = after.window
        rows = (rows - 1) * window.stride + window.reach + 1
        _, height, width, channels = image_dims(graph.types[before.step.output])
        columns = Halo(left=after.want.halo.left, right=after.want.halo.right)
        layout = nhwc.make((rows, width, channels), columns, slack=after.want.slack)
        links.append(Link(layout, window, height, at))
        at += -(-layout.elements // _ALIGN) * _ALIGN
    return links[::-1]


def chain_kernel(job: Job) -> Kernel:
    """The kernel of a chain: those of its parts, and the loop that calls them."""
    chain = parts(job.graph, job.step, job.params, job.isa)
    rows = int(job.params["rows"])
    links = make_links(job.graph, chain, rows)
    work = sum(-(-link.layout.elements // _ALIGN) * _ALIGN for link in links)
    kernels = [
        part.schedule.kernel(_part_job(job, chain, links, number))
        for number, part in enumerate(chain)
    ]
    code = render(
        "ops/chains/rows.c.j2",
        kernels=kernels,
        links=links,
        rows=rows,
        never=f"({_NEVER})",
        calls=[_call(job, chain, links, k, kernel, work) for k, kernel in enumerate(kernels)],
        describe=describe(job),
        signature=signature(job, scratch=True, band=True),
    )
    return Kernel(
        code,
        tuple(constant for kernel in kernels for constant in kernel.constants),
        4 * work + max(kernel.scratch_bytes for kernel in kernels),
        band=1,
        needs_math=any(kernel.needs_math for kernel in kernels),
    )


def _places(job: Job) -> Mapping[str, int]:
    return {value: k for k, value in enumerate(job.step.inputs)}


def _part_job(job: Job, chain: Sequence[Part], links: Sequence[Link], number: int) -> Job:
    """The job of a part: layouts of the chain's own inputs and output, and of line buffers."""
    part = chain[number]
    places = _places(job)
    inputs = [
        job.inputs[places[value]] if value in places else _as_input(links[number - 1], part.want)
        for value in part.step.inputs
    ]
    last = number == len(chain) - 1
    output = job.output if last else replace(links[number].layout, halo=Halo(), slack=0)
    symbol = f"{job.symbol}_{'abcdefgh'[number]}"
    return Job(job.graph, part.step, job.isa, part.params, symbol, tuple(inputs), (output,))


def _as_input(link: Link, want: Want) -> Layout:
    """A line buffer as the part behind it sees it: the first row is the top of its window."""
    layout = link.layout
    return replace(layout, origin=layout.origin + link.window.top * layout.row, halo=want.halo)


def _call(
    job: Job, chain: Sequence[Part], links: Sequence[Link], k: int, kernel: Kernel, work: int
) -> str:
    """The call of part k on its new rows a<k> to e<k>."""
    part = chain[k]
    places = _places(job)
    names = parameter_names(job)
    arguments = []
    for number, value in enumerate(part.step.inputs):
        if value not in places:
            arguments.append(f"b{k - 1}")
            continue
        step = part.window.stride if number == 0 else 1
        row = step * job.inputs[places[value]].row
        arguments.append(f"{names[places[value]]} + a{k} * {row}")
    if k == len(chain) - 1:
        arguments.append(f"{names[-1]} + a{k} * {job.output.row}")
    else:
        arguments.append(f"b{k} + (a{k} - low{k}) * {links[k].layout.row}")
    if kernel.scratch_bytes:
        arguments.append(f"scratch{offset(work)}")
    arguments += ["0", f"e{k} - a{k}"]
    return f"{job.symbol}_{'abcdefgh'[k]}({', '.join(arguments)});"
