"""Prefetching of the weights of following steps, for templates; see `cannery.schedule.ahead`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.schedule.ahead import LINE
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class Fetch:
    """What a kernel prefetches behind its own weights (`array`, which end at byte `start`).

    `per_tile` cache lines with each tile of accumulators, `per_pass` more with each pass of the
    loop over its reduction.
    """

    array: str
    start: int
    per_tile: int
    per_pass: int

    @staticmethod
    def of(job: Job, weights: ConstArray, tiles: int, passes: int) -> Fetch | None:
        """None if the job asks for nothing. `tiles`: of an image; `passes` of the loop in each."""
        if not job.ahead:
            return None
        lines = -(-job.ahead // LINE // tiles)
        per_pass = lines // passes if passes else 0
        return Fetch(weights.name, weights.values.nbytes, lines - per_pass * passes, per_pass)
