"""Rounding errors of values that are standardised: layer and group normalisation.

y = (x - mean) / s with s = sqrt(variance + epsilon). As a function of the centred values c, s is
the length of the vector (c / sqrt(n), sqrt(epsilon)), so errors of c change it by no more than
their root mean square; and |y| is at most sqrt(n - 1). What is left is Higham's bound of the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np

from cannery.execution.spans import F64, UNDERFLOW, UNIT, NoBoundError, Span, gamma
from cannery.ir.registry import Op
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization

#: Sums of so large squares do not overflow.
_LARGEST = 1e16


def _centred(x: Span, axes: tuple[int, ...], count: int) -> tuple[F64, F64]:
    """The largest magnitudes of x - mean in exact arithmetic, and the errors of what is computed.

    Of n values, one differs from the mean by (1 - 1/n) of its distance from that of the others.
    """
    share = 1.0 - 1.0 / count
    others = [
        (side.sum(axis=axes, keepdims=True) - side) / max(count - 1, 1) for side in (x.low, x.high)
    ]
    size = share * np.maximum(np.abs(x.high - others[0]), np.abs(others[1] - x.low))
    of_mean = x.error.mean(axis=axes, keepdims=True)
    of_mean = of_mean + gamma(count + 1) * x.size.mean(axis=axes, keepdims=True)
    carried = x.error + of_mean
    return size, carried + UNIT * (size + carried) + UNDERFLOW


def standardized(x: Span, axes: tuple[int, ...], epsilon: float) -> Span:
    """(x - mean) / sqrt(variance + epsilon) over `axes`. Raises NoBoundError where epsilon is 0, or
    squares may overflow.
    """
    count = prod(x.low.shape[axis] for axis in axes)
    size, error = _centred(x, axes, count)
    if not epsilon or np.any(size + error > _LARGEST):
        raise NoBoundError("a normalisation by what may be 0 or overflow has no rule")
    drift = np.sqrt((error * error).mean(axis=axes, keepdims=True))
    least = sqrt(epsilon)  # of the computed root as well
    bound = sqrt(count - 1.0)
    largest = np.minimum(size / sqrt(epsilon), bound)
    rounding = gamma(count + 8)
    wrong = (error + largest * drift) / least + 2.0 * rounding * (largest + error / least)
    wrong = np.minimum(wrong + UNDERFLOW, bound + sqrt(count) * (1.0 + 2.0 * rounding))
    return Span(-largest, largest, wrong)


def _along(value: Span, rank: int, axes: tuple[int, ...]) -> F64:
    """A constant whose dimensions are those of `axes`, broadcastable."""
    if np.any(value.low != value.high):
        raise NoBoundError("a normalisation with computed factors has no rule")
    shape = [1] * rank
    for axis, size in zip(axes, value.low.shape, strict=True):
        shape[axis] = size
    return value.low.reshape(shape)


def normalized(op: Op, inputs: Sequence[Span | None]) -> Span:
    """The result of a normalisation of x, with scale and bias if there are any."""
    x, scale, bias = (*inputs, None, None)[:3]
    assert x is not None
    if isinstance(op, LayerNormalization):
        axes, y = op.axes, standardized(x, op.axes, op.epsilon)
    else:
        assert isinstance(op, GroupNormalization)
        axes, y = (op.axis,), _by_groups(op, x)
    rank = x.low.ndim
    factor = np.ones(1) if scale is None else _along(scale, rank, axes)
    added = np.zeros(1) if bias is None else _along(bias, rank, axes)
    ends = y.low * factor + added, y.high * factor + added
    own = gamma(3) * (y.size * np.abs(factor) + np.abs(added)) + UNDERFLOW
    return Span(np.minimum(*ends), np.maximum(*ends), y.error * np.abs(factor) + own)


def _by_groups(op: GroupNormalization, x: Span) -> Span:
    """Standardised per sample and group of channels."""
    shape, axis = x.low.shape, op.axis
    split = (*shape[:axis], op.groups, shape[axis] // op.groups, *shape[axis + 1 :])
    cut = Span(*(side.reshape(split) for side in (x.low, x.high, x.error)))
    axes = tuple(k for k in range(1, len(split)) if k != axis)
    y = standardized(cut, axes, op.epsilon)
    return Span(*(side.reshape(shape) for side in (y.low, y.high, y.error)))
