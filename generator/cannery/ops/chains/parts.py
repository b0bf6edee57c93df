"""The parts of a chain: the rows that their windows read, and which candidates are combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.conv.geometry import conv_shape
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.shared.pool import pool_shape
from cannery.schedule.cost import passed_cycles, stored_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Params, Schedule, all_schedules, estimates, legal
from cannery.target.isa import Isa

#: The parameters of part k begin with this letter: `a=conv.depthwise_c,a_mr=4,b=conv.gemm,...`.
LETTERS = "abcdefgh"

Option = tuple[Schedule, Params, Estimate]


@dataclass(frozen=True)
class RowWindow:
    """Output row r reads the input rows  r * stride - top  to  r * stride - top + reach.

    It also reads `bottom` rows below the image. With `repeat` > 1, a transposed convolution of that
    stride, output rows that are a multiple of it begin at input row  r / repeat; only the first
    part of a chain may be one, so its other rows are never needed.
    """

    stride: int
    reach: int
    top: int
    bottom: int
    repeat: int = 1


@dataclass(frozen=True)
class ChainPart:
    """One step of a chain, how it is computed, and what it requires of its first input."""

    step: Step
    schedule: Schedule
    params: Params
    want: Want
    window: RowWindow


def row_window(graph: Graph, step: Step) -> RowWindow | None:
    """The rows that a step's anchor reads; None if it is not a window over rows.

    Pools padded above or below do not count: they treat border rows differently.
    """
    conv = conv_shape(graph, step)
    if conv is not None:
        reach = (conv.kh - 1) * conv.dh
        return RowWindow(conv.sh, reach, conv.top, conv.halo.bottom)
    pool = pool_shape(graph, step)
    if pool is not None and pool.row_versions == (True,):
        return RowWindow(pool.rows.stride, (pool.rows.taps - 1) * pool.rows.dilation, 0, 0)
    op = step.anchor.op
    if isinstance(op, ConvTranspose) and len(op.strides) == 2:
        return RowWindow(1, 0, 0, 0, repeat=op.strides[0])
    return None


def repeats(graph: Graph, step: Step) -> int:
    """Rows of a chain that start together: those that its first part makes from one input row."""
    window = row_window(graph, step.parts[0])
    assert window is not None
    return window.repeat


def part_options(
    graph: Graph, step: Step, isa: Isa, order: str, count: int, rows: int = 1
) -> list[Option]:
    """The `count` best candidates of a part in an order by estimated cost, cheapest first.

    No tile has more than `rows` rows; only the best candidate of each tile size is kept.
    """
    window = row_window(graph, step)
    most = -(-rows // (window.repeat if window else 1))
    found = graph.once(("part", order), (step, isa), lambda: _ranked(graph, step, isa, order))
    return [option for option in found if int(option[1].get("mh", 1)) <= most][:count]


def _ranked(graph: Graph, step: Step, isa: Isa, order: str) -> list[Option]:
    """The best candidate of each tile size, cheapest first."""
    best: dict[tuple[object, ...], Option] = {}
    for schedule in legal(graph, step, isa):
        if not schedule.movable or schedule.inexact:
            continue
        for params, cost in estimates(graph, step, isa, schedule):
            reads = schedule.reads(graph, step, params, isa)
            (writes,) = schedule.writes(graph, step, params, isa)
            fits = all(w.order == order and not w.dense for w in (*reads, writes))
            if not fits or writes.slack or writes.halo:
                continue
            keys = ("lanes", "mh", "mr", "nr", "p", "c", "px")
            tile = (schedule.id, *(params.get(key) for key in keys))
            if tile not in best or cost.cycles < best[tile][2].cycles:
                best[tile] = (schedule, params, cost)
    return sorted(best.values(), key=lambda option: option[2].cycles)


def combinations(
    graph: Graph, step: Step, isa: Isa, order: str, rows: int, kept: Sequence[int]
) -> list[Params]:
    """Parameters of the chain: `rows` rows at a time, the best `kept` candidates of each part."""
    options = (
        part_options(graph, part, isa, order, count, rows)
        for part, count in zip(step.parts, kept, strict=True)
    )
    found: list[Params] = []
    for chosen in product(*options):
        params: dict[str, int | str | bool] = {"rows": rows, "order": order}
        for letter, (schedule, own, _) in zip(LETTERS, chosen, strict=False):
            params[letter] = schedule.id
            params.update({f"{letter}_{key}": value for key, value in own.items()})
        found.append(params)
    return found


def make_parts(graph: Graph, step: Step, params: Params, isa: Isa) -> Sequence[ChainPart]:
    """The parts as the chain's parameters say."""
    key = ("parts", *params.items())
    return graph.once(key, (step, isa), lambda: _make_parts(graph, step, params, isa))


def _make_parts(graph: Graph, step: Step, params: Params, isa: Isa) -> list[ChainPart]:
    found = []
    for letter, part in zip(LETTERS, step.parts, strict=False):
        schedule = all_schedules()[str(params[letter])]
        own = {k[2:]: v for k, v in params.items() if k.startswith(f"{letter}_")}
        window = row_window(graph, part)
        assert window is not None
        found.append(
            ChainPart(part, schedule, own, schedule.reads(graph, part, own, isa)[0], window)
        )
    return found


def link_rows(parts: Sequence[ChainPart], rows: int) -> list[int]:
    """Rows of each line buffer, for `rows` rows of the last output at a time."""
    found: list[int] = []
    for after in parts[:0:-1]:
        rows = (rows - 1) * after.window.stride + after.window.reach + 1
        found.append(rows)
    return found[::-1]


def chain_reads(graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
    """What all parts together require of each input of the chain."""
    wants: dict[str, Want] = {}
    for part in make_parts(graph, step, params, isa):
        reads = part.schedule.reads(graph, part.step, part.params, isa)
        for value, want in zip(part.step.inputs, reads, strict=True):
            known = wants.get(value, want)
            halo, slack = known.halo.union(want.halo), max(known.slack, want.slack)
            apart = known.apart or want.apart
            wants[value] = replace(want, halo=halo, slack=slack, apart=apart)
    return tuple(wants[value] for value in step.inputs)


def chain_writes(graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
    """The layout that the last part writes."""
    last = make_parts(graph, step, params, isa)[-1]
    return last.schedule.writes(graph, last.step, last.params, isa)


def chain_cost(graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
    """The parts' cycles, minus the cost of storing the values between them.

    When the parts run one after the other, half of their time hides this traffic. Line buffers that
    are too large for a cache still cause some of it.
    """
    found = make_parts(graph, step, params, isa)
    each = [_part_cost(graph, part, isa) for part in found]
    cycles = sum(estimate.cycles for estimate in each)
    between = [graph.types[p.step.output] for p in found[:-1]]
    rows = link_rows(found, int(params["rows"]))
    pitches = [t.bytes // (t.shape[0] * t.shape[1]) for t in between]
    room = sum(pitch * n for pitch, n in zip(pitches, rows, strict=True))
    stored = sum(
        max(stored_cycles(isa, t.bytes) - passed_cycles(isa, t.bytes, room), 0.0) for t in between
    )
    calls = len(found) * graph.types[step.output].shape[1] / int(params["rows"])
    code = sum(estimate.code_bytes for estimate in each)
    return Estimate(cycles + 20.0 * calls - max(stored - cycles / 2.0, 0.0), code)


def _part_cost(graph: Graph, part: ChainPart, isa: Isa) -> Estimate:
    """Cached, because the same part occurs in many chains."""
    schedule, step, params = part.schedule, part.step, part.params
    key = ("cost", schedule.id, *params.items())
    return graph.once(key, (step, isa), lambda: schedule.cost(graph, step, params, isa))
