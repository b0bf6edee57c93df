"""What a tuning is asked to do, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cannery.measure.measure import Context
from cannery.schedule.program import Choice, Step
from cannery.target.device import Device
from cannery.target.runner import Origin
from cannery.target.toolchain import Toolchain
from cannery.tuning.estimates import Estimated
from cannery.tuning.optimize import Tried


@dataclass(frozen=True)
class Settings:
    """How hard to try: seconds (None: until done), and whether every candidate is measured.

    The seconds, of wall time, count from `started`, by `deadline.now` (None: from now on).
    `context` is what calls find in the caches; None: as in the existing record, else warm.
    """

    budget: float | None = None
    exhaustive: bool = False
    context: Context | None = None
    started: float | None = None


@dataclass(frozen=True)
class LayerOutcome:
    """One step after tuning: what was tried, best first, and what was chosen.

    `untried`: there was no time to try anything, and the record has no line for it.
    """

    index: int
    step: Step
    macs: int
    tried: tuple[Tried, ...]
    chosen: Choice
    untried: bool = False

    @property
    def margin(self) -> float | None:
        """How much slower the next best candidate of the same layouts is; None if unknown."""
        us = self.chosen.us
        chosen = next((t for t in self.tried if t.label == str(self.chosen)), None)
        if chosen is None:
            return None
        others = [t.us for t in self.tried if t is not chosen and t.us and t.rivals(chosen)]
        return min(others) / us - 1 if us and others else None


@dataclass(frozen=True)
class Outcome:
    """The result. Times are in microseconds, None if not measured.

    `error` is the network's (None: there was no time to run it), `max_error` its bound; `estimated`
    is set if estimates decided. `device` is what ran the programs. `peak_gflops` is 0 if only an
    emulator runs programs. For lack of time, nothing was tried for the steps `untried`, and only
    part for those in `partly`; `missed` are whole stages. `idle`: there was no time to measure
    anything, and no record was written.
    """

    toolchain: Toolchain
    origin: Origin
    peak_gflops: float
    layers: tuple[LayerOutcome, ...]
    before_us: float | None
    after_us: float | None
    error: float | None
    samples: int
    seconds: float
    measured: int
    path: Path
    changed: bool
    notes: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    context: Context = Context.WARM
    estimated: Estimated | None = None
    max_error: float = 1e-4
    device: Device | None = None
    missed: tuple[str, ...] = ()
    idle: bool = False

    @property
    def broken(self) -> bool:
        """Whether the network's error is too large; no record was written then."""
        return self.error is not None and self.error > self.max_error

    @property
    def served(self) -> bool:
        """Whether there is now a record for the network."""
        return not self.broken and (not self.idle or self.path.exists())
