"""What is known about a network before anything is measured, and what could be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.choose.defaults import Defaults
from cannery.choose.plan import (
    Option,
    Plan,
    Segment,
    make_option,
    make_segments,
)
from cannery.choose.recheck import Emulates
from cannery.choose.signature import step_kind
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ir.tensor import TensorType
from cannery.measure.trial import random_inputs
from cannery.options import Options
from cannery.pipeline import defaults_of
from cannery.schedule.cost import reorder_cycles
from cannery.schedule.schedule import MATH
from cannery.target.isa import Isa
from cannery.tuning.contests import (
    ContestMaker,
    Prospect,
    Ranked,
    group,
    is_view,
    needed_reorders,
    rank,
)

#: A change of order: the type of the value, from, to.
Reorder = tuple[TensorType, str, str]


@dataclass(frozen=True)
class Prepared:
    """The values that the references compute, each segment's candidates ranked by the cost model,
    the changes of order that some plan may contain, and the plan that an untuned compile would
    choose.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    values: Mapping[str, RefArray]
    estimates: Mapping[int, Sequence[Ranked]]
    reorders: Sequence[Reorder]
    defaults: Defaults
    default: Plan

    def step_prospects(
        self, maker: ContestMaker, candidates: Callable[[float], int]
    ) -> Iterator[Prospect]:
        """The contest of each kind of step that computes something, keyed by its segments.

        `candidates` says how many a step deserves by its share of the estimated time.
        """
        best = {k: min((r.cycles for r in f), default=0.0) for k, f in self.estimates.items()}
        total = (
            sum(best[k] for k, segment in enumerate(self.segments) if not segment.step.parts) or 1.0
        )
        for indices in group(self.graph, self.segments).values():
            ranked = self.estimates[indices[0]]
            least = [r.cycles for r in ranked if not is_view(r.choice.schedule)]
            if not least:
                continue
            limit = candidates(sum(best[k] for k in indices) / total)
            yield Prospect(
                tuple(indices), self.segments[indices[0]].step.name, tuple(indices),
                min(least) * len(indices),
                lambda i=indices, n=limit, r=ranked: maker.step_contest(i, n, r),  # type: ignore[misc]
            )  # fmt: skip

    def reorder_prospects(self, maker: ContestMaker) -> Iterator[Prospect]:
        """The contest of every change of order, keyed by it."""
        for key in self.reorders:
            type_, source, target = key
            cycles = reorder_cycles(maker.isa, type_.elements)
            yield Prospect(
                key, f"{source} to {target}", (), cycles,
                lambda k=key: maker.reorder_contest(*k),  # type: ignore[misc]
            )  # fmt: skip


def tuned_segments(graph: Graph, isa: Isa, options: Options) -> tuple[Segment, ...]:
    """The segments that are tuned: of the chains that only save memory, those of the untuned
    network.

    Raises OptionError for a bound that no plan keeps.
    """
    if options.max_ram is None:
        return make_segments(graph)
    segments = make_segments(graph, depth_first=True)
    taken = {k for k, _ in defaults_of(graph, segments, isa, options).plan().picks}
    return tuple(s for k, s in enumerate(segments) if k in taken or not s.step.depth_first)


def prepare(
    graph: Graph, segments: Sequence[Segment], isa: Isa, io_order: str, max_error: float,
    max_ram: int | None = None, max_flash: int | None = None,
) -> Prepared:  # fmt: skip
    """Raises OutOfTimeError, UnsupportedError for a step that nothing can compute, and OptionError
    for a bound of memory that no plan keeps.
    """
    with np.errstate(all="ignore"):
        values = evaluate_all(graph, random_inputs(graph))
    estimates = {
        k: rank(graph, segment.step, isa, inexact=True) for k, segment in enumerate(segments)
    }
    kinds: dict[str, list[Option]] = {}
    options = {}
    for k, segment in enumerate(segments):
        kind = step_kind(graph, segment.step)
        if kind not in kinds:
            kinds[kind] = _options(graph, segment, isa, estimates[k])
        options[k] = kinds[kind]
    defaults = Defaults(
        graph, segments, isa, io_order, max_error, options, max_ram=max_ram, max_flash=max_flash
    )
    reorders = tuple(needed_reorders(graph, segments, isa, estimates, io_order))
    return Prepared(graph, segments, isa, values, estimates, reorders, defaults, defaults.plan())


def _options(graph: Graph, segment: Segment, isa: Isa, ranked: Sequence[Ranked]) -> list[Option]:
    """What `estimated_options` finds, inexact ones included."""
    return [
        make_option(graph, segment.step, r.choice, isa, r.cycles)
        for r in ranked
        if MATH not in r.choice.params
        and (not r.choice.inexact or isinstance(r.choice.schedule, Emulates))
    ]
