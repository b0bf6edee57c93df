"""The C that follows the sums of a quantised product in fixed point: see `QuantizedProduct`.

`high(sum * multiplier)` and `shifted` by r bits are two roundings; the second one adds 2^(r-1) and
the zero point times 2^r at once. Products with float64 are one word; on processors with one lane,
of which many have no float64, and with Helium, they are a product of 64 bits where that gives the
same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ir.graph import Array
from cannery.ops.fixed_point.arithmetic import I64, away
from cannery.ops.fixed_point.store import store_held
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import ConstArray, Job

#: No shift to the right after the first one by 32 bits is larger.
_MOST_SHIFT = 21


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


@dataclass(frozen=True)
class LongProduct:
    """Integers ((sum * multiplier[N] >> 32) + half[N]) >> shift[N], zero point included."""

    multiplier: NDArray[np.int32]
    half: NDArray[np.int32]
    shift: NDArray[np.int32]

    def value(self, sums: I64) -> I64:
        """The results for sums[..., N]."""
        high = sums * self.multiplier.astype(np.int64) >> 32
        return np.asarray((high + self.half) >> self.shift)


@dataclass(frozen=True)
class FixedFinish:
    """Renders these statements, as `Finish` does; `constants` are the arrays that they read.

    `values` are what the arrays hold, or the number that all of an array are. `long`: products of
    64 bits take the place of those with float64.
    """

    #: It calls no function of its own.
    functions: ClassVar[str] = ""

    op: QuantizedProduct
    symbol: str
    start: str
    values: dict[str, int | None]
    long: LongProduct | None
    constants: tuple[ConstArray, ...]

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
        floats: bool = False,
    ) -> Sequence[str]:  # fmt: skip
        """The same for a tile, as `Finish.tile`; compilers keep the factors that fit."""
        lines = partial(self.lines, floats=floats)
        return by_vector(lines, block, rows, channel, pointer, pitch)

    def _whole(self, t: str, value: str, at: str) -> str:
        """The results before they are clamped."""
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
    long = None
    if inputs[7]:
        shift = constants[inputs[7]].astype(np.int64)
        half = (np.int64(1) << (shift - 1)) + (np.int64(zero) << shift)
        arrays = {"factor": factor, "half": half.astype(np.int32), "shift": shift.astype(np.int32)}
    else:
        if (job.isa.widest == 1 or job.isa.has("mve")) and not job.graph.weights_vary:
            long = long_product(op, factor.view(np.float64), largest)
        arrays = {"factor": factor}
        if long is not None:
            arrays = {"factor": long.multiplier, "half": long.half, "shift": long.shift}
    single = {name: _same(job, array) for name, array in arrays.items()}
    stored = tuple(
        ConstArray(f"{job.symbol}_{name}", padded_channels(array), f"{name} [n], padded",
                   is_fixed=True)
        for name, array in arrays.items()
        if single[name] is None
    )  # fmt: skip
    if not stored:  # the words are needed nevertheless
        name = next(iter(arrays))
        stored = (
            ConstArray(f"{job.symbol}_{name}", padded_channels(arrays[name]), f"{name} [n], padded",
                       is_fixed=True),
        )  # fmt: skip
        single[name] = None
    first = start[0].name if start else ""
    return FixedFinish(op, job.symbol, first, single, long, (*start, *stored))


def _same(job: Job, array: Array) -> int | None:
    """The number that all of int32 are; code for other weights, too, does not know it."""
    same = array.dtype == np.int32 and not job.graph.weights_vary and (array == array[0]).all()
    return int(array[0]) if same else None


def long_product(
    op: QuantizedProduct, factors: NDArray[np.float64], largest: I64
) -> LongProduct | None:
    """A product of 64 bits that gives the same clamped results as factors[N] for all sums within
    +-largest[N]; None if there is none.

    Results rise with sums, so it is enough to compare them on both sides of each step.
    """
    assert op.held is not None
    zero = op.zero or 0
    exponents = np.frexp(factors)[1].astype(np.int64)
    shift = -1 - exponents
    if (shift < 1).any() or (shift > _MOST_SHIFT).any() or (largest >= 2**31).any():
        return None
    half = (np.int64(1) << (shift - 1)) + zero * (np.int64(1) << shift)
    nearest = np.floor(np.ldexp(factors, 32 + shift) + 0.5).astype(np.int64)
    wrong = np.ones(factors.shape, np.bool_)
    multiplier = nearest
    for other in (0, -1, 1, -2, 2):
        tried = np.where(wrong, np.minimum(nearest + other, 2**31 - 1), multiplier)
        narrow = (each.astype(np.int32) for each in (tried, half, shift))
        found = LongProduct(*narrow)
        multiplier = tried
        wrong = _differs(found, op, factors, largest)
        if not wrong.any():
            return found
    return None


def _differs(
    found: LongProduct, op: QuantizedProduct, factors: NDArray[np.float64], largest: I64
) -> NDArray[np.bool_]:
    """Of which channels a product gives another result for any sum."""
    assert op.held is not None
    zero, (low, high) = op.zero or 0, op.held
    steps = np.arange(low - zero + 1, high - zero + 1, dtype=np.float64)[:, None]
    with np.errstate(all="ignore"):
        places = np.nan_to_num((steps - np.copysign(0.5, steps - 0.5)) / factors, nan=0.0)
    near = np.clip(np.floor(places), -largest, largest).astype(np.int64)
    differs = np.zeros(factors.shape, np.bool_)
    for more in (-2, -1, 0, 1, 2):
        sums = np.clip(near + more, -largest, largest)
        wanted = np.clip(away(sums * factors) + zero, low, high)
        differs |= (np.clip(found.value(sums), low, high) != wanted).any(axis=0)
    return differs
