"""How a tuning's time is divided, and what there was no time for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cannery.choose.plan import Plan, Segment
from cannery.deadline import now

#: How many names a note lists.
SHOWN_NAMES = 6

#: The least seconds that comparing whole networks takes, and its ratio to preparation: both grow
#: with the network, and on a busy machine.
CONFIRM_SECONDS = 8.0
CONFIRM_FACTOR = 4.0
#: A budget in which small networks measure something, even on a busy machine.
LEAST_SECONDS = 30.0
#: The largest share of the remaining time that is kept for it.
CONFIRM_SHARE = 0.5


@dataclass
class Budget:
    """This many seconds of wall time from `started`, by `deadline.now`; None: unlimited.

    `missed` are the stages for which there was no time, for people. `prepared` is when measuring
    began (None: there was no time for it).
    """

    seconds: float | None
    started: float = field(default_factory=now)
    missed: list[str] = field(default_factory=list)
    prepared: float | None = None

    @property
    def end(self) -> float:
        """When everything must be finished."""
        return math.inf if self.seconds is None else self.started + self.seconds

    def search_end(self, prepared_in: float) -> float:
        """When to stop measuring candidates: whole networks need time too."""
        left = self.end - now()
        if math.isinf(left):
            return left
        kept = min(CONFIRM_SECONDS + CONFIRM_FACTOR * prepared_in, CONFIRM_SHARE * left)
        return self.end - kept

    @property
    def enough(self) -> float:
        """Seconds, in tens, that should suffice to measure something, based on the preparation
        time.
        """
        before = (now() if self.prepared is None else self.prepared) - self.started
        wanted = max(LEAST_SECONDS, 2.0 * (self.seconds or 0.0), CONFIRM_FACTOR * before)
        return 10.0 * math.ceil(wanted / 10.0)

    def idle_note(self, *, kept: bool) -> str:
        """The message if nothing was measured; `kept`: there is an earlier record."""
        record = "the earlier record stays as it is" if kept else "no record is written"
        return f"nothing was measured, so {record}; give --budget {self.enough:.0f} or more"

    def notes(self, untried: Sequence[str], partly: Sequence[str]) -> list[str]:
        """What there was not enough time for, one line each."""
        lines = []
        for names, how in ((untried, "nothing"), (partly, "only a part")):
            if names:
                more = len(names) - SHOWN_NAMES
                listed = ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
                lines.append(f"within {self.seconds:g} s {how} was tried for {listed}")
        if self.missed:
            lines.append(
                f"within {self.seconds:g} s there was no time for {', '.join(self.missed)}"
            )
        return lines


def segment_names(
    segments: Sequence[Segment], wanted: Sequence[int], plan: Plan
) -> tuple[str, ...]:
    """The segments `wanted`, in the order of the network.

    A step of the plan goes by its name, others by names that cannot be confused with it.
    """
    picked = {k for k, _ in plan.picks}
    names = []
    for k in sorted(wanted, key=lambda k: (segments[k].first, segments[k].end)):
        step = segments[k].step
        name = step.name
        if step.parts:
            name = f"{step.name} to {step.parts[-1].name} in one"
        elif picked and k not in picked:
            name = f"{step.name} by itself"
        names.append(name)
    return tuple(dict.fromkeys(names))
