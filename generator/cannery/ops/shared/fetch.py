"""For templates: prefetches weights while others are multiplied; see `schedule/ahead.py`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.schedule.ahead import LINE
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class Fetch:
    """What a kernel prefetches, beginning at byte `start` of `array`.

    That is after its own weights, or after those that a panel's tiles multiply. Each tile of
    accumulators prefetches `per_tile` cache lines, and each iteration of the loop over its
    reduction `per_pass` more.
    """

    array: str
    start: int
    per_tile: int
    per_pass: int

    @staticmethod
    def of(job: Job, weights: ConstArray, tiles: int, passes: int) -> Fetch | None:
        """None if the job asks for nothing. `tiles`: of an image; `passes`: iterations of the loop
        in each.
        """
        if not job.ahead:
            return None
        size = weights.values.nbytes // (2 if job.stores_halves else 1)
        return Fetch.spread(weights.name, size, job.ahead, tiles, passes)

    @staticmethod
    def spread(array: str, start: int, size: int, tiles: int, passes: int) -> Fetch:
        """`size` bytes, some with each of the `tiles` and with each of the passes in it."""
        lines = -(-size // LINE // tiles)
        per_pass = lines // passes if passes else 0
        return Fetch(array, start, lines - per_pass * passes, per_pass)
