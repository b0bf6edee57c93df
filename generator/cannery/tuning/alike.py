"""Several devices of a kind: how their times compare, by a candidate that all of them run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from cannery.deadline import check_time
from cannery.errors import warn
from cannery.measure.build import Built
from cannery.measure.measure import Protocol, alone, measure
from cannery.target.runner import Runner

#: Factor between the times of two devices that is worth a word.
UNLIKE = 1.25


def time_scales(
    built: Built, runners: Sequence[Runner], protocol: Protocol, reference: int
) -> list[float]:
    """What to multiply the times of each runner by, so that they are the first one's.

    `reference` is the number of the candidate by which that is found. Raises ToolchainError,
    OutOfTimeError.
    """
    where = ["--from", str(reference), "--to", str(reference + 1)]

    def one(runner: Runner) -> float:
        with alone(runner):
            check_time()
            (timing,) = measure(built, runner, protocol, where).values()
        return timing.us

    with ThreadPoolExecutor(len(runners)) as pool:
        # Threads have contexts, and so deadlines, of their own.
        jobs = [pool.submit(copy_context().run, one, runner) for runner in runners]
        times = [job.result() for job in jobs]
    scales = [times[0] / us if us and times[0] else 1.0 for us in times]
    for runner, scale in zip(runners, scales, strict=True):
        if not 1 / UNLIKE <= scale <= UNLIKE:
            text = (
                f"{runner.name} takes {1 / scale:.2f} times as long as {runners[0].name}; "
                "its times are scaled"
            )
            warn(text)
    return scales
