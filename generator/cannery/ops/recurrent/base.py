"""What LSTM, GRU and plain recurrent layers share: types, the loop over time, directions.

An operator is only the recurrent part of a layer. The product of all inputs with their weights,
bias included, is a MatMul before it: one large matrix product instead of many small ones.

Axes: N samples, T steps, D directions (1 or 2), G gates, H cells.

    p     [N,T,D*G*H]  the projected inputs: direction by direction, gate by gate
    r     [D,H,G*H]    recurrent weights
    h0    [N,D*H]      optional initial output; zeros if absent
    first [1]          optional, the last input: the steps before this one do not exist, they are 0
                       in the sequence and leave the state; for one direction, forward
    ->
    sequence [N,T,D*H], hidden [N,D*H] (after the last step) ..., those that `returns` names
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import F64, add_product, f64
from cannery.ir.registry import Elementwise, Op, RefArray
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float, require_shape
from cannery.schedule.caches import L1_BYTES

#: An activation function: operators applied one after the other; empty: the identity.
Activation = tuple[Elementwise, ...]

#: One step: see `Recurrent.step`.
StepFunction = Callable[[int, F64, F64, list[F64], Sequence[F64 | None]], list[F64]]

#: What a recurrent operator may return, in this order.
SEQUENCE, HIDDEN, CELL = "sequence", "hidden", "cell"


#: The share of the first-level cache left for weights that the next step finds there again.
KEPT_BYTES = 0.75 * L1_BYTES


def activate(activation: Activation, x: F64) -> F64:
    """The activation in float64."""
    for op in activation:
        (x,) = (f64(y) for y in op.reference(x))
    return x


@dataclass(frozen=True)
class Recurrent(Op):
    """The base of the recurrent operators.

    `reverse` says for each direction whether it runs from the last step to the first. `activations`
    are all of the first direction, then those of the second. `clip` > 0 bounds the arguments of the
    gates' activations. `lengths` are the steps of each sample if they differ from T: after them,
    the sequence is 0 and the state stays, and reversing begins at the last one.
    """

    cells: int
    activations: tuple[Activation, ...]
    reverse: tuple[bool, ...] = (False,)
    clip: float = 0.0
    lengths: tuple[int, ...] = ()
    returns: tuple[str, ...] = (SEQUENCE,)

    #: Gates, activation functions of a direction, and names of the possible results.
    gates: ClassVar[int]
    functions: ClassVar[int]
    results: ClassVar[tuple[str, ...]] = (SEQUENCE, HIDDEN)
    #: Inputs after p and r: initial states, then others.
    states: ClassVar[int] = 1
    others: ClassVar[int] = 0

    @property
    def directions(self) -> int:
        return len(self.reverse)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Types of the returned values; raises ModelError if shapes or attributes do not fit."""
        needed: tuple[TensorType, ...]
        needed, rest = operands(self, inputs, 2, self.states + self.others + 1)
        p, r = needed
        require_float(self, p, r, *rest)
        self._check_attributes()
        require(p.rank == 3, self, f"input has rank {p.rank}, expected samples, steps, features")
        n, steps, width = p.shape
        d, h = self.directions, self.cells
        require(steps >= 1, self, "needs at least one step")
        expected = d * self.gates * h
        require(width == expected, self, f"input has {width} features, expected {expected}")
        require_shape(self, "recurrent weights", r, (d, h, self.gates * h))
        for state in rest[: self.states]:
            require_shape(self, "initial state", state, (n, d * h))
        self.check_others(rest[self.states : -1])
        check_first(self, rest[-1], self.reverse, self.lengths)
        check_lengths(self, self.lengths, n, steps)
        shapes = {SEQUENCE: (n, steps, d * h)}
        return tuple(TensorType(shapes.get(name, (n, d * h))) for name in self.returns)

    def _check_attributes(self) -> None:
        require(self.cells >= 1, self, f"cells {self.cells} must be positive")
        require(1 <= self.directions <= 2, self, f"has {self.directions} directions, not 1 or 2")
        count = self.functions * self.directions
        given = len(self.activations)
        require(given == count, self, f"has {given} activations, expected {count}")
        require(isfinite(self.clip) and self.clip >= 0, self, f"clip {self.clip} is not positive")
        known = [name for name in self.results if name in self.returns]
        fits = bool(known) and known == list(self.returns)
        require(fits, self, f"cannot return {', '.join(self.returns) or 'nothing'}")

    def check_others(self, others: Sequence[TensorType | None]) -> None:
        """Raises ModelError if further inputs do not fit."""

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Step by step, direction by direction, sample by sample."""
        return self.over_time(self.step, *inputs)

    def over_time(self, step: StepFunction, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """The results if each step is what another function than `step` makes of it."""
        needed: tuple[RefArray, ...]
        needed, rest = operands(self, inputs, 2, self.states + self.others + 1)
        p, r = map(f64, needed)
        n, steps, _ = p.shape
        first = first_step(rest[-1])
        d, h, width = self.directions, self.cells, self.gates * self.cells
        found = {SEQUENCE: np.zeros((n, steps, d * h))}
        found |= {name: np.zeros((n, d * h)) for name in self.results[1:]}
        for sample in range(n):
            length = self.lengths[sample] if self.lengths else steps
            for direction in range(d):
                part = slice(direction * h, direction * h + h)
                states = [
                    np.zeros((1, h)) if s is None else f64(s)[sample : sample + 1, part]
                    for s in rest[: self.states]
                ]
                others = [None if o is None else f64(o)[direction] for o in rest[self.states : -1]]
                order = range(first, length)[:: -1 if self.reverse[direction] else 1]
                for t in order:
                    inner = p[sample : sample + 1, t, direction * width : (direction + 1) * width]
                    states = step(direction, inner, r[direction], states, others)
                    found[SEQUENCE][sample, t, part] = states[0]
                for name, state in zip(self.results[1:], states, strict=True):
                    found[name][sample, part] = state
        return tuple(found[name] for name in self.returns)

    @abstractmethod
    def step(
        self, direction: int, p: F64, r: F64, states: list[F64], others: Sequence[F64 | None]
    ) -> list[F64]:
        """The states [1,H] after one step; p [1,G*H], r [H,G*H]. The first one is the output."""

    def first_input(self, inputs: Sequence[str]) -> str:
        """Which of a node's inputs is its first step; empty: it has none."""
        return "".join(inputs[2 + self.states + self.others :])

    def function(self, direction: int, index: int) -> Activation:
        """One of the activations of a direction."""
        return self.activations[direction * self.functions + index]

    def clipped(self, x: F64) -> F64:
        """The argument of a gate's activation."""
        return np.clip(x, -self.clip, self.clip) if self.clip else x

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """Those of the recurrent products."""
        needed: tuple[TensorType, ...]
        needed, _ = operands(self, inputs, 2, self.states + self.others + 1)
        p, r = needed
        return p.shape[0] * p.shape[1] * r.elements


def check_lengths(op: Op, lengths: Sequence[int], samples: int, steps: int) -> None:
    """Raises ModelError unless there are no lengths, or a possible one for each sample."""
    fits = not lengths or len(lengths) == samples
    require(fits, op, f"has {len(lengths)} lengths for {samples} samples")
    for length in lengths:
        require(0 <= length <= steps, op, f"length {length} is outside 0..{steps}")


def check_first(
    op: Op, first: TensorType | None, reverse: Sequence[bool], lengths: Sequence[int]
) -> None:
    """Raises ModelError unless there is no first step, or one for a layer that runs forward."""
    require_shape(op, "first step", first, (1,))
    forward = tuple(reverse) == (False,) and not lengths
    require(first is None or forward, op, "has a first step, and does not run forward alone")


def first_step(given: RefArray | None) -> int:
    """The first step that exists, from the input that says so."""
    return 0 if given is None else max(0, int(given.item()))


def product(x: F64, w: F64) -> F64:
    """x[1,K] @ w[K,N], in ascending order of k."""
    y = np.zeros((1, w.shape[1]))
    add_product(y, x, w)
    return y


def exceeds_cache(op: Recurrent) -> bool:
    """Whether the recurrent weights do not stay in the first-level cache from step to step."""
    return 4 * op.cells * op.cells * op.gates > KEPT_BYTES
