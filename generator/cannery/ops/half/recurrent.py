"""Recurrent layers in half precision: products, sums and states; gates are computed in float32.

All gates of a cell come from sums in half precision. Their functions, and what the cell makes of
them, are computed in float32 and rounded once. Outputs and cells are float16 from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from cannery.ctext.half import unknown_words
from cannery.ir.half import rounded_to_half
from cannery.ir.numeric import F64, f64
from cannery.ir.registry import RefArray
from cannery.ops.half.schedules import HalfSchedule, half_id
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.gates import RecurrentGates
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule, schedule


@schedule
@dataclass(frozen=True)
class HalfRecurrent(HalfSchedule):
    """See the module docstring."""

    id = half_id(RecurrentGates.id)
    version = RecurrentGates.version
    inner: ClassVar[Schedule] = RecurrentGates()

    def unknown(self, step: Step) -> str:
        op = step.anchor.op
        if not isinstance(op, Recurrent):
            return "not a recurrent layer"
        for function in (f for activation in op.activations for f in activation):
            if unknown_words(function.c("f32x8", "x")):
                return f"{function.kind} is not known in half precision"
        first = op.first_input(step.anchor.inputs)
        return "a number says where its sequence begins" if first else ""


def half_recurrence(
    op: Recurrent, inputs: Sequence[RefArray | None], noises: F64, rounding: float
) -> tuple[RefArray, ...]:
    """The results of a layer with states rounded to float16, and errors as its sums have them.

    `noises` are normal random numbers, which are reused, `rounding` is the usual relative error of
    rounding once. Each of the K products of a sum is added to what is there already: the projected
    input p and, after k products of h and r, k products' worth. So the error's mean square is
    rounding^2 * (K p^2 + K^2/2 h^2 r^2), with the means of squares.
    """
    taken = 0

    def step(
        direction: int, p: F64, r: F64, states: list[F64], others: Sequence[F64 | None]
    ) -> list[F64]:
        nonlocal taken
        terms = r.shape[0]
        squares = terms * _square(p) + terms**2 / 2 * _square(states[0]) * _square(r)
        noise = noises.take(range(taken, taken + p.size), mode="wrap").reshape(p.shape)
        taken += p.size
        error = rounding * sqrt(squares) if np.isfinite(squares) else 0.0
        found = op.step(direction, p + error * noise, r, states, others)
        return [f64(rounded_to_half(state)) for state in found]

    return op.over_time(step, *inputs)


def _square(x: F64) -> float:
    """The mean square."""
    return float(np.mean(x * x)) if x.size else 0.0
