"""The recurrent operators; gates in the order of ONNX. What they share is in `base.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import F64
from cannery.ir.registry import register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import require, require_shape
from cannery.ops.recurrent.base import CELL, HIDDEN, SEQUENCE, Recurrent, activate, product


@register
@dataclass(frozen=True)
class Lstm(Recurrent):
    """Long short-term memory: Hochreiter & Schmidhuber 1997, with forget gates and peepholes.

    Gates i, o, f, c; activations f (of the gates), g (of the cell's input), h (of the cell).
    Inputs p, r, h0?, c0?, peepholes? [D,3*H] of i, o, f.

        i = f(p_i + h R_i + P_i c)       f = f(p_f + h R_f + P_f c), or 1 - i if `coupled`
        c' = f c + i g(p_c + h R_c)      o = f(p_o + h R_o + P_o c')      h' = o h(c')
    """

    coupled: bool = False

    gates: ClassVar[int] = 4
    functions: ClassVar[int] = 3
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN, CELL)
    states: ClassVar[int] = 2
    others: ClassVar[int] = 1

    def check_others(self, others: Sequence[TensorType | None]) -> None:
        """Peepholes."""
        require_shape(self, "peepholes", others[0], (self.directions, 3 * self.cells))

    def step(
        self, direction: int, p: F64, r: F64, states: list[F64], others: Sequence[F64 | None]
    ) -> list[F64]:
        """As written above."""
        h, c = states
        peepholes = np.zeros(3 * self.cells) if others[0] is None else others[0]
        peep_i, peep_o, peep_f = np.split(peepholes, 3)
        of_gate, of_input, of_cell = (self.function(direction, k) for k in range(3))
        i, o, f, g = np.split(p + product(h, r), 4, axis=1)
        i = activate(of_gate, self.clipped(i + peep_i * c))
        f = 1.0 - i if self.coupled else activate(of_gate, self.clipped(f + peep_f * c))
        c = f * c + i * activate(of_input, self.clipped(g))
        o = activate(of_gate, self.clipped(o + peep_o * c))
        return [o * activate(of_cell, c), c]


@register
@dataclass(frozen=True)
class Gru(Recurrent):
    """Gated recurrent unit: Cho et al. 2014.

    Gates z, r, h; activations f (of z and r) and g. Inputs p, r, h0?, bias? [D,H]: the recurrent
    bias b of the third gate, only with `linear_before_reset`. With it, the reset gate applies after
    the product (Keras: reset_after).

        z = f(p_z + h R_z)     r = f(p_r + h R_r)
        g = g(p_h + (r h) R_h), or g(p_h + r (h R_h + b)) if `linear_before_reset`
        h' = (1 - z) g + z h
    """

    linear_before_reset: bool = False

    gates: ClassVar[int] = 3
    functions: ClassVar[int] = 2
    others: ClassVar[int] = 1

    def check_others(self, others: Sequence[TensorType | None]) -> None:
        """The recurrent bias."""
        fits = others[0] is None or self.linear_before_reset
        require(fits, self, "a separate bias is meaningful only with linear_before_reset")
        require_shape(self, "recurrent bias", others[0], (self.directions, self.cells))

    def step(
        self, direction: int, p: F64, r: F64, states: list[F64], others: Sequence[F64 | None]
    ) -> list[F64]:
        """As written above."""
        (h,) = states
        n = self.cells
        bias = np.zeros(n) if others[0] is None else others[0]
        of_gate, of_input = (self.function(direction, k) for k in range(2))
        gates = activate(of_gate, self.clipped(p[:, : 2 * n] + product(h, r[:, : 2 * n])))
        z, reset = np.split(gates, 2, axis=1)
        if self.linear_before_reset:
            inner = reset * (product(h, r[:, 2 * n :]) + bias)
        else:
            inner = product(reset * h, r[:, 2 * n :])
        g = activate(of_input, self.clipped(p[:, 2 * n :] + inner))
        return [(1.0 - z) * g + z * h]


@register
@dataclass(frozen=True)
class Rnn(Recurrent):
    """A plain recurrent layer (Elman): h' = f(p + h R). Inputs p, r, h0?."""

    gates: ClassVar[int] = 1
    functions: ClassVar[int] = 1

    def step(
        self, direction: int, p: F64, r: F64, states: list[F64], others: Sequence[F64 | None]
    ) -> list[F64]:
        """As written above."""
        return [activate(self.function(direction, 0), self.clipped(p + product(states[0], r)))]
