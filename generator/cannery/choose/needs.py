"""How much memory each option of a segment needs while it runs, at least.

What is counted is alive whatever else is chosen: the values that later steps read, what the option
itself reads and writes with the halos it asks for, and its scratch memory. So the sums bound every
plan of these options from below, and they are near what plans take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from cannery.choose.plan import Option, Plan, Segment, same_memory
from cannery.ir.graph import Graph
from cannery.layouts import Want, image_dims
from cannery.lowering.assign import interface_order, make_layout
from cannery.lowering.memory_plan import align
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Reshape, Slice
from cannery.schedule.program import Choice
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Needs:
    """`segments` and their `options`; `io_order` is the order of images in the caller's memory."""

    graph: Graph
    segments: Sequence[Segment]
    options: Sequence[Sequence[Option]]
    isa: Isa
    io_order: str
    _learned: dict[tuple[int, str], int] = field(default_factory=dict)

    def of(self, index: int, option: Option) -> int:
        """Bytes that are alive while a segment runs this way."""
        segment, step, choice = self.segments[index], self.segments[index].step, option.choice
        wants = choice.schedule.reads(self.graph, step, choice.params, self.isa)
        own = dict.fromkeys((*step.inputs, *step.outputs), 0)
        for value, want in zip(step.inputs, wants, strict=True):
            own[value] = max(own[value], self._read_bytes(value, want))
        for value in step.outputs:
            own[value] = self._bytes.get(value, 0)
        if step.inputs and choice.schedule.in_place(step):
            first, (output, *_) = step.inputs[0], step.outputs
            if self._last.get(first, 0) <= segment.end:
                own[output] = max(own[output] - self._bytes.get(first, 0), 0)
        scratch = choice.schedule.scratch_bytes(self.graph, step, choice.params, self.isa)
        return sum(map(align, own.values())) + align(scratch) + self._crossing(segment, own)

    def peak(self, plan: Plan) -> int:
        """The largest need of a plan's segments, as far as it is known."""
        found = [
            need
            for k, choice in plan.picks
            for option, need in zip(self.options[k], self._known(k), strict=True)
            if option.choice is choice
        ]
        return max(found, default=0)

    def within(self, limit: float) -> list[list[Option]]:
        """The options that need no more than a limit, as far as that is known."""
        return [
            [option for option, need in zip(found, self._known(k), strict=True) if need <= limit]
            for k, found in enumerate(self.options)
        ]

    def learn(self, index: int, choice: Choice, scratch: int) -> None:
        """Take into account how much scratch memory the kernel of a choice has turned out to take.

        Other candidates of its schedule are expected to take as much more than they say; not those
        of chains computed depth first, whose parts may be computed in other ways.
        """
        step = self.segments[index].step
        said = choice.schedule.scratch_bytes(self.graph, step, choice.params, self.isa)
        place = _place(index, choice)
        more = align(scratch) - align(said)
        self._learned[place] = max(more, self._learned.get(place, 0))

    @property
    def lowest(self) -> int:
        """The least need at the peak of any plan, with all that was learned."""
        return self._bottleneck([self._known(k) for k in range(len(self.options))])

    @cached_property
    def least(self) -> int:
        """The least that any plan of these options needs at its peak: a bound that is proved."""
        return self._bottleneck(self.every)

    def _known(self, index: int) -> list[int]:
        learned = (_place(index, option.choice) for option in self.options[index])
        more = (self._learned.get(place, 0) for place in learned)
        return [need + extra for need, extra in zip(self.every[index], more, strict=True)]

    @cached_property
    def every(self) -> list[list[int]]:
        """Of each option of each segment."""
        return [[self.of(k, o) for o in found] for k, found in enumerate(self.options)]

    def _bottleneck(self, every: Sequence[Sequence[int]]) -> int:
        """The least peak of any cut into segments, if options need this much."""
        length = max((segment.end for segment in self.segments), default=0)
        best: list[float] = [0.0, *[inf] * length]
        for k in sorted(range(len(self.segments)), key=lambda k: self.segments[k].first):
            segment = self.segments[k]
            peak = max(best[segment.first], min(every[k], default=inf))
            best[segment.end] = min(best[segment.end], peak)
        return 0 if best[length] == inf else int(best[length])

    def _crossing(self, segment: Segment, own: dict[str, int]) -> int:
        """Bytes of the values that exist before a segment and are read later, maybe through a
        view.
        """
        return sum(
            align(size)
            for value, size in self._bytes.items()
            if value not in own and self._made[value] <= segment.first < self._last[value]
        )

    def _read_bytes(self, value: str, want: Want) -> int:
        """Bytes of a value in the workspace with the halo that a reader wants; none if the reader
        takes it from the caller's memory, or through a view.
        """
        type_ = self.graph.types[value]
        plain = not want.halo and not want.slack
        if value in self.graph.inputs:
            order = interface_order(self.graph, value, self.io_order)
            if plain and (want.order == order or same_memory(self.graph, value, want.order, order)):
                return 0
        elif value not in self._bytes:
            return 0
        return image_dims(type_)[0] * make_layout(type_, want).bytes

    @cached_property
    def _made(self) -> dict[str, int]:
        """Where each value of the finest cut exists from."""
        return {v: s.end for s in self._singles for v in s.step.outputs}

    @cached_property
    def _last(self) -> dict[str, int]:
        """Where each value is read for the last time, itself or as a part of a view."""
        last = {v: s.end for s in self._singles for v in s.step.inputs}
        for segment in reversed(self._singles):
            if isinstance(segment.step.anchor.op, Reshape | Concat):
                for value in segment.step.inputs:
                    ends = [last.get(v, 0) for v in segment.step.outputs]
                    last[value] = max(last[value], *ends)
        return last

    @cached_property
    def _bytes(self) -> dict[str, int]:
        """Bytes of the values that steps pass to steps, without halos.

        None for views of others, and for outputs and their parts, which may lie in the caller's
        memory.
        """
        outside = set(self.graph.outputs)
        found: dict[str, int] = {}
        for segment in reversed(self._singles):
            step = segment.step
            if may_be_view(step.anchor.op):
                outside.update(step.inputs if outside.intersection(step.outputs) else ())
                continue
            sizes = {v: self.graph.types[v].bytes for v in step.outputs if v in self._last}
            found.update((v, size) for v, size in sizes.items() if v not in outside)
        return found

    @cached_property
    def _singles(self) -> list[Segment]:
        return [segment for segment in self.segments if not segment.step.parts]


def may_be_view(op: object) -> bool:
    """Whether the result may lie in the memory of what it is made of."""
    return isinstance(op, Reshape | Concat | Slice)


def _place(index: int, choice: Choice) -> tuple[int, str]:
    """What shares what is learned of scratch memory."""
    return index, str(choice) if choice.schedule.depth_first else choice.schedule.id
