"""What to choose if nothing was measured: every candidate, ranked by the cost model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

from cannery.choose.bisect import longest
from cannery.choose.bounded import MemoryBounds
from cannery.choose.plan import (
    Option,
    Plan,
    Segment,
    estimated_reorders,
    make_option,
    overlap,
    plans,
)
from cannery.choose.ram import CURVE_STEP, Curve
from cannery.choose.recheck import Emulates, emulated_error, network_error
from cannery.choose.rounding import rounding_error
from cannery.choose.signature import step_kind
from cannery.choose.size import SizeBound
from cannery.errors import OptionError, RecordError, warn
from cannery.ir.graph import Graph
from cannery.schedule.packed import total_cycles
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import estimates, legal
from cannery.target.isa import Isa

#: Networks with more multiply-accumulates are not emulated: that would take longer than compiling
#: them. (For VGG19, 20e9, it takes as long.)
MAX_MACS = 25_000_000_000

#: Networks whose values have more elements are not emulated either: all are in memory then, 8 bytes
#: each.
MAX_ELEMENTS = 2**26


def estimated_options(graph: Graph, step: Step, isa: Isa, *, inexact: bool) -> list[Option]:
    """All candidates of a step with their estimated cost, cheapest first.

    With `inexact`, this includes inexact ones that can be judged without being run.
    """
    options = []
    for schedule in legal(graph, step, isa):
        if schedule.inexact and not (inexact and isinstance(schedule, Emulates)):
            continue
        for params, estimate in estimates(graph, step, isa, schedule):
            cost = total_cycles(graph, step, isa, schedule, params, estimate)
            options.append(make_option(graph, step, Choice(schedule, params), isa, cost))
    return sorted(options, key=lambda option: option.cost)


@dataclass(frozen=True)
class Defaults:
    """Plans if nothing, or not everything, was measured. `io_order` is the order of images outside.

    `ranked` are the options of each segment, cheapest first, as `estimated_options` finds them with
    `inexact`, if already known. `max_size` bounds the constants, in multiples of the graph's,
    `max_ram` the bytes of workspace and state, `max_flash` those of code and constants; `views` are
    the inputs that are regions of images. `locked`: what was measured must keep the bound.
    `known_sizes` are those that `FlashBound` has found.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    io_order: str
    max_error: float
    ranked: Mapping[int, Sequence[Option]] | None = None
    max_size: float | None = None
    max_ram: int | None = None
    max_flash: int | None = None
    views: Collection[str] = ()
    locked: bool = False
    known_sizes: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)

    @property
    def bounds(self) -> MemoryBounds:
        """Those of RAM and flash."""
        return MemoryBounds(
            self.graph, self.segments, self.isa, self.io_order, self.max_ram, self.max_flash,
            self.views, known_sizes=self.known_sizes,
        )  # fmt: skip

    def plan(self, known: Mapping[int, Choice] | None = None) -> Plan:
        """The plan that the cost model prefers, with `known` choices for some segments.

        It has inexact schedules if the emulated network as a whole keeps half of the bound, or less
        than half if rounding alone takes more than the other half; in half precision as many as do,
        where not all of them. Raises UnsupportedError for a
        step that nothing can compute, OptionError for a bound that no plan keeps, RecordError
        for known choices that do not keep it if `locked`.
        """
        known = known or {}
        if known and self._broken(known):
            known = {}
        best = self._inexact(known) if self._emulable else None
        if best:
            fresh = [k for k, choice in best.picks if k not in known and choice.inexact]
            if not fresh or self._bearable(best):
                return best
            if self.graph.half_layers and (fewer := self._fewer(known, best, fresh)):
                return fewer
        return self._cheapest(known, inexact=())

    def _bearable(self, plan: Plan) -> bool:
        """Whether the inexact schedules of a plan keep their part of the bound."""
        chosen = [(self.segments[k].step, choice) for k, choice in plan.picks]
        room = self._room()
        return room > 0.0 and network_error(self.graph, chosen) <= room

    def _fewer(
        self, known: Mapping[int, Choice], plan: Plan, inexact: Sequence[int]
    ) -> Plan | None:
        """A plan that keeps the bound with some of a plan's `inexact` segments, which are too many;
        None if it would have none.

        Those that lose least per multiply-accumulate come first; bisection says how many.
        """
        choices = dict(plan.picks)

        def loss(k: int) -> float:
            step = self.segments[k].step
            error = emulated_error(self.graph, step, choices[k].schedule)
            return (1.0 if error is None else error) / sqrt(step.macs(self.graph) + 1)

        found: dict[int, Plan] = {}

        def bears(some: Sequence[int]) -> bool:
            found[len(some)] = self._cheapest(known, inexact=some)
            return self._bearable(found[len(some)])

        return found.get(len(longest(sorted(inexact, key=loss), bears)))

    def _broken(self, known: Mapping[int, Choice]) -> bool:
        """Whether known choices break a bound, about which it warns; raises RecordError if
        `locked`.
        """
        if not self.bounds.given:
            return False
        found = self.bounds.broken(replace(self, max_ram=None, max_flash=None).plan(known))
        if found is None:
            return False
        where, what = found[0], f"what was tuned takes more than {found[1]}"
        if self.locked:
            raise RecordError(what, where=where, cure="give more, or leave out --locked")
        warn(f"{what}; the cost model chooses instead")
        return True

    def _inexact(self, known: Mapping[int, Choice]) -> Plan | None:
        """The cheapest plan, maybe with inexact schedules; None if these leave no way to keep
        `max_ram`: they take scratch memory.
        """
        try:
            return self._cheapest(known, inexact=range(len(self.segments)))
        except OptionError:
            if self.max_ram is None:
                raise
            return None

    @property
    def _emulable(self) -> bool:
        """Whether the network is small enough to be run in numpy."""
        steps = [segment.step for segment in self.segments if not segment.step.parts]
        made = [v for step in steps for node in step.nodes for v in node.outputs]
        elements = sum(self.graph.types[v].elements for v in made)
        macs = sum(step.macs(self.graph) for step in steps)
        return macs <= MAX_MACS and elements <= MAX_ELEMENTS

    def _room(self) -> float:
        """What inexact schedules may add to the network's error, beside the rounding."""
        rounding = rounding_error(self.graph, self.max_error) or 0.0
        halves = self.graph.half_weights
        rounding += halves.error if halves else 0.0
        return min(self.max_error / 2, self.max_error - rounding)

    def ram_curve(self) -> Curve:
        """Memory against estimated time, of exact schedules."""
        bounds = replace(self.bounds, max_ram=None)
        bound = replace(bounds.ram, pinned=False, step=CURVE_STEP)
        find = bounds.within_flash(self._small)
        return bound.curve(self._options({}, inexact=()), find)

    def _cheapest(self, known: Mapping[int, Choice], *, inexact: Collection[int]) -> Plan:
        """The cheapest plan; segments that are not `inexact` have exact schedules."""
        options = self._options(known, inexact=inexact)
        if known:  # whose memory is known to fit
            return self._find(options)
        return self.bounds.cheapest(options, self._small)

    def _find(self, options: Sequence[Sequence[Option]]) -> Plan:
        """The cheapest plan of these options."""
        reorder, order = estimated_reorders(self.graph, self.isa), self.io_order
        return plans(self.graph, self.segments, options, reorder=reorder, io_order=order)[0]

    def _small(self, options: Sequence[Sequence[Option]]) -> Plan:
        """The cheapest plan whose constants keep their bound."""
        if self.max_size is None:
            return self._find(options)
        bound = SizeBound(self.graph, self.segments, self.isa, self.max_size)
        return bound.cheapest(options, self._find)

    def _options(
        self, known: Mapping[int, Choice], *, inexact: Collection[int]
    ) -> list[Sequence[Option]]:
        """The options of each segment; segments that overlap known ones have none. Those that are
        not `inexact` have exact schedules.
        """
        kinds: dict[tuple[str, bool], list[Option]] = {}
        found: list[Sequence[Option]] = []
        for index, segment in enumerate(self.segments):
            step, loose = segment.step, index in inexact
            if index in known:
                found.append([make_option(self.graph, step, known[index], self.isa, 0.0)])
            elif any(overlap(segment, self.segments[other]) for other in known):
                found.append([])
            elif self.ranked is not None:
                ranked = self.ranked[index]
                found.append([o for o in ranked if loose or not o.choice.inexact])
            else:
                kind = step_kind(self.graph, step), loose
                if kind not in kinds:
                    kinds[kind] = estimated_options(self.graph, step, self.isa, inexact=loose)
                found.append(kinds[kind])
        return found
