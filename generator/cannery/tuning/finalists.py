"""The whole networks that compete at the end: of those exact enough, the fastest wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cannery.choose.plan import Plan
from cannery.choose.rounding import rounding_error
from cannery.deadline import time_left
from cannery.execution.program import NetworkProgram
from cannery.ir.graph import Graph
from cannery.measure.measure import TIE
from cannery.tuning.confirm import Judge
from cannery.tuning.optimize import Optimizer, plan_text

#: How often a network's errors are reduced before its error is accepted.
MAX_REPAIRS = 12


@dataclass(frozen=True)
class Chosen:
    """A plan, and what is known about the whole network: None if it was not run.

    `error` is max|y - ref| / max|ref| of the worst output, times are in microseconds; `before_us`
    is that of the network without tuning, which is this one if `untuned`.
    """

    plan: Plan
    error: float | None = None
    before_us: float | None = None
    after_us: float | None = None
    untuned: bool = False


@dataclass(frozen=True)
class Net:
    """A whole network: its plan, its error, and the program that runs it."""

    plan: Plan
    error: float
    program: NetworkProgram


def aim(graph: Graph, max_error: float) -> float:
    """The error to aim at: half of what is allowed, or the error of rounding alone."""
    bound = graph.error_bound(max_error)
    return min(max(bound / 2, rounding_error(graph, max_error) or 0.0), bound)


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


def best_of(errors: Sequence[float], times: Sequence[float], limit: float) -> int:
    """Which network to take: the fastest of those whose error is at most `limit`.

    If there is none, the most exact one. The last one is that without tuning.
    """
    untuned = len(errors) - 1
    right = [k for k, error in enumerate(errors) if error <= limit]
    if not right:
        return min(range(len(errors)), key=lambda k: errors[k])
    if right[-1] == untuned:
        return right[fastest([times[k] for k in right])] if len(right) > 1 else untuned
    return next(k for k in right if times[k] <= min(times[j] for j in right) * (1 + TIE))


def fastest(times: Sequence[float]) -> int:
    """Which network to take: the first of those that tie with the best.

    The last one is that without tuning: it must be faster than a tie.
    """
    before, tuned = times[-1], times[:-1]
    winner = next(k for k, us in enumerate(tuned) if us <= min(tuned) * (1 + TIE))
    return len(tuned) if before < tuned[winner] / (1 + TIE) else winner


@dataclass(frozen=True)
class Finals:
    """Whole networks in competition: each is made as exact as `bound`, if that is possible.

    Those whose error exceeds the allowed `limit` lose against those whose error does not.
    `complete` turns a plan into what compiling with its record gives. Programs live as long as
    `stack`.
    """

    judge: Judge
    optimizer: Optimizer
    bound: float
    limit: float
    complete: Callable[[Plan], Plan]
    stack: ExitStack

    def run(self, default: Plan, count: int) -> Iterator[Chosen]:
        """Yields the best so far, ever better: the last one is the result.

        `count` plans compete, and `default`, the one without tuning. Raises ToolchainError,
        OutOfTimeError.
        """
        if not self.optimizer.timed:
            count = 1
        first, *others = self._distinct(self.optimizer.plans(count))
        nets = [self._net(first)]
        yield Chosen(nets[0].plan, nets[0].error)
        if not self.optimizer.timed and nets[0].error <= self.limit:
            return
        text = plan_text(untuned := self.complete(self.optimizer.with_times(default)))
        before = nets[0] if plan_text(nets[0].plan) == text else self._net(untuned)
        if not self.optimizer.timed:
            if before.error < nets[0].error:
                yield Chosen(before.plan, before.error)
            return
        if others and not math.isinf(time_left()):
            # Better to compare two networks in time than many too late.
            yield self._winner(nets, before)
        nets += [before if plan_text(p) == text else self._net(p) for p in others]
        yield self._winner(nets, before)

    def _winner(self, nets: Sequence[Net], before: Net) -> Chosen:
        """Times networks alongside the one without tuning."""
        times = self.judge.times([net.program for net in (*nets, before)])
        winner = best_of([net.error for net in (*nets, before)], times, self.limit)
        best = (*nets, before)[winner]
        untuned = winner == len(nets) and times[-1] <= min(times)
        return Chosen(best.plan, best.error, times[-1], times[winner], untuned)

    def _distinct(self, plans: Sequence[Plan]) -> list[Plan]:
        return list({plan_text(p): p for p in map(self.complete, plans)}.values())

    def _net(self, plan: Plan) -> Net:
        return make_exact(self.judge, self.optimizer, plan, self.bound, self.stack)
