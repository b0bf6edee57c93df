"""What follows the sums of a quantised product, as C: see `QuantizedProduct`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.emit.environment import offset
from cannery.emit.literals import c_float
from cannery.ops.quantized.groups import Groups
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.quantized.scale import bounded
from cannery.ops.quantized.table import Table, make_table
from cannery.ops.shared.epilogue import CHANNEL_PADDING
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.lookup import table_array
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class Finish:
    """Renders it; `constants` are the arrays that the statements read."""

    op: QuantizedProduct
    symbol: str
    biased: bool
    table: Table | None
    gain: float | None
    constants: tuple[ConstArray, ...]

    @property
    def y(self) -> str:
        """The C type of a result."""
        return self.op.dtype.c_name if self.op.bound else "float"

    def lines(self, v: Vec, acc: str, channel: str, pointer: str) -> Sequence[str]:
        """Statements that store the results of one vector of sums at `pointer`.

        `channel` is the C expression of its first channel.
        """
        t, at = v.t, f"{channel}{offset(v.start)}"
        found = [f"{t} v = {t}_mul({t}_from_i32({acc}), {t}_load({self.symbol}_scale + {at}));"]
        if self.biased:
            found.append(f"v = {t}_add(v, {t}_load({self.symbol}_bias + {at}));")
        if self.table:
            found.append(f"v = {self.table.c(f'{self.symbol}_table', t, 'v')};")
        else:
            found += [f"v = {op.c(t, 'v')};" for op in self.op.activation]
        if self.gain is not None:
            found.append(f"v = {t}_mul(v, {t}_set1({c_float(self.gain)}));")
        if not self.op.bound:
            return [*found, v.store(pointer, "v")]
        store = f"{t}_{Groups(self.op.dtype).store}"
        value = bounded(t, "v", self.op.bound)
        stored = f"{store}({pointer}, {value});"
        return [*found, stored if v.full else f"{store}_n({pointer}, {value}, {v.valid});"]


def make_finish(job: Job, op: QuantizedProduct) -> Finish:
    """From the inputs behind x and w: scale, bias?, gain?."""
    scale, bias, gain = (*job.step.anchor.inputs[2:], "", "")[:3]
    table = make_table(op.activation) if op.by_table else None
    constants = [_padded(job, scale, "scale")]
    if bias:
        constants.append(_padded(job, bias, "bias"))
    if table:
        constants.append(table_array(f"{job.symbol}_table", table))
    return Finish(
        op, job.symbol, bool(bias), table, float(job.constant(gain)) if gain else None,
        tuple(constants),
    )  # fmt: skip


def _padded(job: Job, value: str, what: str) -> ConstArray:
    array = job.constant(value)
    padded = np.zeros(array.size + CHANNEL_PADDING, np.float32)
    padded[: array.size] = array
    return ConstArray(f"{job.symbol}_{what}", padded, f"{what} [n], padded")
