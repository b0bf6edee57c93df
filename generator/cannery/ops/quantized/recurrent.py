"""What recurrent layers in integers share: types, the loop over time, tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float, require_shape, require_type
from cannery.ops.quantized.arithmetic import (
    F32,
    NARROW,
    Activation,
    QuantizedOp,
    f32,
    integer_product,
    quantised,
)
from cannery.ops.quantized.table import Table, make_table
from cannery.ops.recurrent.base import (
    CELL,
    HIDDEN,
    SEQUENCE,
    check_first,
    check_lengths,
    first_step,
)

#: Added to a state before adding anything that may be 0, so that no state decays to a number so
#: small that processors disagree on it. It is far below the last bit of a table's result.
TINY = 2.0**-60


#: Integers [N,H] times the weights of columns [G*H], in steps.
Multiply = Callable[[RefArray, slice], F32]

#: The columns of all gates.
EVERY = slice(None)


def _products(r: RefArray, scale: F32) -> Multiply:
    """By the weights r[H,G*H] and their scale [G*H]."""
    return lambda y, columns: f32(f32(integer_product(y, r[:, columns])) * scale[columns])


@dataclass(frozen=True)
class QuantizedRecurrent(QuantizedOp):
    """Integer recurrent weights; G gates in the order of ONNX, as in `Recurrent`.

    Inputs: p [N,T,D*G*H] projected inputs, r [D,H,G*H] integers, scale [D,G*H], h0? [N,D*H], c0?
    [N,D*H], others? [D,O*H], first? [1] as in `Recurrent`. The argument of a gate is in steps of
    its table; so are p, scale and others. Results: the sequence [N,T,D*H], integers, outputs times
    `bound`; the last output and the last cell [N,D*H], float32. Only those that `returns` names are
    returned.

    One rounding per operation; unit is the unit of a table's results. `clip` > 0 bounds the
    arguments of the gates' functions, and `lengths` are the steps of each sample, as in
    `Recurrent`.
    """

    cells: int
    activations: tuple[Activation, ...]
    bound: int
    dtype: DType = DType.INT16
    reverse: tuple[bool, ...] = (False,)
    returns: tuple[str, ...] = (SEQUENCE,)
    clip: float = 0.0
    lengths: tuple[int, ...] = ()

    #: Gates, activations of a direction, vectors of cells of the last input, possible results.
    gates: ClassVar[int]
    functions: ClassVar[int]
    others: ClassVar[int]
    results: ClassVar[tuple[str, ...]]

    @property
    def directions(self) -> int:
        return len(self.reverse)

    @property
    def carries_output(self) -> bool:
        """Whether the float state is the output itself, before it is rounded."""
        return CELL not in self.results

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """The gates of each product of a step, one product after the other."""
        return (tuple(range(self.gates)),)

    def tables(self, direction: int) -> list[Table]:
        """Those of a direction's activations."""
        per = self.functions
        found = [make_table(a) for a in self.activations[per * direction : per * direction + per]]
        return [table for table in found if table is not None]

    def limit(self, table: Table) -> float:
        """The bound on the argument of a gate, in steps of its table; 0 if only the table bounds
        it.
        """
        steps = float(np.float32(self.clip)) * table.scale
        return steps if steps < table.middle else 0.0

    def gate(self, table: Table, t: F32) -> F32:
        """The function of a gate at t, in steps; t is clipped first."""
        limit = np.float32(self.limit(table))
        return table.lookup(np.clip(t, -limit, limit) if limit else t)

    @property
    def units(self) -> tuple[np.float32, np.float32, np.float32]:
        """unit, unit^2, bound * unit^2, of every table."""
        table = self.tables(0)[0]
        square = table.unit * table.unit
        return np.float32(table.unit), np.float32(square), np.float32(self.bound * square)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Types of the returned values."""
        (p, r, scale), (h0, c0, others, first) = operands(self, inputs, 3, 4)
        require_float(self, p, scale, h0, c0, others, first)
        require_type(r.dtype in NARROW and r.dtype is self.dtype, self, f"weights {r}")
        require(1 <= self.directions <= 2, self, f"has {self.directions} directions, not 1 or 2")
        d, h, g = self.directions, self.cells, self.gates
        count = self.functions * d
        require(len(self.activations) == count, self, f"{len(self.activations)} activations")
        for activation in self.activations:
            require(make_table(activation) is not None, self, f"no table of {activation}")
        require(p.rank == 3 and p.shape[2] == g * d * h, self, f"projected inputs {p}")
        n, steps, _ = p.shape
        check_lengths(self, self.lengths, n, steps)
        check_first(self, first, self.reverse, self.lengths)
        require_shape(self, "recurrent weights", r, (d, h, g * h))
        require_shape(self, "scale", scale, (d, g * h))
        require_shape(self, "peepholes or bias", others, (d, self.others * h))
        require(c0 is None or not self.carries_output, self, "has no cell")
        for state in (h0, c0):
            require_shape(self, "initial state", state, (n, d * h))
        require(0 < self.bound < 2 ** (8 * self.dtype.bytes - 1), self, f"bound {self.bound}")
        require(isfinite(self.clip) and self.clip >= 0, self, f"clip {self.clip} is not positive")
        known = [name for name in self.results if name in self.returns]
        require(bool(known) and known == list(self.returns), self, f"returns {self.returns}")
        last = TensorType((n, d * h))
        types = {SEQUENCE: TensorType((n, steps, d * h), self.dtype), HIDDEN: last, CELL: last}
        return tuple(types[name] for name in self.returns)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Step by step, all samples of a direction at once."""
        (p, r, scale), (h0, c0, given, first) = operands(self, inputs, 3, 4)
        n, steps, _ = p.shape
        d, h, width = self.directions, self.cells, self.gates * self.cells
        sequence = np.zeros((n, steps, d * h), self.dtype.numpy)
        hidden, cell = np.zeros((n, d * h), np.float32), np.zeros((n, d * h), np.float32)
        initial = h0 if self.carries_output else c0
        lengths = np.array(self.lengths or [steps] * n)[:, None]
        for k in range(d):
            part = slice(k * h, k * h + h)
            y = np.zeros((n, h), self.dtype.numpy)
            if h0 is not None:
                y = self.rounded(f32(h0[:, part]))
            c = f32(np.zeros((n, h)) if initial is None else initial[:, part])
            others = [] if given is None else [f32(s) for s in np.split(given[k], self.others)]
            multiply = _products(r[k], f32(scale[k]))
            for t in range(first_step(first), steps)[:: -1 if self.reverse[k] else 1]:
                inner = f32(p[:, t, k * width : (k + 1) * width])
                new_y, new_c = self.step(k, y, multiply, inner, c, others)
                y, c = np.where(t < lengths, new_y, y), np.where(t < lengths, new_c, c)
                sequence[:, t, part] = np.where(t < lengths, y, 0)
            hidden[:, part] = c if self.carries_output else f32(f32(y) * self.inverse)
            cell[:, part] = c
        found = {SEQUENCE: sequence, HIDDEN: hidden, CELL: cell}
        return tuple(found[name] for name in self.returns)

    @property
    def inverse(self) -> np.float32:
        """The value of one unit of the output."""
        unit: np.float32 = np.float32(1.0 / self.bound)
        return unit

    def rounded(self, output: F32) -> RefArray:
        """Outputs as integers."""
        return quantised(f32(output * np.float32(self.bound)), self.bound, self.dtype)

    @abstractmethod
    def step(
        self, direction: int, y: RefArray, multiply: Multiply, given: F32, c: F32,
        others: Sequence[F32],
    ) -> tuple[RefArray, F32]:  # fmt: skip
        """Integer outputs and float states [N,H] after a step, from those before it.

        `multiply` returns products with the weights in steps, for all gates or some columns;
        `given` [N,G*H] are the projected inputs.
        """

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """Those of the recurrent products."""
        (p, r, _), _ = operands(self, inputs, 3, 4)
        return int(p.shape[0] * p.shape[1] * r.elements)
