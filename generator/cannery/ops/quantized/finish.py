"""The C that follows the sums of a quantised product: see `QuantizedProduct`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
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
from cannery.ops.quantized.fixed_finish import FixedFinish, by_column, by_vector, make_fixed_finish
from cannery.ops.quantized.fixed_scale import FixedScale, fixed_scale
from cannery.ops.quantized.groups import Groups
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.scale import bounded, clamps_lanes, store_lanes
from cannery.ops.quantized.table import Table, make_table
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.lookup import table_array
from cannery.schedule.schedule import ConstArray, Job
from cannery.target.isa import Isa

#: With so many registers, words of biases would cost dense layers 9% more instructions.
FEW_REGISTERS = 8


@dataclass(frozen=True)
class Finish:
    """Renders these statements; `constants` are the arrays that they read.

    `start` is the array of the sums' initial values; empty: zeros. `small`: the results provably
    fit the quick words for bytes; `largest`: no magnitude exceeds it before it is clamped. `fixed`:
    how single sums are scaled without floats; `derived` is then the scale of a `channel`, if no
    array holds it.
    """

    op: QuantizedProduct
    symbol: str
    biased: bool
    table: Table | None
    gain: float | None
    start: str
    small: bool
    fixed: FixedScale | None
    derived: str
    constants: tuple[ConstArray, ...]
    isa: Isa
    largest: float = float("inf")

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

    @property
    def functions(self) -> str:
        """What the code calls, to stand before it: the result by floats, where `fixed` asks."""
        if not self.fixed:
            return ""
        lines = [
            "/* The sum in the scale of the results, where rounding decides; rarely called. */",
            f"CANNERY_APART int32_t {self.symbol}_rounded(int32_t sum, int channel)", "{",
            *(f"    {line}" for line in self._scaled("sum", "channel")),
            "    return f32x1_to_i32_round(v);", "}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def _scaled(self, acc: str, channel: str) -> list[str]:
        """Statements that make `v` of a sum."""
        scale = self.derived or f"{self.symbol}_scale[{channel}]"
        found = [f"f32x1 v = f32x1_mul(f32x1_from_i32({acc}), {scale});"]
        if self.biased and self.fixed and self.fixed.words is not None:
            word = f"{self.symbol}_offset[{channel}]"
            found.append(f"v = f32x1_add(v, cannery_word_float({word}, {self.fixed.fraction}));")
        elif self.biased:
            found.append(f"v = f32x1_add(v, {self.symbol}_bias[{channel}]);")
        return found

    def scalar_lines(self, acc: str, channel: str, pointer: str) -> Sequence[str]:
        """The same for a single sum, which is clamped as an integer where that is the same."""
        return self._single_lines(acc, channel, pointer, None)

    def _single_lines(
        self, acc: str, channel: str, pointer: str, factors: tuple[str, str] | None
    ) -> Sequence[str]:
        """The same; `factors` are the names of a channel's factor and offset, if declared."""
        held = self.held
        if held is None:
            return self.lines(Vec(0, 1, 1, 0), acc, channel, pointer)
        zero, low, high = held
        if self.fixed:
            found, rounded = self._fixed_lines(self.fixed, acc, channel, factors), "whole"
        else:
            found, rounded = self._scaled(acc, channel), "f32x1_to_i32_round(v)"
        whole = f"{rounded}{offset(zero)}"
        clamped = f"cannery_held({whole}, {low}, {high})"
        if (low, high) == (-127, 127):
            clamped = f"cannery_held_127({whole})"
        return [*found, f"*({pointer}) = ({self.y}){clamped};"]

    def _fixed_lines(
        self, fixed: FixedScale, acc: str, channel: str, factors: tuple[str, str] | None = None
    ) -> list[str]:
        """Statements that make `whole`, the rounded result, of a sum."""
        factor, added = factors or self._fixed_factors(fixed, channel)
        return fixed.lines(acc, factor, added, f"{self.symbol}_rounded({acc}, {channel})")

    def _fixed_factors(self, fixed: FixedScale, channel: str) -> tuple[str, str]:
        """C expressions of a channel's factor, and of what is added."""
        factor, added = (f"{self.symbol}_{what}[{channel}]" for what in ("factor", "offset"))
        if fixed.words is not None:
            biased = f"cannery_word_fixed({added}) + " if self.biased else ""
            added = f"{biased}{fixed.half}"
        return factor, added

    def column(self, sums: Sequence[str], channel: str, pointers: Sequence[str]) -> list[str]:
        """Statements that store the results of single sums of one channel."""
        factors, found = None, list[str]()
        if self.fixed:
            factors = ("factor", "added")
            values = zip(factors, self._fixed_factors(self.fixed, channel), strict=True)
            found = [f"const int32_t {name} = {value};" for name, value in values]
        for acc, pointer in zip(sums, pointers, strict=True):
            found += ["{", *self._single_lines(acc, channel, pointer, factors), "}"]
        return found

    @property
    def held(self) -> tuple[int, int, int] | None:
        """The zero point and the bounds of results that are clamped as integers, if they may be."""
        op, relu = self.op, self.op.activation == (Relu(),)
        whole = op.result_dtype in STORED and not self.table and self.gain is None
        clip = op.activation[0] if len(op.activation) == 1 else None
        if not (whole and self.small and (relu or isinstance(clip, Clip) or not op.activation)):
            return None
        zero, info = op.zero or 0, np.iinfo(op.dtype.value)
        low, high = (-op.bound, op.bound) if op.bound else (int(info.min), int(info.max))
        if relu:
            low = max(low, zero)
        if isinstance(clip, Clip):
            least, most = (float(np.rint(np.float32(b))) for b in (clip.minimum, clip.maximum))
            low, high = int(max(low, least + zero)), int(min(high, most + zero))
        return (zero, low, high) if low <= high else None

    @property
    def byte_bounds(self) -> tuple[int, int] | None:
        """The bounds of results that may be clamped as bytes: converting saturates, all that comes
        after the sums never falls where these grow, and rounding does not either.
        """
        op, gain = self.op, np.float32(1.0 if self.gain is None else self.gain)
        saturates = self.isa.family == "arm" and self.isa.bits == 64
        whole = op.result_dtype is DType.INT8 and bool(op.bound) and not self.table and gain > 0.0
        last = op.activation[0] if len(op.activation) == 1 else None
        if not (saturates and whole and (not op.activation or isinstance(last, Relu | Clip))):
            return None
        low, high = float(-op.bound), float(op.bound)
        if isinstance(last, Relu):
            low = max(low, 0.0)
        if isinstance(last, Clip):
            least, most = (
                float(np.rint(np.float32(b) * gain)) for b in (last.minimum, last.maximum)
            )
            low, high = max(low, min(least, high)), min(high, max(most, low))
        return int(low), int(high)

    def lines(
        self, v: Vec, acc: str, channel: str, pointer: str, *, floats: bool = False
    ) -> Sequence[str]:
        """Statements that store the results of one vector of sums at `pointer`.

        `channel` is the C expression of its first channel; `floats`: sums are whole numbers in
        float32.
        """
        if self.fixed and v.lanes == 1 and not floats:
            return self.scalar_lines(acc, f"{channel}{offset(v.start)}", pointer)
        if self.op.is_sum:
            return _store_sums(v, f"{v.t}_to_i32({acc})" if floats else acc, pointer)
        factors = [self._factor(name, v, channel) for name in self._factors]
        whole = acc if floats else f"{v.t}_from_i32({acc})"
        return [*self._value(v, "v", whole, factors), *self._stored((v,), ("v",), pointer)]

    def tile(
        self, block: VectorBlock, rows: int, channel: str, pointer: str, pitch: int, *, kept: bool,
        floats: bool = False, rolled: bool = False,
    ) -> Sequence[str]:  # fmt: skip
        """Statements that store the results of a tile of sums `a<row>_<vector>`.

        Row m goes to `pointer` + m * `pitch`; `channel` and `floats` as in `lines`. `kept`: scales
        and biases stay in registers for all rows, and neighbouring vectors are narrowed together.
        `rolled`: a loop scales the single sums of a row, which is less code.
        """
        if rolled:
            return by_column(self.column, block, rows, channel, pointer, pitch)
        if not kept or self.fixed or self.op.is_sum:
            lines = partial(self.lines, floats=floats)
            return by_vector(lines, block, rows, channel, pointer, pitch)
        found = list[str]()
        for places in self._together(block.vecs):
            vecs = [block.vecs[n] for n in places]
            found.append("{")
            for (n, v), name in product(zip(places, vecs, strict=True), self._factors):
                found.append(f"{v.t} {name}{n} = {self._factor(name, v, channel)};")
                found += [f"CANNERY_OPAQUE_VEC({name}{n});"]
            for m in range(rows):
                found.append("{")
                for n, v in zip(places, vecs, strict=True):
                    factors = [f"{name}{n}" for name in self._factors]
                    whole = f"a{m}_{n}" if floats else f"{v.t}_from_i32(a{m}_{n})"
                    found += self._value(v, f"v{n}", whole, factors, as_bytes=len(vecs) == 2)
                at = f"{pointer}{offset(m * pitch + vecs[0].start)}"
                found += [*self._stored(vecs, [f"v{n}" for n in places], at), "}"]
            found.append("}")
        return found

    @property
    def _factors(self) -> tuple[str, ...]:
        """The arrays that every vector of sums meets."""
        return ("scale", "bias") if self.biased else ("scale",)

    def _factor(self, name: str, v: Vec, channel: str) -> str:
        return f"{v.t}_load({self.symbol}_{name} + {channel}{offset(v.start)})"

    def _together(self, vecs: Sequence[Vec]) -> list[tuple[int, ...]]:
        """The places of vectors that are stored at once: full neighbours, if they are narrowed."""
        found, n = list[tuple[int, ...]](), 0
        while n < len(vecs):
            pair = vecs[n : n + 2]
            full = len(pair) == 2 and all(v.full and v.lanes == pair[0].lanes for v in pair)
            both = (
                full and self.op.result_dtype in STORED and self.small and not self._clamps(pair[0])
            )
            found.append((n, n + 1) if both else (n,))
            n += 2 if both else 1
        return found

    def _value(
        self, v: Vec, name: str, whole: str, factors: Sequence[str], *, as_bytes: bool = False
    ) -> list[str]:
        """Statements that declare a vector of results, before they are rounded; `as_bytes`: and
        clamped, if they may be.
        """
        t = v.t
        found = [f"{t} {name} = {t}_mul({whole}, {factors[0]});"]
        found += [f"{name} = {t}_add({name}, {bias});" for bias in factors[1:]]
        if self._clamps(v):
            return found
        late = as_bytes and self.byte_bounds is not None
        if self.table:
            found.append(f"{name} = {self.table.c(f'{self.symbol}_table', t, name)};")
        elif not late:
            found += [f"{name} = {op.c(t, name)};" for op in self.op.activation]
        if self.gain is not None:
            found.append(f"{name} = {t}_mul({name}, {t}_set1({c_float(self.gain)}));")
        if self.op.result_dtype is DType.FLOAT32 or not self.op.bound or late:
            return found
        high = not self.small or self.op.bound < np.iinfo(self.op.dtype.value).max
        low = not self._is_positive
        held = bounded(t, name, self.op.bound, low=low, high=high)
        return [*found, f"{name} = {held};"] if low or high else found

    def _stored(self, vecs: Sequence[Vec], values: Sequence[str], pointer: str) -> Sequence[str]:
        """Statements that store one vector of results, or two."""
        op, v = self.op, vecs[0]
        if op.result_dtype is DType.FLOAT32:
            return [v.store(pointer, values[0])]
        if self._clamps(v):
            return self._clamped(v, values[0], pointer)
        zero = 0 if op.bound else op.zero or 0
        if len(values) == 2 and self.byte_bounds:
            low, high = self.byte_bounds
            if (low, high) == (0, 127) and self.largest < np.iinfo(np.int16).max:
                return [f"{v.t}_put2_i8_positive({pointer}, {', '.join(values)});"]
            return [f"{v.t}_put2_i8_held({pointer}, {', '.join(values)}, {low}, {high});"]
        if len(values) == 2:
            word = Groups.PUTS[op.dtype].replace("put", "put2")
            return [f"{v.t}_{word}({pointer}, {', '.join(values)}, {zero});"]
        write = put if op.bound or self.small else saturate
        return write(v, values[0], pointer, zero, op.dtype)

    def _clamps(self, v: Vec) -> bool:
        """Whether a vector is clamped as integers."""
        return clamps_lanes(v, self.isa) and self.held is not None

    def _clamped(self, v: Vec, value: str, pointer: str) -> list[str]:
        """Statements that do so with rounded floats, and store them."""
        assert self.held
        zero, low, high = self.held
        whole = f"{v.t}_to_i32_round({value})"
        if zero:
            whole = f"i32x4_add({whole}, i32x4_set1({zero}))"
        return [store_lanes(v, whole, (low, high), pointer, self.op.dtype)]


def _store_sums(v: Vec, acc: str, pointer: str) -> list[str]:
    if v.full:
        return [f"i32x{v.lanes}_store({pointer}, {acc});"]
    return [
        f"int32_t lanes[{v.lanes}];", f"i32x{v.lanes}_store(lanes, {acc});",
        f"memcpy({pointer}, lanes, {v.valid} * sizeof lanes[0]);",
    ]  # fmt: skip


#: What renders the end of a kernel.
AnyFinish = Finish | FixedFinish


def make_finish(
    job: Job, op: QuantizedProduct, w: NDArray[Any], start: NDArray[np.int64], factor: int = 1
) -> AnyFinish:
    """From the inputs after x and w[K,N]; `start` is added to the one of that name. Sums are
    `factor` times as large, a power of two.
    """
    x = job.type(job.step.anchor.inputs[0]).dtype
    scale, bias, gain, given = (*job.step.anchor.inputs[2:], "", "", "", "")[:4]
    first = job.graph.constants[given].astype(np.int64) if given else np.zeros_like(start)
    start = start + first
    # Code for other weights, too, has whatever any of them may need.
    vary = job.graph.weights_vary
    starts = bool(start.any()) or (vary and job.graph.quantization is None)
    initial = (_padded(job, (start * factor).astype(np.int32), "start"),) if starts else ()
    largest = np.abs(first) + largest_sums(w, largest_of(x))
    if op.held is not None:
        return make_fixed_finish(job, op, initial, largest)
    constants = [
        _padded(job, job.constant(value) / np.float32(by), what)
        for value, what, by in ((scale, "scale", factor), (bias, "bias", 1))
        if value
    ]
    table = make_table(op.activation) if op.by_table else None
    if table:
        constants.append(table_array(f"{job.symbol}_table", table))
    constants += initial
    finish = Finish(
        op, job.symbol, bool(bias), table, float(job.constant(gain)) if gain else None,
        f"{job.symbol}_start" if starts else "", False, None, "", tuple(constants), job.isa,
    )  # fmt: skip
    if op.is_sum or vary:
        return finish
    added = job.constant(bias) if bias else np.zeros(1, np.float32)
    most = _largest(largest, job.constant(scale), added)
    finish = replace(
        finish,
        small=_is_small(op, most),
        largest=most * abs(1.0 if finish.gain is None else finish.gain),
    )
    if job.isa.has("soft_float"):
        return _without_floats(
            finish, largest * factor, job.constant(scale) / np.float32(factor), added
        )
    return finish


def _without_floats(finish: Finish, sums: NDArray[Any], scale: F32, bias: F32) -> Finish:
    """The same with integers that scale single sums, if they can."""
    held = finish.held
    if held is None:
        return finish
    zero, low, high = held
    by_word = finish.isa.integer_registers > FEW_REGISTERS or not isinstance(
        finish.op, QuantizedMatMul
    )
    fixed = fixed_scale(sums, scale, bias, low - zero, high - zero, by_word=by_word)
    if fixed is None:
        return finish
    name = finish.symbol
    derived = fixed.exact_scale(f"{name}_factor[channel]", scale)
    spared = {f"{name}_scale"} if derived else set()
    arrays = [(fixed.factors, "factor", "factor")]
    if fixed.words is None:
        arrays.append((fixed.offsets, "offset", "offset"))
    else:
        spared.add(f"{name}_bias")
        arrays += [(fixed.words, "offset", "bias words")] if finish.biased else []
    added = (ConstArray(f"{name}_{what}", array, f"{text} [n]") for array, what, text in arrays)
    kept = (c for c in finish.constants if c.name not in spared)
    return replace(finish, fixed=fixed, derived=derived, constants=(*kept, *added))


def _largest(sums: NDArray[Any], scale: F32, bias: F32) -> float:
    """The largest magnitude of sums in the scale of results, from the largest sums."""
    return float((sums * np.abs(f64(scale)) + np.abs(f64(bias))).max(initial=0.0))


def _is_small(op: QuantizedProduct, largest: float) -> bool:
    """Whether results stay within the range of `put`, judged by the largest scaled sum."""
    grows = (o for o in op.activation if not isinstance(o, Relu | Clip))
    bounds = [b for o in op.activation if isinstance(o, Clip) for b in (o.minimum, o.maximum)]
    finite = [abs(b) for b in bounds if np.isfinite(b)]
    return max([largest, *finite]) < LARGEST_PUT and not any(grows)


def _padded(job: Job, array: Array, what: str) -> ConstArray:
    return ConstArray(
        f"{job.symbol}_{what}", padded_channels(array, job.isa), f"{what} [n], padded"
    )
