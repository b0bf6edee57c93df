"""The fastest plan whose workspace and state stay below a bound (`MAX_RAM`).

What a plan needs at its peak is the largest need of its segments, because only one runs at a time
(`choose/needs.py`). So options that need more than a limit are left out, and the search for the
fastest plan stays as it is. What a plan really takes is known when buffers have places; while that
is above the bound, the limit falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from cannery.choose.needs import Needs
from cannery.choose.plan import Option, Plan, Segment
from cannery.choose.size import Find
from cannery.emit.making import make_source
from cannery.emit.steps import make_job, step_symbol
from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.lifetimes import Workspace, alive, plan_workspace
from cannery.schedule.program import PlannedStep, Program, Step
from cannery.target.isa import Isa

#: How much the limit falls from plan to plan, at least: to keep a bound, and along a curve.
_STEP, CURVE_STEP = 0.98, 0.9


@dataclass(frozen=True)
class Ram:
    """What a plan takes in bytes: its `workspace`, and all with what is `beside` it, the states."""

    program: Program
    workspace: Workspace
    scratch: tuple[int, ...]
    beside: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.workspace.bytes + self.beside

    def scratch_of(self, steps: Sequence[Step]) -> list[int]:
        """Bytes of scratch memory of these steps; the program has copies beside them."""
        found = {
            planned.step.outputs: size
            for planned, size in zip(self.program.steps, self.scratch, strict=True)
            if planned.step.inputs != planned.step.outputs
        }
        return [found.get(step.outputs, 0) for step in steps]

    @property
    def steps(self) -> list[Step]:
        """Those of the program, copies included."""
        return [planned.step for planned in self.program.steps]

    @property
    def peak(self) -> str:
        """The step at which most bytes are alive, and what they are."""
        k, blocks = max(
            enumerate(alive(self.program, self.workspace, self.scratch)),
            key=lambda each: sum(each[1].values()), default=(0, {}),
        )  # fmt: skip
        largest = sorted(blocks.items(), key=lambda item: (-item[1], item[0]))
        values = ", ".join(f"{name} {size:,}" for name, size in largest[:4])
        name = self.program.steps[k].step.name if self.program.steps else ""
        more = f", {len(largest) - 4} more" if len(largest) > 4 else ""
        return f"at layer {name!r}: {values}{more}"


@dataclass(frozen=True)
class CurvePoint:
    """A plan with the bytes of its workspace and state, and its cost in estimated cycles."""

    bytes: int
    cost: float
    plan: Plan
    ram: Ram


@dataclass(frozen=True)
class Curve:
    """Memory against time: `points` from the fastest plan to the smallest.

    No plan of the steps that were considered takes less than `least` bytes.
    """

    points: tuple[CurvePoint, ...]
    least: int


@dataclass(frozen=True)
class RamBound:
    """Workspace and state of a plan may take `most` bytes.

    `io_order` and `views` are as in `assign`; without `pinned`, no halo has memory of its own.
    `step` is how much the limit falls from plan to plan.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    io_order: str
    most: float = inf
    views: Collection[str] = ()
    pinned: bool = True
    step: float = _STEP
    _scratch: dict[tuple[object, ...], int] = field(default_factory=dict)

    def cheapest(self, options: Sequence[Sequence[Option]], find: Find) -> Plan:
        """The fastest plan found that keeps the bound; raises OptionError if none does."""
        needs = self._needs(options)
        found: list[Ram] = []
        for plan, ram in self._all_smaller(needs, find):
            if ram.bytes <= self.most:
                return plan
            found.append(ram)
        raise _too_small(min(found, key=lambda ram: ram.bytes), needs.least)

    def curve(self, options: Sequence[Sequence[Option]], find: Find) -> Curve:
        """Plans of which none is both faster and smaller than another."""
        needs = self._needs(options)
        points = [
            CurvePoint(ram.bytes, plan.cost, plan, ram)
            for plan, ram in self._all_smaller(needs, find)
        ]
        kept: list[CurvePoint] = []
        for point in sorted(points, key=lambda point: (point.bytes, point.cost)):
            if not kept or point.cost < kept[-1].cost:
                kept.append(point)
        beside = points[0].ram.beside
        return Curve(tuple(reversed(kept)), needs.least + beside)

    def _needs(self, options: Sequence[Sequence[Option]]) -> Needs:
        return Needs(self.graph, self.segments, options, self.isa, self.io_order)

    def _all_smaller(self, needs: Needs, find: Find) -> Iterator[tuple[Plan, Ram]]:
        """The same of all options, then of those with channels last, which need no copies."""
        yield from self.ever_smaller(needs, find)
        yield from self.ever_smaller(self._needs(_channels_last(needs.options)), find)

    def ever_smaller(self, needs: Needs, find: Find) -> Iterator[tuple[Plan, Ram]]:
        """The fastest plan, then those of options that need less and less memory."""
        plan, limit = find(needs.options), self.most
        while True:
            ram = self.ram(plan)
            yield plan, ram
            scratches = ram.scratch_of(plan.steps(self.segments))
            for (k, choice), scratch in zip(plan.picks, scratches, strict=True):
                needs.learn(k, choice, scratch)
            peak, lowest = needs.peak(plan), needs.lowest
            if peak <= limit:
                if limit <= lowest:
                    return
                limit = min(self.step * limit, peak - 1)
            limit = max(limit, lowest)
            plan = find(needs.within(limit))

    def ram(self, plan: Plan) -> Ram:
        """What a plan takes."""
        steps = plan.steps(self.segments)
        program = assign(
            self.graph, steps, plan.choices, self.isa, self.io_order, self.views
        )  # fmt: skip
        scratch = tuple(
            self._scratch_bytes(program, planned, k) for k, planned in enumerate(program.steps)
        )
        beside = states_bytes(program, self.isa)
        most = None if self.most == inf else int(self.most) - beside
        most = most if self.pinned else 0
        return Ram(program, plan_workspace(program, scratch, most=most), scratch, beside)

    def _scratch_bytes(self, program: Program, planned: PlannedStep, k: int) -> int:
        job = make_job(program, planned, self.isa, step_symbol("m", k, planned))
        key = (planned.step.outputs, str(planned.choice), job.inputs, job.outputs)
        if key not in self._scratch:
            self._scratch[key] = planned.choice.schedule.kernel(job).scratch_bytes
        return self._scratch[key]


def _channels_last(options: Sequence[Sequence[Option]]) -> list[list[Option]]:
    """The options that read and write all in this order, for segments that have any."""
    last = [
        [o for o in found if {*(r.order for r in o.reads), *o.writes} <= {nhwc.ORDER}]
        for found in options
    ]
    return [some or list(found) for some, found in zip(last, options, strict=True)]


def states_bytes(program: Program, isa: Isa) -> int:
    """Bytes of memory beside the workspace's buffers: the state, and what a step writes of it."""
    if not program.graph.states and not program.graph.calls:
        return 0
    source = make_source(program, isa, "m", {})
    return source.beside_bytes + source.states.bytes


def workspace_bound(program: Program, isa: Isa, max_ram: int | None) -> int | None:
    """What `max_ram` leaves for the workspace."""
    return None if max_ram is None else max_ram - states_bytes(program, isa)


def _too_small(found: Ram, bound: int) -> OptionError:
    return OptionError(
        f"the least memory found is {found.bytes:,} bytes of workspace and state (no plan of these "
        f"steps takes less than {bound + found.beside:,}), of which are alive {found.peak}",
        where="--max-ram", cure=f"give {found.bytes} or more",
    )  # fmt: skip
