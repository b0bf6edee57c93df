"""The C that follows the sums of a quantised product in fixed point: see `QuantizedProduct`.

`high(sum * multiplier)` and `shifted` by r bits are two roundings; the second one adds 2^(r-1) and
the zero point times 2^r at once. On x86 they are a product of 64 bits and one addition
(`long_product.py`) where that gives the same integers, and neighbouring vectors are narrowed
together. Products with float64 are one word; on processors with one lane, of which many have no
float64, and with Helium, they are a product of 64 bits, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np

from cannery.ctext.environment import offset
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import I64
from cannery.ops.fixed_point.store import most_together, store_held, store_held_together
from cannery.ops.quantized.long_product import (
    LongProduct,
    product_of_doubles,
    product_of_two_roundings,
)
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import ConstArray, Job
from cannery.target.isa import Isa


def by_vector(
    lines: Callable[[Vec, str, str, str], Sequence[str]], block: VectorBlock, rows: int,
    channel: str, pointer: str, pitch: int,
) -> list[str]:  # fmt: skip
    """Statements that store the results of a tile of sums `a<row>_<vector>`, one vector after the
    other: those that `lines` makes for a vector, its sums, `channel` and its pointer. Row m goes to
    `pointer` + m * `pitch`.
    """
    found = list[str]()
    for m, (n, v) in product(range(rows), enumerate(block.vecs)):
        at = f"{pointer}{offset(m * pitch + v.start)}"
        found += ["{", *lines(v, f"a{m}_{n}", channel, at), "}"]
    return found


#: Makes statements that store the results of single sums of one channel: from C expressions of the
#: sums, the channel, and pointers.
Column = Callable[[Sequence[str], str, Sequence[str]], Sequence[str]]


def by_column(
    column: Column, block: VectorBlock, rows: int, channel: str, pointer: str, pitch: int
) -> list[str]:
    """The same for single sums, in a loop over the vectors, which is less code."""
    columns = len(block.vecs)
    names = [f"a{m}_{n}" for n, m in product(range(columns), range(rows))]
    to = [f"{pointer}{offset(m * pitch)}" for m in range(rows)]
    if columns == 1:
        return ["{", *column(names, channel, to), "}"]
    sums = [f"sums[n * {rows}{offset(m)}]" for m in range(rows)]
    found = column(sums, f"{channel} + n", [f"{each} + n" for each in to])
    return [
        "{", f"const int32_t sums[{columns * rows}] = {{{', '.join(names)}}};",
        f"for (int n = 0; n < {columns}; ++n) {{", *found, "}", "}",
    ]  # fmt: skip


@dataclass(frozen=True)
class FixedFinish:
    """Renders these statements, as `Finish` does; `constants` are the arrays that they read.

    `values` are what the arrays hold, or the number that all of an array are. `long`: a product of
    64 bits takes the place of two roundings or of float64.
    """

    #: It calls no function of its own.
    functions: ClassVar[str] = ""

    op: QuantizedProduct
    symbol: str
    start: str
    values: dict[str, int | None]
    long: LongProduct | None
    constants: tuple[ConstArray, ...]
    isa: Isa

    @property
    def y(self) -> str:
        """The C type of a result."""
        return self.op.result_dtype.c_name

    def scalar_lines(self, acc: str, channel: str, pointer: str) -> Sequence[str]:
        """The same for a single sum."""
        return self.lines(Vec(0, 1, 1, 0), acc, channel, pointer)

    def lines(
        self, v: Vec, acc: str, channel: str, pointer: str, *, floats: bool = False
    ) -> Sequence[str]:
        """Statements that store the results of one vector of sums at `pointer`.

        `channel` is the C expression of its first channel; `floats`: sums are whole numbers in
        float32.
        """
        t, at = f"i32x{v.lanes}", f"{channel}{offset(v.start)}"
        value = f"{v.t}_to_i32({acc})" if floats else acc
        held = self.op.held
        assert held is not None
        stored = store_held(v, self.op.dtype, held, pointer)
        return [f"{t} v = {self._whole(t, value, at)};", *stored]

    def tile(
        self, block: VectorBlock, rows: int, channel: str, pointer: str, pitch: int, *, kept: bool,
        floats: bool = False, rolled: bool = False,
    ) -> Sequence[str]:  # fmt: skip
        """The same for a tile, as `Finish.tile`; compilers keep the factors that fit."""
        if rolled:
            return by_column(self.column, block, rows, channel, pointer, pitch)
        if self.isa.family != "x86" or floats:
            lines = partial(self.lines, floats=floats)
            return by_vector(lines, block, rows, channel, pointer, pitch)
        found = list[str]()
        for m, places in product(range(rows), together(block.vecs, self.op.dtype)):
            vecs = [block.vecs[n] for n in places]
            at = f"{pointer}{offset(m * pitch + vecs[0].start)}"
            if len(vecs) == 1:
                lines_ = self.lines(vecs[0], f"a{m}_{places[0]}", channel, at)
            else:
                lines_ = self._together(vecs, [f"a{m}_{n}" for n in places], channel, at)
            found += ["{", *lines_, "}"]
        return found

    def _together(
        self, vecs: Sequence[Vec], sums: Sequence[str], channel: str, pointer: str
    ) -> list[str]:
        """Statements that store the results of neighbouring vectors at once."""
        assert self.op.held is not None
        t, names = f"i32x{vecs[0].lanes}", [f"v{n}" for n in range(len(vecs))]
        found = [
            f"{t} {name} = {self._whole(t, acc, f'{channel}{offset(v.start)}')};"
            for name, v, acc in zip(names, vecs, sums, strict=True)
        ]
        return found + store_held_together(t, names, self.op.dtype, self.op.held, pointer)

    def column(self, sums: Sequence[str], channel: str, pointers: Sequence[str]) -> list[str]:
        """Statements that store the results of single sums of one channel."""
        found = list[str]()
        for acc, pointer in zip(sums, pointers, strict=True):
            found += ["{", *self.lines(Vec(0, 1, 1, 0), acc, channel, pointer), "}"]
        return found

    def _whole(self, t: str, value: str, at: str) -> str:
        """The results before they are clamped."""
        if self.long is not None and self.long.left:
            return self._by_long(self.long, t, value, at)
        if self.long is not None and t != "i32x1":
            numbers = (self._numbers(t, name, at) for name in ("factor", "half", "shift"))
            return f"{t}_long_product({value}, {', '.join(numbers)})"
        if self.long is not None:
            factor, half, shift = (
                self._numbers("i32x1", name, at) for name in ("factor", "half", "shift")
            )
            high = f"(int32_t)((int64_t)({value}) * {factor} >> 32)"
            return f"({high} + {half}) >> {shift}"
        if "shift" not in self.values:
            whole = f"{t}_times_double({value}, {self.symbol}_factor + {at})"
            return f"{t}_add({whole}, {t}_set1({self.op.zero}))" if self.op.zero else whole
        factor, half, shift = (self._numbers(t, name, at) for name in ("factor", "half", "shift"))
        return f"{t}_shifted({t}_high({value}, {factor}), {half}, {shift})"

    def _by_long(self, long: LongProduct, t: str, value: str, at: str) -> str:
        """The same by the words for x86."""
        high = f"{t}_mulhi({t}_sll({value}, {long.left}), {self.symbol}_factor + {at})"
        if long.away.any():
            high = f"{t}_outward({high}, {self._numbers(t, 'away', at)})"
        same = self.values["shift"]
        whole = f"{t}_add({high}, {self._numbers(t, 'half', at)})"
        if same is not None:
            return f"{t}_sra({whole}, {same})"
        return f"{t}_srav({whole}, {self._numbers(t, 'shift', at)})"

    def _numbers(self, t: str, name: str, at: str) -> str:
        """C expression of the numbers of an array, or of the one that all are."""
        same = self.values[name]
        return f"{t}_load({self.symbol}_{name} + {at})" if same is None else f"{t}_set1({same})"


def make_fixed_finish(
    job: Job, op: QuantizedProduct, start: tuple[ConstArray, ...], largest: I64
) -> FixedFinish:
    """What follows sums of at most `largest[N]`; `start` is the array of their initial values, if
    they have any.
    """
    inputs = (*job.step.anchor.inputs, *[""] * 8)
    constants = job.graph.constants
    factor, zero = constants[inputs[6]], op.zero or 0
    long = _long_product(job, op, factor, constants[inputs[7]] if inputs[7] else None, largest)
    arrays: dict[str, Array] = {"factor": factor}
    if long is not None:
        arrays = {"factor": long.multiplier, "half": long.half, "shift": long.shift}
        arrays |= {"away": long.away} if long.away.any() else {}
    elif inputs[7]:
        shift = constants[inputs[7]].astype(np.int64)
        half = (np.int64(1) << (shift - 1)) + (np.int64(zero) << shift)
        arrays = {"factor": factor, "half": half.astype(np.int32), "shift": shift.astype(np.int32)}
    single = {name: _same(job, array) for name, array in arrays.items()}
    if long is not None and long.left:
        single["factor"] = None  # its word reads memory
    stored = tuple(
        ConstArray(f"{job.symbol}_{name}", padded_channels(array, job.isa), f"{name} [n], padded",
                   is_fixed=True)
        for name, array in arrays.items()
        if single[name] is None
    )  # fmt: skip
    if not stored:  # the words are needed nevertheless
        name = next(iter(arrays))
        stored = (
            ConstArray(f"{job.symbol}_{name}", padded_channels(arrays[name], job.isa),
                       f"{name} [n], padded", is_fixed=True),
        )  # fmt: skip
        single[name] = None
    first = start[0].name if start else ""
    return FixedFinish(op, job.symbol, first, single, long, (*start, *stored), job.isa)


def _long_product(
    job: Job, op: QuantizedProduct, factor: Array, shift: Array | None, largest: I64
) -> LongProduct | None:
    """The product of 64 bits that takes the place of the other words, if there is one."""
    isa = job.isa
    if job.graph.weights_vary:
        return None
    if shift is not None:
        if isa.family != "x86":
            return None
        factors = (factor.astype(np.int64), shift.astype(np.int64))
        return product_of_two_roundings(op, factors, largest, alike=isa.widest == 4)
    if isa.widest == 1 or isa.has("mve"):
        return product_of_doubles(op, factor.view(np.float64), largest)
    return None


def together(vecs: Sequence[Vec], dtype: DType) -> list[tuple[int, ...]]:
    """The places of vectors that are narrowed and stored at once: full neighbours of four or eight
    lanes, two or four of them.
    """
    found, n = list[tuple[int, ...]](), 0
    while n < len(vecs):
        alike = vecs[n].full and vecs[n].lanes in (4, 8)
        count = 1
        for more in most_together(dtype) if alike else ():
            part = vecs[n : n + more]
            if len(part) == more and all(v.full and v.lanes == vecs[n].lanes for v in part):
                count = more
                break
        found.append(tuple(range(n, n + count)))
        n += count
    return found


def _same(job: Job, array: Array) -> int | None:
    """The number that all of int32 are; code for other weights, too, does not know it."""
    same = array.dtype == np.int32 and not job.graph.weights_vary and (array == array[0]).all()
    return int(array[0]) if same else None
