"""Loops that MAX_TRIPS ends although they would go on: an output says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: The output that is true where a loop was cut short, by default.
UNFINISHED = "unfinished"


@dataclass
class Unfinished:
    """Names of conditions. Those of `taken`, with what they have to be, say whether the branches
    and iterations that are being read take place; each of `loops` is true where a loop would go on
    after its last iteration.
    """

    taken: list[tuple[str, bool]] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)

    @contextmanager
    def within(self, condition: str, holds: bool = True) -> Iterator[None]:
        """What is read takes place only where a condition holds, or does not; the empty name always
        does.
        """
        before = len(self.taken)
        self.taken += [(condition, holds)] if condition else []
        try:
            yield
        finally:
            del self.taken[before:]

    def note(self, output: str) -> str:
        """What users of the output should know."""
        return (
            f"{output!r} is true where a loop would have gone on after MAX_TRIPS iterations; the "
            "other outputs are then those after these"
        )
