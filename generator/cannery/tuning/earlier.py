"""The parts of an earlier tuning's record that still count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cannery.choose.plan import Segment
from cannery.choose.record import Entry, Record, better_origin, find_choices, match
from cannery.choose.recorded_device import recorded_device
from cannery.ir.graph import Graph
from cannery.schedule.program import Choice
from cannery.target.device import Device
from cannery.target.isa import Isa
from cannery.target.runner import Origin


@dataclass(frozen=True)
class Earlier:
    """The choices of a record (None: there is none) for the segments of a graph."""

    path: Path
    record: Record | None
    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    max_error: float

    @cached_property
    def choices(self) -> dict[int, Choice]:
        """The record's choices that are still possible, by segment."""
        if self.record is None:
            return {}
        found = find_choices(
            self.path, self.record, self.graph, self.segments, self.isa, self.max_error
        )
        return dict(found.choices)

    def better(self, origin: Origin) -> dict[int, Choice]:
        """Choices measured on something better than what is available now."""
        found = self._chosen(lambda _, entry: better_origin(entry, origin))
        return {k: choice for k, choice in found.items() if choice.us is not None}

    def untouched(self, device: Device | None, segments: Collection[int]) -> dict[int, Choice]:
        """Choices for `segments` that were not tried now, if they come from the same device."""
        there = self.record.device if self.record else None
        if device is None or recorded_device(device, there) != there:
            return {}
        return self._chosen(lambda k, _: k in segments)

    def _chosen(self, wanted: Callable[[int, Entry], bool]) -> dict[int, Choice]:
        if self.record is None:
            return {}
        entries = match(self.record, self.graph, self.segments)
        return {
            k: replace(choice, origin=entry.origin)
            for k, choice in self.choices.items()
            if (entry := entries[k]) is not None and wanted(k, entry)
        }
