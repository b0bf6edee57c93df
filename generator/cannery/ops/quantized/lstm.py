"""LSTM layers in integers: weights and outputs; cells stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
from cannery.ops.recurrent.base import CELL, HIDDEN, SEQUENCE
from cannery.ops.registry import RefArray, register

#: Added to cells before anything is added that may be 0: no cell decays to a number so small that
#: processors disagree on it. It is far below the last bit of what a table gives.
TINY = 2.0**-60

#: The results of the operator, in order.
RESULTS = (SEQUENCE, HIDDEN, CELL)


@register
@dataclass(frozen=True)
class QuantizedLstm(QuantizedOp):
    """LSTM with integer recurrent weights; gates i, o, f, c as in `Lstm`.

    Inputs: p [N,T,D*4H] projected inputs, r [D,H,4H] integers, scale [D,4H], h0? [N,D*H],
    c0? [N,D*H], peepholes? [D,3H]. What goes into a gate is in steps of its table: p, scale and
    peepholes are given so. Results: the sequence [N,T,D*H], integers, outputs times `bound`; the
    last output and cell [N,D*H], float32; those that `returns` names.

        i = table_f((scale_i float32(h R_i) + p_i) + P_i c)       likewise f, and o with c'
        c' = ((f unit) c + TINY) + (i table_g(scale_c float32(h R_c) + p_c)) unit^2
        h' = round((o table_h(c' scale_h)) (bound unit^2))

    one rounding per operation; unit is what a table's results are in.
    """

    cells: int
    activations: tuple[Activation, ...]
    bound: int
    dtype: DType = DType.INT16
    reverse: tuple[bool, ...] = (False,)
    returns: tuple[str, ...] = (SEQUENCE,)

    @property
    def directions(self) -> int:
        return len(self.reverse)

    def tables(self, direction: int) -> tuple[Table, Table, Table]:
        """Those of the gates, the cell's input and the cell."""
        found = [make_table(a) for a in self.activations[3 * direction : 3 * direction + 3]]
        gate, value, cell = found
        assert gate is not None and value is not None and cell is not None
        return gate, value, cell

    @property
    def units(self) -> tuple[np.float32, np.float32, np.float32]:
        """unit, unit^2, bound * unit^2, of every table."""
        table = self.tables(0)[0]
        square = table.unit * table.unit
        return np.float32(table.unit), np.float32(square), np.float32(self.bound * square)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Types of what is returned."""
        (p, r, scale), (h0, c0, peepholes) = operands(self, inputs, 3, 3)
        require_float(self, p, scale, h0, c0, peepholes)
        require_type(r.dtype in NARROW and r.dtype is self.dtype, self, f"weights {r}")
        require(1 <= self.directions <= 2, self, f"has {self.directions} directions, not 1 or 2")
        d, h = self.directions, self.cells
        count = 3 * d
        require(len(self.activations) == count, self, f"{len(self.activations)} activations")
        for activation in self.activations:
            require(make_table(activation) is not None, self, f"no table of {activation}")
        require(p.rank == 3 and p.shape[2] == 4 * d * h, self, f"projected inputs {p}")
        n, steps, _ = p.shape
        require_shape(self, "recurrent weights", r, (d, h, 4 * h))
        require_shape(self, "scale", scale, (d, 4 * h))
        require_shape(self, "peepholes", peepholes, (d, 3 * h))
        for state in (h0, c0):
            require_shape(self, "initial state", state, (n, d * h))
        require(0 < self.bound < 2 ** (8 * self.dtype.bytes - 1), self, f"bound {self.bound}")
        known = [name for name in RESULTS if name in self.returns]
        require(bool(known) and known == list(self.returns), self, f"returns {self.returns}")
        last = TensorType((n, d * h))
        types = {SEQUENCE: TensorType((n, steps, d * h), self.dtype), HIDDEN: last, CELL: last}
        return tuple(types[name] for name in self.returns)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Step by step, all samples of a direction at once."""
        (p, r, scale), (h0, c0, peepholes) = operands(self, inputs, 3, 3)
        n, steps, _ = p.shape
        d, h = self.directions, self.cells
        sequence = np.zeros((n, steps, d * h), self.dtype.numpy)
        hidden, cell = np.zeros((n, d * h), np.float32), np.zeros((n, d * h), np.float32)
        for k in range(d):
            part = slice(k * h, k * h + h)
            y = np.zeros((n, h), self.dtype.numpy)
            if h0 is not None:
                y = quantised(
                    f32(f32(h0[:, part]) * np.float32(self.bound)), self.bound, self.dtype
                )
            c = f32(np.zeros((n, h)) if c0 is None else c0[:, part])
            others = [f32(s) for s in np.split(peepholes[k], 3)] if peepholes is not None else []
            for t in range(steps)[:: -1 if self.reverse[k] else 1]:
                given = f32(p[:, t, 4 * k * h : 4 * (k + 1) * h])
                z = f32(f32(f32(integer_product(y, r[k])) * f32(scale[k])) + given)
                y, c = self.step(k, z, c, others)
                sequence[:, t, part] = y
            hidden[:, part] = f32(f32(y) * np.float32(1.0 / self.bound))
            cell[:, part] = c
        found = {SEQUENCE: sequence, HIDDEN: hidden, CELL: cell}
        return tuple(found[name] for name in self.returns)

    def step(
        self, direction: int, z: F32, c: F32, peepholes: Sequence[F32]
    ) -> tuple[RefArray, F32]:
        """Outputs and cells [N,H] from what goes into the gates, without peepholes."""
        of_gate, of_input, of_cell = self.tables(direction)
        unit, square, outer = self.units
        i, o, f, g = np.split(z, 4, axis=1)
        if peepholes:
            i, f = f32(i + f32(peepholes[0] * c)), f32(f + f32(peepholes[2] * c))
        kept = f32(f32(f32(f32(of_gate.lookup(f) * unit) * c)) + np.float32(TINY))
        c = f32(kept + f32(f32(of_gate.lookup(i) * of_input.lookup(g)) * square))
        if peepholes:
            o = f32(o + f32(peepholes[1] * c))
        of_output = of_cell.lookup(f32(c * np.float32(of_cell.scale)))
        y = f32(f32(of_gate.lookup(o) * of_output) * outer)
        return quantised(y, self.bound, self.dtype), c

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """Those of the recurrent products."""
        (p, r, _), _ = operands(self, inputs, 3, 3)
        return int(p.shape[0] * p.shape[1] * r.elements)
