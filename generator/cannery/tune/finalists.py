"""The whole networks among which the end decides: each exact enough, the fastest wins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cannery.execution.program import NetworkProgram
from cannery.tune.confirm import Judge
from cannery.tune.measure import TIE
from cannery.tune.optimize import Optimizer, plan_text
from cannery.tune.plan import Plan

#: How often a network's errors are mended before its error is taken as it is.
MAX_REPAIRS = 12


@dataclass(frozen=True)
class Net:
    """A whole network: its plan, its error, and the program that runs it."""

    plan: Plan
    error: float
    program: NetworkProgram


def make_exact(
    judge: Judge, optimizer: Optimizer, plan: Plan, bound: float, stack: ExitStack
) -> Net:
    """The plan with steps replaced until its error is at most `bound`, or nothing helps any more.

    Programs live as long as `stack`.
    """
    program = judge.program(stack, plan)
    error = judge.error(program)
    for _ in range(MAX_REPAIRS):
        better = plan if error <= bound else optimizer.more_exact(plan, bound, error)
        if plan_text(better) == plan_text(plan):
            break
        plan, program = better, judge.program(stack, better)
        error = judge.error(program)
    return Net(plan, error, program)


def fastest(times: Sequence[float]) -> int:
    """Which network to take: the first of those that tie with the best.

    The last one is that without tuning: it has to be faster than a tie.
    """
    before, tuned = times[-1], times[:-1]
    winner = next(k for k, us in enumerate(tuned) if us <= min(tuned) * (1 + TIE))
    return len(tuned) if before < tuned[winner] / (1 + TIE) else winner
