"""Bounds of the rounding errors of LSTM, GRU and plain recurrent layers, step by step.

The error of a step is carried on through the weights into the next one, as if errors never
cancelled. So bounds grow from step to step, up to what is possible at all: outputs of bounded
functions are bounded, exact or rounded, so that they are never further apart than both together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.execution.spans import (
    F64,
    UNDERFLOW,
    UNIT,
    NoBoundError,
    Span,
    capped,
    gamma,
    product_ends,
)
from cannery.ops.recurrent.base import SEQUENCE, Activation, Recurrent
from cannery.ops.recurrent.op import Gru, Lstm

#: What `vec_math.h` says of the words that compute the end of a step, absolute and relative.
_FUSED = 5e-7

#: More than the roundings of a few operations, and than what gates may leave 0 to 1 by.
_LAST = 16 * UNIT

#: Far outside of where functions still change.
_HUGE = 1e30

#: The span of an activation's results; raises NoBoundError.
Activate = Callable[[Activation, Span], Span]

#: Some columns.
Place = tuple[slice, slice]


def recurrent_spans(
    op: Recurrent, inputs: Sequence[Span | None], activate: Activate
) -> tuple[Span, ...]:
    """The spans of what `op.returns` names. Raises NoBoundError."""
    (p, r), rest = inputs[:2], [*inputs[2:], *[None] * (2 + op.states + op.others - len(inputs))]
    assert p is not None and r is not None
    if len(rest) > op.states + op.others:
        raise NoBoundError(f"{op.kind} of a sequence that begins within a call has no rule")
    weights = [r, *(each for each in rest[op.states :] if each is not None)]
    if op.lengths or any(np.any(each.low != each.high) for each in weights):
        raise NoBoundError(f"{op.kind} with lengths, or with weights that are computed")
    n, steps, _ = p.low.shape
    found = {name: Span.zeros((n, op.directions * op.cells)) for name in op.results[1:]}
    found[SEQUENCE] = Span.zeros((n, steps, op.directions * op.cells))
    width = op.gates * op.cells
    for direction in range(op.directions):
        part = np.s_[:, direction * op.cells : (direction + 1) * op.cells]
        others = [None if each is None else each.low[direction] for each in rest[op.states :]]
        step = _Step(op, direction, r.low[direction], others, activate)
        states = [
            Span.zeros((n, op.cells)) if state is None else state.at(part)
            for state in rest[: op.states]
        ]
        for t in range(steps)[:: -1 if op.reverse[direction] else 1]:
            given = p.at(np.s_[:, t, direction * width : (direction + 1) * width])
            states = step.after(given, states)
            found[SEQUENCE].put((part[0], t, part[1]), states[0])
        for name, state in zip(op.results[1:], states, strict=True):
            found[name].put(part, state)
    return tuple(found[name] for name in op.returns)


@dataclass(frozen=True)
class _Step:
    """A step of one direction, with its weights r [H,G*H] and what comes after the states."""

    op: Recurrent
    direction: int
    r: F64
    others: Sequence[F64 | None]
    activate: Activate

    def after(self, p: Span, states: Sequence[Span]) -> list[Span]:
        """The states after a step with projected inputs p [N,G*H]."""
        if isinstance(self.op, Lstm):
            return self._lstm(self.op, p, *states)
        if isinstance(self.op, Gru):
            return [self._gru(self.op, p, *states)]
        return [self._function(0, _affine(p, states[0], self.r))]

    def _lstm(self, op: Lstm, p: Span, h: Span, c: Span) -> list[Span]:
        zeros = np.zeros(3 * op.cells)
        to_i, to_o, to_f = np.split(zeros if self.others[0] is None else self.others[0], 3)
        of_i, of_o, of_f, of_g = (self._part(k) for k in range(4))

        def gate(part: Place, peephole: F64, cell: Span) -> Span:
            start = p.at(part)
            if peephole.any():
                start = _sum(start, _product(_exact(peephole), cell))
            return self._function(0, _affine(start, h, self.r[part]))

        i = gate(of_i, to_i, c)
        f = _one_minus(i) if op.coupled else gate(of_f, to_f, c)
        g = self._function(1, _affine(p.at(of_g), h, self.r[of_g]))
        cell = _ended(_sum(_product(f, c), _product(i, g)))
        o = gate(of_o, to_o, cell)
        return [_ended(_product(o, self._function(2, cell))), cell]

    def _gru(self, op: Gru, p: Span, h: Span) -> Span:
        of_z, of_r, of_g = (self._part(k) for k in range(3))
        z, reset = (self._function(0, _affine(p.at(k), h, self.r[k])) for k in (of_z, of_r))
        if op.linear_before_reset:
            bias = np.zeros(op.cells) if self.others[0] is None else self.others[0]
            inner = _product(reset, _affine(_exact(bias), h, self.r[of_g]))
            given = _sum(p.at(of_g), inner)
        else:
            given = _affine(p.at(of_g), _product(reset, h), self.r[of_g])
        return _ended(_mixed(z, self._function(1, given), h))

    def _part(self, gate: int) -> Place:
        """The columns of a gate."""
        return np.s_[:, gate * self.op.cells : (gate + 1) * self.op.cells]

    def _function(self, index: int, x: Span) -> Span:
        """An activation of what may be clipped first.

        Whatever its argument, what is computed lies in the range of the function, but for its own
        error.
        """
        if most := self.op.clip:
            x = Span(np.clip(x.low, -most, most), np.clip(x.high, -most, most), x.error)
        function = self.op.function(self.direction, index)
        y = self.activate(function, x)
        everything = np.full_like(y.low, _HUGE)
        ends = self.activate(function, Span(-everything, everything, np.zeros_like(everything)))
        return capped(y.low, y.high, y.error, ends.size)


def _exact(value: F64) -> Span:
    return Span(value, value, np.zeros_like(value))


def _affine(start: Span, h: Span, r: F64) -> Span:
    """start[N,M] + h[N,H] @ r[H,M], added in any order."""
    above, below = np.maximum(r, 0.0), np.minimum(r, 0.0)
    sizes = start.size + h.size @ np.abs(r)
    own = gamma(len(r) + 2) * sizes + (len(r) + 1) * UNDERFLOW
    return Span(
        start.low + h.low @ above + h.high @ below, start.high + h.high @ above + h.low @ below,
        start.error + h.error @ np.abs(r) + own, sizes + own,
    )  # fmt: skip


def _sum(a: Span, b: Span) -> Span:
    sizes = a.size + b.size
    own = UNIT * sizes
    return capped(a.low + b.low, a.high + b.high, a.error + b.error + own, sizes + own)


def _one_minus(x: Span) -> Span:
    own = UNIT * (1.0 + x.size)
    return capped(1.0 - x.high, 1.0 - x.low, x.error + own, 1.0 + x.size + own)


def _product(a: Span, b: Span) -> Span:
    own = UNIT * a.size * b.size + UNDERFLOW
    carried = a.error * b.size + a.exact * b.error
    return capped(*product_ends(a, b), carried + own, a.size * b.size + own)


def _ended(x: Span) -> Span:
    """What a word of `vec_math.h` may compute at once, with its own error."""
    own = _FUSED * (1.0 + x.size)
    return capped(x.low, x.high, x.error + own, x.size + own)


def _mixed(z: Span, g: Span, h: Span) -> Span:
    """(1 - z) g + z h, with z between 0 and 1: a mean of g and h, so between them.

    Its error is (1 - z) that of g, z that of h, and that of z times how far g and h are apart.
    """
    if np.any(z.low < 0.0) or np.any(z.high > 1.0):
        raise NoBoundError("a GRU whose gates leave 0 to 1 has no rule")
    # Computed shares of g and h; no more than one, but for rounding, as z is between 0 and 1.
    to_h, to_g = np.minimum(z.size, 1.0 + _LAST), np.minimum(1.0 - z.low + z.error, 1.0 + _LAST)
    apart = np.maximum(h.high - g.low, g.high - h.low)
    sizes = g.size + h.size
    error = to_g * g.error + to_h * h.error + z.error * apart + _LAST * sizes
    low, high = np.minimum(g.low, h.low), np.maximum(g.high, h.high)
    return capped(low, high, error, np.maximum(g.size, h.size) + 3 * _LAST * sizes)
