"""The arguments of recurrent layers' gates, in steps of the tables of their functions."""

from __future__ import annotations

import numpy as np

from cannery.ir.numeric import F64, Numeric, f64
from cannery.ops.quantized.table import make_table
from cannery.ops.recurrent.op import Gru, Lstm, Rnn


def gate_steps(op: Lstm | Gru | Rnn) -> F64:
    """The factor that turns the argument of each gate [D,G*H] into steps of its table."""
    found = []
    for d in range(op.directions):
        gate, value = (make_table(op.function(d, min(k, op.functions - 1))) for k in range(2))
        assert gate and value
        found.append([gate.scale] * ((op.gates - 1) * op.cells) + [value.scale] * op.cells)
    return np.array(found)


def in_steps(op: Lstm | Gru | Rnn, array: Numeric) -> F64:
    """Peepholes [D,3*H] of i, o, f, or the last gate's bias [D,H], in steps of their tables."""
    steps, width = gate_steps(op), array.shape[1]
    return f64(array) * (steps[:, :width] if isinstance(op, Lstm) else steps[:, -width:])
