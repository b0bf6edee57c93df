"""Convolution of small images, with all output positions in the lanes of one vector.

Lane p of a tap's vector is the input that output p multiplies by that tap, or zero in the padding;
`cannery.ops.shared.shuffles` makes these vectors from the input's planes. So no halo is needed, and
narrow rows waste no lanes. Weights are broadcast. With at most four positions, lanes are positions
x 4 output channels.

A pooling after it with adjacent windows keeps its positions in the lanes: each of its taps is a
separate tile of sums, and their maximum or mean takes no shuffle (see
`cannery.ops.chains.pooled_plane`).

`n`: vectors of sums per tap of the pooling. `parts`: into how many partial sums each sum is split,
to hide latency where there are few sums. `unroll`: kh (the window in line) or kw (a loop over its
rows).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from cannery.ctext.environment import render
from cannery.ir.graph import Graph, Node
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_dense
from cannery.ops.conv.panels import Panels, bias_array
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.ops.shared.shuffles import ZERO, Pick, Places, ShufflePlan, plan
from cannery.schedule.cost import busy_cycles, mac_bytes
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Lanes of the vectors that `f32x16_pick` takes.
LANES = 16

#: Registers that the longest input plane may take.
MAX_REGISTERS = 16

#: If positions leave more lanes idle than this, other schedules are better.
MOST_IDLE = 4

#: How many sums hide the latency of a multiply-accumulate, and how many fit in registers with the
#: inputs.
LEAST_SUMS, MOST_SUMS = 8, 24

#: Most multiply-accumulates in line.
MAX_UNROLLED = 1500


@dataclass(frozen=True)
class Value:
    """Vector `number`: `valid` lanes of the input plane, or a pick; `cells` are its contents."""

    number: int
    cells: tuple[int, ...]
    valid: int = 0
    pick: Pick | None = None


@dataclass(frozen=True)
class Tap:
    """Tap `number` of the window: pairs of a sum (a tap of the pooling) and the cell that it reads.

    It is added to the sums' part `part`; `new` are the vectors that no earlier tap needs.
    """

    number: int
    part: int
    cells: tuple[tuple[int, int], ...]
    new: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Plane:
    """The sizes: `pool` are the pooling's window and stride, `oh` and `ow` the size after it.

    `row` is the input's row pitch.
    """

    conv: ConvShape
    pool: tuple[int, int]
    oh: int
    ow: int
    row: int

    @property
    def positions(self) -> int:
        return self.oh * self.ow

    @property
    def group(self) -> int:
        """Output channels in the lanes of one vector."""
        return 4 if self.positions <= LANES // 4 else 1

    @property
    def span(self) -> int:
        """Elements of an input plane."""
        return (self.conv.ih - 1) * self.row + self.conv.iw

    @property
    def registers(self) -> int:
        """Vectors of an input plane."""
        return -(-self.span // LANES)

    def why_not(self) -> str:
        """Why no such kernel exists; empty if one does."""
        filled = self.positions * self.group
        if not LANES - MOST_IDLE <= filled <= LANES:
            return "output positions do not fill a vector"
        if self.conv.taps * self.sums > MAX_UNROLLED:
            return "large window"
        return "" if self.registers <= MAX_REGISTERS else "large input"

    def places(self, dy: int, dx: int) -> Places:
        """The inputs at the windows' cells (dy, dx), lane by lane."""
        s, found = self.conv, []
        for position in range(self.positions):
            y = position // self.ow * self.pool[0] * s.sh + dy - s.top
            x = position % self.ow * self.pool[1] * s.sw + dx - s.left
            inside = 0 <= y < s.ih and 0 <= x < s.iw
            found += [y * self.row + x if inside else None] * self.group
        return (*found, *[None] * (LANES - len(found)))

    @cached_property
    def cells(self) -> dict[tuple[int, int], int]:
        """The cells through which any window of the pooling sees an input, numbered."""
        s = self.conv
        rows = {py * s.sh + kh * s.dh for py in range(self.pool[0]) for kh in range(s.kh)}
        cols = {px * s.sw + kw * s.dw for px in range(self.pool[1]) for kw in range(s.kw)}
        cells = [(dy, dx) for dy in sorted(rows) for dx in sorted(cols)]
        seen = [cell for cell in cells if any(p is not None for p in self.places(*cell))]
        return {cell: number for number, cell in enumerate(seen)}

    @cached_property
    def plan(self) -> ShufflePlan:
        """How the vectors of the cells are made."""
        return _plan(self)

    @cached_property
    def needed(self) -> list[Value]:
        """The vectors that the cells are made from, including their own."""
        return self._needed(sorted(self.plan.targets), set())

    @property
    def sums(self) -> int:
        """Tiles of sums: the taps of the pooling."""
        return self.pool[0] * self.pool[1]

    @cached_property
    def values(self) -> list[Value]:
        """All vectors, in an order in which they can be built."""
        cells: dict[int, tuple[int, ...]] = {}
        for cell, number in enumerate(self.plan.targets):
            cells[number] = (*cells.get(number, ()), cell)
        found = [
            Value(k, cells.get(k, ()), min(LANES, self.span - k * LANES))
            for k in range(self.registers)
        ]
        picks = enumerate(self.plan.picks, self.registers)
        return found + [Value(k, cells.get(k, ()), pick=pick) for k, pick in picks]

    def taps(self, parts: int) -> list[Tap]:
        """The window's taps; row kh is summed in part kh % parts."""
        s, found = self.conv, []
        made: set[int] = set()
        for number in range(s.taps):
            kh, kw = divmod(number, s.kw)
            cells: list[tuple[int, int]] = []
            for k in range(self.sums):
                py, px = divmod(k, self.pool[1])
                place = py * s.sh + kh * s.dh, px * s.sw + kw * s.dw
                if place in self.cells:
                    cells.append((k, self.cells[place]))
            new = self._needed([self.plan.targets[cell] for _, cell in cells], made)
            if cells:
                found.append(Tap(number, kh % parts, tuple(cells), tuple(new)))
        return found

    @property
    def row_step(self) -> int:
        """Distance from the cells of one window row to those of the next; 0 if it varies."""
        s = self.conv
        rows, cols = (sorted({cell[axis] for cell in self.cells}) for axis in (0, 1))
        wanted = {py * s.sh + kh * s.dh for py in range(self.pool[0]) for kh in range(s.kh)}
        even = len(self.cells) == len(rows) * len(cols) and wanted == set(rows)
        steps = {
            rows.index(py * s.sh + kh * s.dh + s.dh) - rows.index(py * s.sh + kh * s.dh)
            for py in range(self.pool[0])
            for kh in range(s.kh - 1)
            if even
        }
        return steps.pop() * len(cols) if len(steps) == 1 else 0

    def _needed(self, wanted: Iterable[int], made: set[int]) -> list[Value]:
        """The vectors needed to build the wanted ones, including these, except those built earlier.
        Adds them to the built ones. Each comes right before it is needed, so that few are alive at
        once.
        """
        found: list[Value] = []

        def visit(number: int) -> None:
            if number == ZERO or number in made:
                return
            made.add(number)
            if pick := self.values[number].pick:
                visit(pick.a)
                visit(pick.b)
            found.append(self.values[number])

        for number in wanted:
            visit(number)
        return found


@lru_cache
def _plan(plane: Plane) -> ShufflePlan:
    """Cached, because all candidates of a step share it."""
    return plan(plane.registers, LANES, [plane.places(*cell) for cell in plane.cells])


@dataclass(frozen=True)
class Behind:
    """What happens to the sums: the convolution's epilogue, then the pooling: the word that `join`s
    its taps, the factor of the result (or empty) and its own epilogue. With `late`, the first
    epilogue comes after the join.
    """

    epilogue: epilogues.Epilogue
    late: bool = False
    join: str = ""
    scale: str = ""
    pooled: epilogues.Epilogue | None = None

    @property
    def epilogues(self) -> tuple[epilogues.Epilogue, ...]:
        return (self.epilogue, self.pooled) if self.pooled else (self.epilogue,)


@dataclass(frozen=True)
class Tunables:
    """`n` vectors of sums of outputs, each in `parts` parts; else see the module docstring."""

    n: int
    parts: int
    unroll: str


@dataclass(frozen=True)
class PlaneSchedule(Schedule):
    """What the convolution has in common with and without a pooling after it."""

    @abstractmethod
    def plane(self, graph: Graph, step: Step) -> Plane:
        """The sizes of a step whose parts fit, its input without a halo."""

    @abstractmethod
    def behind(self, job: Job) -> Behind:
        """What happens to the sums."""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        plane = self.plane(graph, step)
        vectors = -(-plane.conv.oc // plane.group)
        found: list[Tunables] = []
        for most in (MOST_SUMS, 2 * LEAST_SUMS, LEAST_SUMS):
            n = even_size(vectors, min(max(most // plane.sums, 1), vectors))
            parts = min(plane.conv.kh, -(-LEAST_SUMS // (n * plane.sums)))
            p = Tunables(n, parts, "kh")
            if plane.conv.taps * plane.sums * n <= MAX_UNROLLED:
                found.append(p)
            if _stored(plane, p) and parts == 1 and plane.row_step:
                found.append(replace(p, unroll="kw"))
        return [as_params(p) for p in dict.fromkeys(found or [Tunables(1, 1, "kh")])]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(planar.ORDER),)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(planar.ORDER if self.plane(graph, step).group == 1 else nhwc.ORDER),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p = typed(Tunables, params)
        plane, parts, core = self.plane(graph, step), p.parts, isa.rates(LANES)
        blocks, stored = _panels(plane, p).blocks, _stored(plane, p)
        taps = plane.taps(parts)
        picks, channels = len(plane.plan.picks), plane.conv.ic
        products = sum(len(tap.cells) for tap in taps)
        cycles = core.latency * 5.0
        if stored:
            cycles += channels * max(float(picks), len(plane.cells) / core.stores)
        for block in blocks:
            n = block.n // plane.group
            arithmetic = products * n + (0 if stored else picks)
            loads = len(taps) * n + (products if stored else picks)
            busy = channels * busy_cycles(isa, arithmetic, loads, lanes=LANES, macs=products * n)
            chain = core.latency * channels * products / (plane.sums * parts)
            cycles += block.count * (max(busy, chain) + 2.0 * n * (plane.sums + parts))
        lines = products * sum(block.n for block in blocks) / plane.group
        if p.unroll == "kw":
            lines /= plane.conv.kh
            cycles += 2.0 * channels * plane.conv.kh
        code = 16.0 * picks + 8.0 * len(plane.cells) + mac_bytes(isa) * lines
        return Estimate(cycles, code)

    def kernel(self, job: Job) -> Kernel:
        p = typed(Tunables, job.params)
        x, y = job.inputs[0], job.output
        plane = replace(self.plane(job.graph, job.step), row=x.row)
        panels, behind = _panels(plane, p), self.behind(job)
        stored = _stored(plane, p)
        in_line = p.unroll == "kh"
        taps = plane.taps(p.parts)
        code = render(
            "ops/conv/plane.c.j2",
            s=plane.conv,
            plane=plane,
            x=x,
            y=y,
            lanes=LANES,
            zero=ZERO,
            stored=stored,
            taps=[tap for tap in taps if in_line or tap.number < plane.conv.kw],
            in_line=in_line,
            panels=panels,
            parts=p.parts,
            word="load1" if plane.group == 1 else f"broadcast{plane.group}",
            behind=behind,
            vec=Vec(0, LANES, LANES, 0),
            rows=_rows(plane, y, job.isa),
            symbol=job.symbol,
            signature=signature(job, scratch=stored),
            describe=describe(job),
        )
        constants = [*_constants(job, plane, panels)]
        constants += [c for ep in behind.epilogues for c in ep.constants]
        scratch = 4 * LANES * len(plane.cells) * plane.conv.ic if stored else 0
        needs_math = any(ep.needs_math for ep in behind.epilogues)
        return Kernel(code, tuple(constants), scratch, needs_math=needs_math)


@schedule
@dataclass(frozen=True)
class ConvPlane(PlaneSchedule):
    """See the module docstring."""

    id = "conv.plane"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if LANES not in isa.lanes:
            return f"no vectors of {LANES} lanes"
        if reason := why_not_dense(graph, step) or self.plane(graph, step).why_not():
            return reason
        plane = self.plane(graph, step)
        return why_not_epilogue(graph, step.epilogue, step.anchor.output, plane.group)

    def plane(self, graph: Graph, step: Step) -> Plane:
        shape = sizes(graph, step)
        return Plane(shape, (1, 1), shape.oh, shape.ow, shape.iw)

    def behind(self, job: Job) -> Behind:
        return Behind(epilogues.build(job, job.step.anchor.output))


def why_not_epilogue(graph: Graph, nodes: Sequence[Node], running: str, group: int) -> str:
    """Why vectors of this many channels cannot have this epilogue after the value `running`."""
    for node in nodes:
        for value in node.inputs:
            kind = epilogues.constant_kind(graph, value, graph.types[running].shape)
            if value != running and kind != "scalar" and (kind != "channel" or group > 1):
                return "an epilogue that reads more than numbers"
        running = node.output
    return ""


def _panels(plane: Plane, p: Tunables) -> Panels:
    """Weights by blocks of n vectors of channels; the last vector may be padded."""
    channels = -(-plane.conv.oc // plane.group) * plane.group
    k = plane.conv.ic * plane.conv.taps
    return Panels(channels, p.n * plane.group, k, "load1", LANES)


def _stored(plane: Plane, p: Tunables) -> bool:
    """Whether the cells' vectors go through memory, because several blocks of channels read
    them.
    """
    return sum(block.count for block in _panels(plane, p).blocks) > 1


def _rows(plane: Plane, y: Layout, isa: Isa) -> list[tuple[int, Vec]]:
    """How the positions of one channel are stored: offsets in the output, and their lanes.

    Empty if the lanes hold more than one channel.
    """
    if plane.group > 1:
        return []
    if y.row == plane.ow:
        return [(0, Vec(0, LANES, plane.positions, 0))]
    return [
        (row * y.row + vec.start, replace(vec, start=row * plane.ow + vec.start))
        for row in range(plane.oh)
        for vec in split_lanes(plane.ow, isa, partial=False)
    ]


def _constants(job: Job, plane: Plane, panels: Panels) -> tuple[ConstArray, ...]:
    """Weights as [block][ic][kh][kw][n], biases, and the lanes of the picks if there are any."""
    s = plane.conv
    weights = np.zeros((panels.k, panels.channels), np.float32)
    weights[:, : s.oc] = job.constant(s.weight).transpose(2, 0, 1, 3).reshape(panels.k, s.oc)
    bias = np.zeros(panels.channels, np.float32)
    if s.bias:
        bias[: s.oc] = job.constant(s.bias)
    found = (
        ConstArray(f"{job.symbol}_w", panels.pack(weights), "weights [block][ic][kh][kw][oc]"),
        bias_array(job.symbol, bias, panels.channels),
    )
    picks = np.array([pick.lanes for pick in plane.plan.picks], np.int32).reshape(-1)
    return (
        (*found, ConstArray(f"{job.symbol}_p", picks, "lanes [pick][16]")) if len(picks) else found
    )
