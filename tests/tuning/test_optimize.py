"""From measurements to plans, with measurements made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from cannery.choose.bounded import MemoryBounds
from cannery.choose.plan import Plan
from cannery.errors import OptionError
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.measure.cache import Measurement
from cannery.measure.measure import TIE
from cannery.measure.trial import random_inputs
from cannery.schedule.program import Choice
from cannery.target.runner import Origin
from cannery.tuning.contests import (
    Contest,
    ContestMaker,
    Ranked,
    by_preference,
    group,
    is_view,
    needed_reorders,
    rank,
)
from cannery.tuning.optimize import Optimizer, Tried, plan_text
from tuning.toy import ISA, network, singles

#: What a test says about a candidate, by its label and the step's index.
Judge = Callable[[Ranked, int], Measurement | None]


def make(
    judge: Judge, layers: int = 2, *, origin: Origin = Origin.HOST, max_error: float = 1e-4,
    limit: int = 8, fixed: Mapping[int, Choice] | None = None,
) -> Optimizer:  # fmt: skip
    """An optimizer over a small network whose candidates measured what `judge` says."""
    graph: Graph = network(layers)
    segments = singles(graph)
    values = evaluate_all(graph, random_inputs(graph))
    estimates = {k: rank(graph, u.step, ISA, inexact=True) for k, u in enumerate(segments)}
    maker = ContestMaker(graph, segments, ISA, values, {})
    contests: dict[int, Contest] = {}
    known: dict[str, Measurement] = {}
    for index in range(len(segments)):
        contest = maker.step_contest([index], limit)
        assert contest is not None
        contests[index] = contest
    reorders = {
        key: maker.reorder_contest(*key)
        for key in needed_reorders(graph, segments, ISA, estimates, "nhwc")
    }
    made = Optimizer(
        graph, segments, ISA, "nhwc", origin, max_error, contests, estimates, reorders, known,
        fixed or {},
    )  # fmt: skip
    for index, contest in contests.items():
        for ranked in contest.ranked:
            found = judge(ranked, index)
            label = contest.same[ranked.label]
            candidate = next(c for c in contest.candidates if c.trial.label == label)
            # Equal layers have equal code: their keys are made different here.
            if found is not None:
                known[candidate.code_key()] = found
    for contest in reorders.values():
        known[contest.candidates[0].code_key()] = Measurement(0.0, "", 0.5)
    return made


def measured(optimizer: Optimizer, index: int) -> list[Tried]:
    return [t for t in optimizer.tried[index] if t.measurement is not None]


def steady(ranked: Ranked, index: int) -> Measurement:
    """A time for each label that has nothing to do with the model's."""
    return Measurement(1e-7, "", 1.0 + sum(map(ord, ranked.label)) % 97 / 10, 100)


def test_the_fastest_of_each_layout_is_an_option() -> None:
    optimizer = make(steady)
    for option in optimizer.options(0):
        rivals = [t for t in measured(optimizer, 0) if t.option.reads == option.reads]
        assert option.cost == min(t.us for t in rivals if t.us is not None)
        assert option.choice.us == option.cost
        assert option.choice.origin == "host"


def test_what_was_not_measured_is_not_chosen_where_others_were() -> None:
    optimizer = make(steady, limit=3)
    labels = {t.label for t in measured(optimizer, 0)}
    # Candidates with the same code are measured once, and count as one.
    assert 3 <= len(labels) < len(optimizer.tried[0])
    assert {t.label for t in optimizer.tried[0] if t.usable} == labels
    for choice in optimizer.plans(1)[0].choices:
        assert str(choice) in labels


def test_of_ties_the_smallest_code() -> None:
    def judge(ranked: Ranked, index: int) -> Measurement:
        size = 10 + sum(map(ord, ranked.label)) % 50
        return Measurement(1e-7, "", 1.0 + 0.0001 * size, size)

    optimizer = make(judge)
    for option in optimizer.options(0):
        rivals = [t for t in measured(optimizer, 0) if t.option.reads == option.reads
                  and t.option.writes == option.writes]  # fmt: skip
        chosen = next(t for t in rivals if t.label == str(option.choice))
        assert chosen.code_bytes == min(t.code_bytes for t in rivals)


@pytest.mark.parametrize(
    "bad", [Measurement(1e-7, "wrote outside a buffer", 0.01), Measurement(1e-3, "", 0.01)]
)
def test_wrong_candidates_are_never_chosen(bad: Measurement) -> None:
    spoiled: list[str] = []

    def judge(ranked: Ranked, index: int) -> Measurement:
        if len(ranked.label) % 2 == 0:
            spoiled.append(ranked.label)
            return bad
        return steady(ranked, index)

    optimizer = make(judge)
    assert spoiled
    for plan in optimizer.plans(3):
        assert not {str(c) for c in plan.choices} & set(spoiled)


def test_rounding_is_sound_whatever_the_bound_is() -> None:
    optimizer = make(steady, max_error=1e-12)
    for tried in optimizer.tried:
        timed = [t for t in tried if t.measurement is not None]
        assert {t.label for t in tried if t.usable} == {
            t.label for t in timed if not t.ranked.choice.inexact
        }
    (plan,) = optimizer.plans(1)
    assert {c.origin for c in plan.choices} == {"host"}


def test_an_emulator_decides_nothing_but_soundness() -> None:
    def judge(ranked: Ranked, index: int) -> Measurement:
        return Measurement(1e-7, "", 1e6 / max(ranked.cycles, 1.0))

    optimizer = make(judge, origin=Origin.EMULATED)
    (plan,) = optimizer.plans(1)
    assert {c.origin for c in plan.choices} == {"estimated"}
    assert {c.us for c in plan.choices} == {None}
    best = optimizer.estimates[0][0]
    assert optimizer.tried[0][0].label == best.label
    broken = make(
        lambda r, k: Measurement(0.0, "crashed" if r.label == best.label else "", 1.0),
        origin=Origin.EMULATED,
    )
    assert broken.tried[0][0].label != best.label


def test_estimates_decide_with_the_model_and_are_no_times() -> None:
    def judge(ranked: Ranked, index: int) -> Measurement | None:
        known = steady(ranked, index)
        if len(ranked.label) % 3 == 0:
            return replace(known, us=0.001)  # emulated, not estimated
        return replace(known, us=0.001, estimated_us=known.us)

    optimizer = make(judge, origin=Origin.ESTIMATED)
    assert not optimizer.timed
    options = optimizer.options(0)
    for option in options:
        rivals = [t for t in measured(optimizer, 0) if t.option.reads == option.reads
                  and t.option.writes == option.writes and t.usable]  # fmt: skip
        assert option.cost <= min(t.option.cost for t in rivals) * (1 + TIE)
        chosen = next(t for t in rivals if t.label == str(option.choice))
        assert chosen.measurement is not None
        both = (chosen.measurement.estimated_us, chosen.ranked.cycles / optimizer.cycles_per_us)
        assert min(both) <= option.cost <= max(both)
        assert (option.choice.us, option.choice.origin) == (None, "estimated")
    # Without an estimate, a candidate is none where others have one.
    missing = [t for t in measured(optimizer, 0) if t.measurement == judge(t.ranked, 0)
               and t.estimated_us is None]  # fmt: skip
    assert missing
    assert not any(t.usable for t in missing)
    plan = optimizer.plans(1)[0]
    assert optimizer.total(plan) == pytest.approx(plan.cost)


def test_without_measurements_the_model_decides() -> None:
    optimizer = make(lambda ranked, index: None)
    assert optimizer.tried[0][0].label == optimizer.estimates[0][0].label
    assert {c.origin for c in optimizer.plans(1)[0].choices} == {"estimated"}


def test_estimates_are_scaled_to_what_was_measured() -> None:
    optimizer = make(lambda r, k: Measurement(0.0, "", r.cycles / 500) if k == 0 else None)
    assert optimizer.cycles_per_us == pytest.approx(500)


def test_choices_of_better_origin_stay() -> None:
    graph = network(2)
    estimates = rank(graph, singles(graph)[1].step, ISA, inexact=False)
    kept = replace(estimates[-1].choice, us=123.0, origin="device")
    optimizer = make(steady, fixed={1: kept})
    for plan in optimizer.plans(2):
        assert dict(plan.picks)[1] == kept


def test_plans_differ() -> None:
    found = make(steady).plans(3)
    assert len({plan_text(p) for p in found}) == len(found)
    assert [p.cost for p in found[:3]] == sorted(p.cost for p in found[:3])


def test_one_plan_is_for_a_cold_cache() -> None:
    """Code that is a little slower and much shorter."""

    def judge(ranked: Ranked, index: int) -> Measurement:
        short = sum(map(ord, ranked.label)) % 2 == 0
        return Measurement(1e-7, "", 1.1 if short else 1.0, 200 if short else 20_000)

    optimizer = make(judge, limit=40)
    found = optimizer.plans(1)
    assert len(found) == 2
    sizes = []
    for plan in found:
        tried = [optimizer.find(k, c) for k, c in plan.picks]
        sizes.append(sum(t.code_bytes for t in tried if t))
    assert sizes[1] < sizes[0]
    assert {c.us for c in found[1].choices} == {1.1}


def choosing(optimizer: Optimizer, pick: Callable[[list[Tried]], Tried]) -> Plan:
    """A plan of usable candidates that read and write nhwc."""
    picks = []
    for index in range(len(optimizer.segments)):
        plain = [
            t
            for t in measured(optimizer, index)
            if t.usable and {*t.option.writes, *(r.order for r in t.option.reads)} == {"nhwc"}
        ]
        picks.append((index, pick(plain).option.choice))
    return Plan(0.0, tuple(picks))  # fmt: skip


def test_errors_are_mended_where_it_costs_least() -> None:
    """Two layers, each with one fast candidate of large error: the cheaper one is replaced."""

    def judge(ranked: Ranked, index: int) -> Measurement:
        fast = ranked.label.endswith("unroll=ic}")
        exact = 2.0 if index == 0 else 5.0
        return Measurement(4e-5 if fast else 1e-7, "", 1.0 if fast else exact)

    class Apart(Optimizer):
        """Equal layers share measurements: here each asks the judge itself."""

        def measurement(self, index: int, ranked: Ranked) -> Measurement | None:
            found = super().measurement(index, ranked)
            return None if found is None else judge(ranked, index)

    plain = make(judge, limit=80)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    optimizer = Apart(**fields)
    fast = choosing(optimizer, lambda ts: min(ts, key=lambda t: t.us or 0.0))
    assert all(optimizer.find(k, c).error == 4e-5 for k, c in fast.picks)  # type: ignore[union-attr]
    better = optimizer.more_exact(fast, 5e-5, 8e-5)
    errors = [optimizer.find(k, c).error for k, c in better.picks]  # type: ignore[union-attr]
    assert errors == [1e-7, 4e-5]
    both = optimizer.more_exact(fast, 1e-5, 8e-5)
    assert [optimizer.find(k, c).error for k, c in both.picks] == [1e-7, 1e-7]  # type: ignore[union-attr]
    assert plan_text(optimizer.more_exact(both, 1e-9, 1e-7)) == plan_text(both)
    bounds = MemoryBounds(optimizer.graph, optimizer.segments, ISA, "nhwc")
    most = int(bounds.flash.flash(both)) - 1
    tight = replace(optimizer, bounds=replace(bounds, max_flash=most))
    assert tight.more_exact(fast, 1e-5, 8e-5) == fast, "what takes too much is no way"


def test_preference_is_the_wanted_then_one_of_each_kind() -> None:
    graph = network(1)
    step = singles(graph)[0].step
    ranked = [r for r in rank(graph, step, ISA, inexact=True) if not is_view(r.choice.schedule)]
    last = ranked[-1].label
    ordered = by_preference(graph, step, ISA, ranked, [last])
    assert ordered[0].label == last
    assert sorted(r.label for r in ordered) == sorted(r.label for r in ranked)
    kinds = {r.choice.schedule.id for r in ranked}
    assert {r.choice.schedule.id for r in ordered[: 1 + 4 * len(kinds)]} == kinds


def test_contests_hold_different_code_only() -> None:
    graph = network(1)
    segments = singles(graph)
    values = evaluate_all(graph, {"image": np.zeros((1, 6, 6, 4), np.float32)})
    maker = ContestMaker(graph, segments, ISA, values, {})
    contest = maker.step_contest([0], 12)
    assert contest is not None
    keys = [c.code_key() for c in contest.candidates]
    assert len(set(keys)) == len(keys) <= 12
    assert set(contest.same) == {r.label for r in contest.ranked}


def test_equal_steps_are_one_group() -> None:
    graph = network(4)
    assert list(group(graph, singles(graph)).values()) == [[0, 1, 2, 3]]


def test_an_emulator_has_no_times_of_any_kind() -> None:
    found = Measurement(1e-7, "", 1.0, estimated_us=2.0)
    for origin, us in ((Origin.EMULATED, None), (Origin.ESTIMATED, 2.0), (Origin.HOST, 1.0)):
        assert make(steady, origin=origin).time(found) == us


def test_what_is_inexact_is_usable_only_if_it_was_measured() -> None:
    optimizer = make(lambda ranked, index: None)
    tried = optimizer.tried[0]
    assert any(t.ranked.choice.inexact for t in tried)
    assert {t.usable for t in tried if t.ranked.choice.inexact} == {False}
    assert {t.usable for t in tried if not t.ranked.choice.inexact} == {True}


def test_rivals_have_the_same_orders() -> None:
    optimizer = make(steady)
    orders = {(t.option.reads, t.option.writes) for t in optimizer.tried[0] if t.usable}
    assert len(orders) > 1
    for tried in optimizer.tried[0]:
        rivals = optimizer.rivals(0, tried.ranked.choice)
        mine = (tried.option.reads, tried.option.writes)
        assert {(t.option.reads, t.option.writes) for t in rivals} <= {mine}
        assert tried.label not in {t.label for t in rivals}


def with_scratch(ranked: Ranked, index: int) -> Measurement:
    """What takes scratch memory is twice as fast as anything else."""
    needs = "winograd" in ranked.label
    return Measurement(0.0, "", 1.0 if needs else 2.0, code_bytes=100)


@pytest.mark.parametrize("kind", ["ram", "flash"])
def test_plans_keep_the_bounds_of_memory(kind: str) -> None:
    """The fastest plan within the bound: slower than without, as fast as measured times allow."""
    free = make(with_scratch)
    bounds = MemoryBounds(free.graph, free.segments, ISA, "nhwc")
    (fastest,) = free.plans(1)[:1]

    def taken(plan: Plan) -> float:
        ram = replace(bounds.ram, most=0)  # as under a bound: halos have no memory of their own
        return ram.ram(plan).bytes if kind == "ram" else bounds.flash.flash(plan)

    most = int(taken(fastest)) - 1
    tight = replace(
        free, bounds=replace(bounds, **{f"max_{kind}": most}), untuned=Plan(0.0, ())
    )  # fmt: skip
    found = tight.plans(2)
    assert found[0].picks and all(taken(plan) <= most for plan in found)
    assert found[0].cost > fastest.cost
    loose = replace(free, bounds=replace(bounds, max_ram=10**9, max_flash=10**9))
    assert plan_text(loose.plans(1)[0]) == plan_text(fastest)


def test_the_untuned_plan_is_left_where_nothing_measured_fits() -> None:
    free = make(with_scratch)
    bounds = MemoryBounds(free.graph, free.segments, ISA, "nhwc", max_ram=1)
    untuned = Plan(7.0, ())
    assert replace(free, bounds=bounds, untuned=untuned).plans(1) == [untuned]
    with pytest.raises(OptionError, match="--max-ram"):
        replace(free, bounds=bounds).plans(1)
