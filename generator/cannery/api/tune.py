"""Builds and times variants of every layer; the best become the tuning record."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cannery.api.model import GivenModel, given_model, is_seconds
from cannery.errors import OptionError
from cannery.measure.measure import Context
from cannery.tuning.outcome import LayerOutcome, Outcome, Settings
from cannery.tuning.place import check_place
from cannery.tuning.tuner import tune as tune_network

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


@dataclass(frozen=True)
class TunedStep:
    """A step of the network: what computes it now, and its microseconds (None: not measured)."""

    name: str
    op: str
    chosen: str
    us: float | None
    candidates: int


@dataclass(frozen=True)
class TuneResult:
    """What tuning found. Times are microseconds of the whole network, None if not measured.

    `passed`: there is now a record for the network. It is false if `error` exceeds `max_error`, or
    if there was no time to measure anything. `not_measured` names the steps for which there was no
    time, `not_done` whole stages.
    """

    passed: bool
    record: Path | None
    changed: bool
    target: str
    origin: str
    before_us: float | None
    after_us: float | None
    error: float | None
    max_error: float
    seconds: float
    measured: int
    steps: tuple[TunedStep, ...]
    not_measured: tuple[str, ...]
    not_done: tuple[str, ...]
    notes: tuple[str, ...]


def tune(
    model: str | os.PathLike[str] | bytes,
    *,
    budget: float | None = None,
    exhaustive: bool = False,
    context: Literal["warm", "cold"] | None = None,
    **options: Unpack[ModelOptions],
) -> TuneResult:
    """Measure variants of every layer of a model, and write the best plan as its tuning record.

    The record is next to the model unless `tuning` says otherwise; `load` and `compile` use it.
    `budget` is how many seconds it may take, `exhaustive` measures every candidate, `context` says
    what a call finds in the caches. Other options are those of `load`. Raises CanneryError.
    """
    if budget is not None and not is_seconds(budget):
        raise OptionError(f"{budget!r:.20} is not a number of seconds", where="budget")
    if context not in (None, "warm", "cold"):
        raise OptionError(f"{context!r:.20} is neither 'warm' nor 'cold'", where="context")
    given = given_model(model, options, "tune")
    _check_record(given)
    with given.as_file() as chosen:
        check_place(chosen)
        settings = Settings(budget, exhaustive, Context(context) if context else None)
        several = chosen.each_block
        share = budget and budget / len(several)
        first, *others = (
            _result(tune_network(each, replace(settings, budget=share))) for each in several
        )
        return reduce(_together, others, first)


def _together(first: TuneResult, other: TuneResult) -> TuneResult:
    """What tuning for calls of two sizes found; times, error and record are those of the first."""
    return replace(
        first, passed=first.passed and other.passed, changed=first.changed or other.changed,
        seconds=first.seconds + other.seconds, measured=first.measured + other.measured,
        steps=(*first.steps, *other.steps), not_measured=(*first.not_measured, *other.not_measured),
        not_done=(*first.not_done, *other.not_done), notes=(*first.notes, *other.notes),
    )  # fmt: skip


def _check_record(given: GivenModel) -> None:
    """Raise OptionError if there is no place for the record: bytes have no folder."""
    if given.data is not None and given.options.tuning is None:
        raise OptionError(
            "a model that is not a file has no place for its record", where="tune",
            cure="name one with tuning=",
        )  # fmt: skip


def _result(outcome: Outcome) -> TuneResult:
    record = outcome.path if outcome.path.exists() else None
    return TuneResult(
        outcome.served, record, outcome.changed, outcome.toolchain.target.name,
        outcome.origin.value, outcome.before_us, outcome.after_us, outcome.error,
        outcome.max_error, outcome.seconds, outcome.measured, tuple(map(_step, outcome.layers)),
        outcome.untried, outcome.missed, outcome.notes,
    )  # fmt: skip


def _step(layer: LayerOutcome) -> TunedStep:
    return TunedStep(
        layer.step.name, layer.step.kind, str(layer.chosen), layer.chosen.us, len(layer.tried)
    )
