"""The C that follows the sums of a quantised product: see `QuantizedProduct`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ctext.literals import c_float
from cannery.ir.graph import Array
from cannery.ir.numeric import f64
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Clip, Relu
from cannery.ops.quantize.stream import LARGEST_PUT, put, saturate
from cannery.ops.quantized.arithmetic import F32, STORED, largest_of, largest_sums
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.quantized.scale import store_bounded
from cannery.ops.quantized.table import Table, make_table
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.lookup import table_array
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class Finish:
    """Renders these statements; `constants` are the arrays that they read.

    `start` is the array of the sums' initial values; empty: zeros. `small`: the results provably
    fit the quick words for bytes.
    """

    op: QuantizedProduct
    symbol: str
    biased: bool
    table: Table | None
    gain: float | None
    start: str
    small: bool
    constants: tuple[ConstArray, ...]

    @property
    def y(self) -> str:
        """The C type of a result."""
        return self.op.result_dtype.c_name

    @property
    def _is_positive(self) -> bool:
        """Whether no result is below 0."""
        last = self.op.activation[-1] if self.op.activation else None
        above = isinstance(last, Relu) or (isinstance(last, Clip) and last.minimum >= 0.0)
        return above and (self.gain is None or self.gain > 0.0)

    def scalar_lines(self, acc: str, channel: str, pointer: str) -> Sequence[str]:
        """The same for a single sum, which is clamped as an integer where that is the same."""
        held = self._held()
        if held is None:
            return self.lines(Vec(0, 1, 1, 0), acc, channel, pointer)
        zero, low, high = held
        found = [f"f32x1 v = f32x1_mul(f32x1_from_i32({acc}), {self.symbol}_scale[{channel}]);"]
        if self.biased:
            found.append(f"v = f32x1_add(v, {self.symbol}_bias[{channel}]);")
        whole = f"f32x1_to_i32_round(v){offset(zero)}"
        clamped = f"cannery_held({whole}, {low}, {high})"
        if (low, high) == (-127, 127):
            clamped = f"cannery_held_127({whole})"
        return [*found, f"*({pointer}) = ({self.y}){clamped};"]

    def _held(self) -> tuple[int, int, int] | None:
        """The zero point and the bounds of results that are clamped as integers, if they may be."""
        op, relu = self.op, self.op.activation == (Relu(),)
        whole = op.result_dtype in STORED and not self.table and self.gain is None
        if not (whole and self.small and (relu or not op.activation)):
            return None
        if op.bound:
            return 0, 0 if relu else -op.bound, op.bound
        zero, info = op.zero or 0, np.iinfo(op.dtype.value)
        return zero, max(int(info.min), zero) if relu else int(info.min), int(info.max)

    def lines(
        self, v: Vec, acc: str, channel: str, pointer: str, *, floats: bool = False
    ) -> Sequence[str]:
        """Statements that store the results of one vector of sums at `pointer`.

        `channel` is the C expression of its first channel; `floats`: sums are whole numbers in
        float32.
        """
        if self.op.is_sum:
            return _store_sums(v, f"{v.t}_to_i32({acc})" if floats else acc, pointer)
        t, at = v.t, f"{channel}{offset(v.start)}"
        value = acc if floats else f"{t}_from_i32({acc})"
        found = [f"{t} v = {t}_mul({value}, {t}_load({self.symbol}_scale + {at}));"]
        if self.biased:
            found.append(f"v = {t}_add(v, {t}_load({self.symbol}_bias + {at}));")
        if self.table:
            found.append(f"v = {self.table.c(f'{self.symbol}_table', t, 'v')};")
        else:
            found += [f"v = {op.c(t, 'v')};" for op in self.op.activation]
        if self.gain is not None:
            found.append(f"v = {t}_mul(v, {t}_set1({c_float(self.gain)}));")
        if self.op.result_dtype is DType.FLOAT32:
            return [*found, v.store(pointer, "v")]
        if self.op.bound:
            signed, bound, dtype = not self._is_positive, self.op.bound, self.op.dtype
            return [
                *found, store_bounded(v, "v", pointer, bound, dtype, finite=True, signed=signed)
            ]  # fmt: skip
        write = put if self.small else saturate
        return [*found, *write(v, "v", pointer, self.op.zero or 0, self.op.dtype)]


def _store_sums(v: Vec, acc: str, pointer: str) -> list[str]:
    if v.full:
        return [f"i32x{v.lanes}_store({pointer}, {acc});"]
    return [
        f"int32_t lanes[{v.lanes}];", f"i32x{v.lanes}_store(lanes, {acc});",
        f"memcpy({pointer}, lanes, {v.valid} * sizeof lanes[0]);",
    ]  # fmt: skip


def make_finish(
    job: Job, op: QuantizedProduct, w: NDArray[Any], start: NDArray[np.int64], factor: int = 1
) -> Finish:
    """From the inputs after x and w[K,N]: scale?, bias?, gain?, start?; `start` is added to
    that. Sums are `factor` times as large, a power of two.
    """
    x = job.type(job.step.anchor.inputs[0]).dtype
    scale, bias, gain, given = (*job.step.anchor.inputs[2:], "", "", "", "")[:4]
    table = make_table(op.activation) if op.by_table else None
    constants = [
        _padded(job, job.constant(value) / np.float32(by), what)
        for value, what, by in ((scale, "scale", factor), (bias, "bias", 1))
        if value
    ]
    if table:
        constants.append(table_array(f"{job.symbol}_table", table))
    first = job.graph.constants[given].astype(np.int64) if given else np.zeros_like(start)
    start = start + first
    # Code for other weights, too, has whatever any of them may need.
    vary = job.graph.weights_vary
    starts = bool(start.any()) or (vary and job.graph.quantization is None)
    if starts:
        constants.append(_padded(job, (start * factor).astype(np.int32), "start"))
    return Finish(
        op, job.symbol, bool(bias), table, float(job.constant(gain)) if gain else None,
        f"{job.symbol}_start" if starts else "", not op.is_sum and not vary and _is_small(
            op, np.abs(first) + largest_sums(w, largest_of(x)), job.constant(scale),
            job.constant(bias) if bias else np.zeros(1, np.float32),
        ), tuple(constants),
    )  # fmt: skip


def _is_small(op: QuantizedProduct, sums: NDArray[Any], scale: F32, bias: F32) -> bool:
    """Whether results stay within the range of `put`, judged by the largest sums."""
    grows = (o for o in op.activation if not isinstance(o, Relu | Clip))
    bounds = [b for o in op.activation if isinstance(o, Clip) for b in (o.minimum, o.maximum)]
    finite = [abs(b) for b in bounds if np.isfinite(b)]
    largest = float((sums * np.abs(f64(scale)) + np.abs(f64(bias))).max(initial=0.0))
    return max([largest, *finite]) < LARGEST_PUT and not any(grows)


def _padded(job: Job, array: Array, what: str) -> ConstArray:
    return ConstArray(f"{job.symbol}_{what}", padded_channels(array), f"{what} [n], padded")
