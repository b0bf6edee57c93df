"""Schedules that compute nothing."""

from __future__ import annotations

from cannery.ops.concat.view import ConcatView
from cannery.ops.movement.part import MovementPart
from cannery.ops.movement.reshape import MovementReshape
from cannery.schedule.schedule import Schedule

#: Schedules without code: the memory plan does their work.
VIEWS = (ConcatView, MovementPart, MovementReshape)


def is_view(schedule: Schedule) -> bool:
    """Whether a schedule computes nothing."""
    return isinstance(schedule, VIEWS)
