"""Sums become integers of another scale without floats, for processors that have no FPU.

The definition stays `QuantizedProduct`: round(float32(float32(float32(sum) * scale) + bias)), each
rounded to nearest even. Here the same number is computed with `fraction` bits after the point,

    t = (sum * 2^shift * factor) / 2^32 + offset,   factor = scale * 2^(32 + fraction - shift),
                                                    offset = (bias + 1/2) * 2^fraction

and the result is t / 2^fraction, rounded down. `near` bounds, in units of the last bit, how far t
may be from what the floats give: the roundings of the floats (each at most 2^-24 of its result) and
those of t. Only if t is nearer than that to a whole number, the floats are computed after all, by a
function apart: once in some thousand times. So the bits are those of the floats, always.

Those floats need every bit of the biases, t only some, so one word holds both where it can:

    word = m * 2^7 + s,   bias * 2^fraction = m * 2^7 / 2^s,   |m| < 2^24,   0 <= s < 32

and word / 2^s, rounded down, is the bias with `fraction` bits; s adds at most 1/2 to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ops.quantized.arithmetic import EXACT_SUM, F32

#: By how many units the roundings of factor, offset and product may be off.
ROUNDED = 4

#: By how many more the offsets of words are off.
WORD_ROUNDED = 1

#: Bits of a word below the mantissa, and the largest shift.
WORD_BITS, WORD_SHIFT = 7, 31

#: Half of what a float32 is rounded by, relative to it.
ROUNDING = 2.0**-24

#: t stays below 2^30, so that no sum of it overflows.
BITS = 30

#: The floats may be needed for at most one in this many results.
SELDOM = 16


@dataclass(frozen=True)
class FixedScale:
    """See the module docstring; factors and offsets of each channel [N] in int32, and the words
    of the biases, if they hold them.
    """

    shift: int
    fraction: int
    near: int
    factors: NDArray[np.int32]
    offsets: NDArray[np.int32]
    words: NDArray[np.int32] | None

    @property
    def half(self) -> int:
        """What makes rounding down rounding to nearest."""
        return 1 << (self.fraction - 1)

    def fixed(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """T of sums[..., N]."""
        product = (sums << self.shift) * self.factors.astype(np.int64)
        return (product >> 32) + self.offsets

    def exact_scale(self, factor: str, scales: F32) -> str:
        """The C expression of a scale from its factor, if that holds all bits of every one; or
        empty.
        """
        bits = 32 + self.fraction - self.shift
        if not np.array_equal(np.ldexp(self.factors.astype(np.float64), -bits), scales):
            return ""
        return f"f32x1_mul(f32x1_from_i32({factor}), {c_float(2.0**-bits)})"

    def lines(self, total: str, factor: str, added: str, rounded: str) -> list[str]:
        """C statements that make `whole`, the rounded result, of a sum; `rounded` is by floats."""
        scaled = f"{total} * {1 << self.shift}" if self.shift else total
        return [
            f"const int32_t fixed = cannery_product_high({scaled}, {factor}) + {added};",
            f"int32_t whole = fixed >> {self.fraction};",
            f"if (cannery_near(fixed, {self.fraction}, {self.near})) {{",
            f"    whole = {rounded};",
            "}",
        ]

    def is_near(self, t: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where t does not prove the result."""
        return np.asarray(((t + self.near) & (2**self.fraction - 1)) < 2 * self.near)


def fixed_scale(
    sums: NDArray[Any], scale: F32, bias: F32, least: int, greatest: int, *, by_word: bool = True
) -> FixedScale | None:
    """For sums[N] up to these magnitudes, and results that are clamped from `least` to `greatest`.

    `by_word`: biases become words, if they can. None where an integer has too few bits for it.
    """
    largest = np.maximum(np.asarray(sums, np.float64), 1.0)
    scales, biases = (np.asarray(each, np.float64).ravel() for each in (scale, bias))
    if not (np.isfinite(scales).all() and np.isfinite(biases).all() and scales.any()):
        return None
    shift = BITS - int(np.ceil(np.log2(largest.max() + 1.0)))
    reach = float((largest * np.abs(scales) + np.abs(biases)).max()) + 1.0
    by_result = BITS - int(np.ceil(np.log2(reach)))
    by_factor = shift - 2 - int(np.ceil(np.log2(np.abs(scales).max())))
    fraction = min(by_result, by_factor, BITS)
    if shift < 0 or fraction < 1:
        return None
    error = _float_error(largest, biases, least, greatest)
    words = bias_words(biases, fraction) if by_word else None
    near = _nearness(ROUNDED + WORD_ROUNDED * (words is not None), error, fraction)
    if not near:
        return None
    factors = np.rint(np.ldexp(scales, 32 + fraction - shift)).astype(np.int32)
    offsets = np.rint(np.ldexp(biases + 0.5, fraction)).astype(np.int32)
    if words is not None:
        offsets = (words >> (words & WORD_SHIFT)) + np.int32(1 << (fraction - 1))
        words = np.broadcast_to(words, factors.shape)
    offsets = np.broadcast_to(offsets, factors.shape)
    return FixedScale(shift, fraction, near, factors, offsets, words)


def bias_words(biases: NDArray[np.float64], fraction: int) -> NDArray[np.int32] | None:
    """The words of biases that are numbers of float32 below 2^(30 - fraction); None if one of them
    is too small to keep all its bits.
    """
    scaled = np.ldexp(biases, fraction)
    exponents = np.frexp(scaled)[1]
    shifts = np.where(scaled == 0.0, 0, np.clip(24 + WORD_BITS - exponents, 0, WORD_SHIFT))
    mantissas = np.ldexp(scaled, shifts - WORD_BITS)
    if (mantissas != np.rint(mantissas)).any() or np.abs(mantissas).max(initial=0.0) >= 2.0**24:
        return None
    words: NDArray[np.int32] = (mantissas.astype(np.int64) * 2**WORD_BITS + shifts).astype(np.int32)
    return words


def _nearness(rounded: float, error: float, fraction: int) -> int:
    """`near` for these roundings, in units, and those of the floats; 0 if it were too much."""
    near = int(np.ceil(rounded + error * 2.0**fraction))
    return near if 2 * near * SELDOM <= 2**fraction else 0


def _float_error(
    largest: NDArray[np.float64], biases: NDArray[np.float64], least: int, greatest: int
) -> float:
    """By how much the floats differ from exact results, where these are not clamped."""
    result = max(abs(least), abs(greatest)) + 1.0
    product = result + float(np.abs(biases).max(initial=0.0))
    roundings = 1.0 + (largest.max() > EXACT_SUM)
    return float(1.001 * ROUNDING * (roundings * product + result))


@dataclass(frozen=True)
class FixedSum:
    """Two bytes, each times a number, added: t = a * factors[0] + b * factors[1] + offset."""

    fraction: int
    near: int
    factors: tuple[int, int]
    offset: int

    @property
    def needed(self) -> str:
        """A C expression: whether `fixed` does not prove the result."""
        return f"cannery_near(fixed, {self.fraction}, {self.near})"

    def total(self, a: str, b: str) -> str:
        """The C expression of t."""
        first, second = (f"{at} * {n}" for at, n in zip((a, b), self.factors, strict=True))
        return f"{first} + {second} + {self.offset}"


def fixed_sum(
    largest: tuple[int, int], scales: tuple[float, float], least: int, greatest: int
) -> FixedSum | None:
    """For integers up to these magnitudes, with results clamped from `least` to `greatest`.

    The floats are rounded as products, as their sum, and after one more operation. None where an
    integer has too few bits.
    """
    reaches = [n * abs(scale) for n, scale in zip(largest, scales, strict=True)]
    if not all(map(np.isfinite, scales)) or not sum(reaches):
        return None
    fraction = BITS - int(np.ceil(np.log2(sum(reaches) + 1.0)))
    if fraction < 1:
        return None
    result = max(abs(least), abs(greatest)) + 1.0
    error = 1.001 * ROUNDING * (sum(reaches) + 2.0 * result)
    near = _nearness(1.0 + sum(largest) / 2.0, error, fraction)
    first, second = (int(np.rint(np.ldexp(scale, fraction))) for scale in scales)
    return FixedSum(fraction, near, (first, second), 1 << (fraction - 1)) if near else None
