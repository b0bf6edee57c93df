"""Rounding errors of functions of one or two numbers that need more than a slope: where they grow,
where they have no value, and where a choice may turn out otherwise.

Each rule takes the operator and what is proved of its inputs. Functions are within the bounds that
`vec_math.h` names; quotients, roots and products are correctly rounded (`vec_scalar.h`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cannery.execution.spans import F64, UNDERFLOW, UNIT, NoBoundError, Span, gamma
from cannery.ir.registry import Op
from cannery.ops.elementwise import (
    Affine,
    Div,
    Exp,
    HardSigmoid,
    HardSwish,
    Log,
    Reciprocal,
    Sqrt,
    Square,
)
from cannery.ops.logic.compare import Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Where

Rule = Callable[[Op, Sequence[Span]], Span]

#: 1.5 units in the last place, each at most 2 u of the result.
_ULPS = 1.5 * 2 * UNIT

#: Beyond it, exponentials may overflow.
_LARGEST_POWER = 88.0


def _exp(op: Op, spans: Sequence[Span]) -> Span:
    (x,) = spans
    if np.any(x.high + x.error > _LARGEST_POWER):
        raise NoBoundError(f"Exp of more than {_LARGEST_POWER:g}, which may overflow, has no rule")
    low, high = np.exp(x.low), np.exp(x.high)
    carried = high * np.expm1(x.error)
    return Span(low, high, carried + _ULPS * (high + carried) + UNDERFLOW)


def _log(op: Op, spans: Sequence[Span]) -> Span:
    """Log x - log(x - e) is largest at the least x."""
    (x,) = spans
    if np.any(x.low - x.error < UNDERFLOW):
        raise NoBoundError("Log of what may be 0 or less has no rule")
    low, high = np.log(x.low), np.log(x.high)
    carried = -np.log1p(-x.error / x.low)
    size = np.maximum(np.abs(low), np.abs(high)) + carried
    return Span(low, high, carried + _ULPS * size + UNDERFLOW)


def _sqrt(op: Op, spans: Sequence[Span]) -> Span:
    """The roots of x and x + e differ by e / (sqrt(x) + sqrt(x + e))."""
    (x,) = spans
    if np.any(x.low - x.error < 0.0):
        raise NoBoundError("Sqrt of what may be below 0 has no rule")
    low, high = np.sqrt(x.low), np.sqrt(x.high)
    both = low + np.sqrt(x.low - x.error)
    carried = np.divide(x.error, both, out=np.zeros_like(low), where=x.error > 0)
    return Span(low, high, carried + UNIT * (high + carried) + UNDERFLOW)


def _quotient(a: Span, b: Span) -> Span:
    """A / b, where b is never near 0: (a + d) / (b + e) - a / b = (d - e a / b) / (b + e)."""
    least = np.where((b.low <= 0) & (b.high >= 0), 0.0, np.minimum(np.abs(b.low), np.abs(b.high)))
    computed = least - b.error
    if np.any(computed < UNDERFLOW):
        raise NoBoundError("Div by what may be 0 has no rule")
    corners = [p / q for p in (a.low, a.high) for q in (b.low, b.high)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    size = np.maximum(np.abs(low), np.abs(high))
    carried = (a.error + size * b.error) / computed
    return Span(low, high, carried + UNIT * (size + carried) + UNDERFLOW)


def _div(op: Op, spans: Sequence[Span]) -> Span:
    a, b = spans
    return _quotient(a, b)


def _reciprocal(op: Op, spans: Sequence[Span]) -> Span:
    (x,) = spans
    ones = np.ones_like(x.low)
    return _quotient(Span(ones, ones, np.zeros_like(ones)), x)


def _square(op: Op, spans: Sequence[Span]) -> Span:
    (x,) = spans
    ends = x.low * x.low, x.high * x.high
    inside = (x.low <= 0) & (x.high >= 0)
    carried = (x.exact + x.size) * x.error
    own = UNIT * x.size * x.size + UNDERFLOW
    return Span(np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends), carried + own)


def _line(alpha: float, beta: float, x: Span) -> Span:
    """Alpha x + beta by one rounding or two, with both rounded to float32 before."""
    ends = alpha * x.low + beta, alpha * x.high + beta
    size = abs(alpha) * x.size + abs(beta)
    error = abs(alpha) * x.error + gamma(3) * size + UNDERFLOW
    return Span(np.minimum(*ends), np.maximum(*ends), error)


def _affine(op: Op, spans: Sequence[Span]) -> Span:
    assert isinstance(op, Affine)
    return _line(op.alpha, op.beta, spans[0])


def _between_0_and_1(x: Span) -> Span:
    """Clipping makes no difference larger."""
    return Span(np.clip(x.low, 0.0, 1.0), np.clip(x.high, 0.0, 1.0), np.minimum(x.error, 1.0))


def _hard_sigmoid(op: Op, spans: Sequence[Span]) -> Span:
    assert isinstance(op, HardSigmoid)
    return _between_0_and_1(_line(op.alpha, op.beta, spans[0]))


def _hard_swish(op: Op, spans: Sequence[Span]) -> Span:
    """X times a factor between 0 and 1; the slope is at most 1.5, the least value -3/8 at -1.5."""
    (x,) = spans
    ends: list[F64] = [v * np.clip(v / 6.0 + 0.5, 0.0, 1.0) for v in (x.low, x.high)]
    least = np.where((x.low < -1.5) & (x.high > -1.5), -0.375, np.minimum(*ends))
    exactly = Span(x.low - x.error, x.high + x.error, np.zeros_like(x.error))
    factor = _between_0_and_1(_line(1.0 / 6.0, 0.5, exactly))
    own = x.size * (factor.error + UNIT * (1.0 + factor.error)) + UNDERFLOW
    return Span(least, np.maximum(*ends), 1.5 * x.error + own)


def _compare(op: Op, spans: Sequence[Span]) -> Span:
    """1 where the comparison holds; an error of 1 where it may turn out otherwise."""
    if len(spans) != 2:
        raise NoBoundError(f"{op.kind} of integers has no rule")
    a, b = spans
    wrong = a.error + b.error
    below, above = a.high + wrong < b.low, a.low - wrong > b.high
    holds, fails = (above, below) if isinstance(op, Greater | GreaterOrEqual) else (below, above)
    if isinstance(op, Equal):
        holds, fails = np.zeros_like(below), below | above
    sure = holds | fails
    error = np.where(sure | (wrong == 0.0), 0.0, 1.0)
    return Span(np.where(holds, 1.0, 0.0), np.where(fails, 0.0, 1.0), error)


def _where(op: Op, spans: Sequence[Span]) -> Span:
    """One of two values; where the condition may turn out otherwise, they are an error apart."""
    if len(spans) != 3:
        raise NoBoundError("Where with integers has no rule")
    condition, a, b = spans
    first, second = condition.low >= 1.0, condition.high <= 0.0
    low = np.where(first, a.low, np.where(second, b.low, np.minimum(a.low, b.low)))
    high = np.where(first, a.high, np.where(second, b.high, np.maximum(a.high, b.high)))
    either = np.maximum(a.error, b.error)
    apart = np.maximum(np.abs(a.high - b.low), np.abs(b.high - a.low))
    unsure = either + np.where(condition.error > 0.0, apart, 0.0)
    return Span(low, high, np.where(first, a.error, np.where(second, b.error, unsure)))


RULES: tuple[tuple[tuple[type[Op], ...], Rule], ...] = (
    ((Exp,), _exp), ((Log,), _log), ((Sqrt,), _sqrt), ((Div,), _div), ((Reciprocal,), _reciprocal),
    ((Square,), _square), ((Affine,), _affine), ((HardSigmoid,), _hard_sigmoid),
    ((HardSwish,), _hard_swish), ((Where,), _where),
    ((Equal, Less, LessOrEqual, Greater, GreaterOrEqual), _compare),
)  # fmt: skip
