"""Integers element by element: rescaled sums, sums and products of two, and integers of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.checks import require, require_type
from cannery.ops.fixed_point.arithmetic import (
    QUANTISED,
    Factor,
    away,
    by_factor,
    high_product,
    rescaled,
    shifted,
)
from cannery.ops.scalar.base import Pointwise


@dataclass(frozen=True)
class ToIntegers(Pointwise):
    """Results of `dtype`: zero plus something, clamped to minimum..maximum."""

    dtype: DType
    zero: int
    minimum: int
    maximum: int

    scalar_math: ClassVar[bool] = True

    def check(self, *, also: tuple[DType, ...] = ()) -> DType:
        """The type of the results; raises ModelError for bounds that it does not have."""
        require_type(self.dtype in (*QUANTISED, *also), self, f"to {self.dtype.value}")
        info = np.iinfo(self.dtype.value)
        held = info.min <= self.minimum <= self.maximum <= info.max
        require(held, self, f"{self.minimum} to {self.maximum} as {self.dtype.value}")
        require(info.min <= self.zero <= info.max, self, f"a zero point of {self.zero}")
        return self.dtype

    def clamped(self, value: Numeric) -> Numeric:
        """Whole numbers as results."""
        wide = np.clip(np.asarray(value, np.int64) + self.zero, self.minimum, self.maximum)
        return np.asarray(wide.astype(self.dtype.numpy))

    def result_of(self, expression: str) -> str:
        """C expression of a result."""
        bounds = f"{self.minimum - self.zero}, {self.maximum - self.zero}"
        return f"({self.dtype.c_name})(cannery_bounded({expression}, {bounds}) + {self.zero})"


@register
@dataclass(frozen=True)
class FixedRescale(ToIntegers):
    """x, multiplier, shift (int32, which broadcast) -> x * multiplier * 2^(shift - 31).

    Rounded twice, as `arithmetic` says.
    """

    arity: ClassVar[int] = 3

    def result(self, *dtypes: DType) -> DType:
        """Of int32."""
        require_type(set(dtypes) == {DType.INT32}, self, "takes int32")
        return self.check(also=(DType.INT32,))

    def value(self, *arrays: Numeric) -> Numeric:
        """See `arithmetic`."""
        return self.clamped(rescaled(*arrays))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return self.result_of(f"cannery_rescaled({', '.join(args)})")


@dataclass(frozen=True)
class OfTwo(ToIntegers):
    """Of two quantised numbers, each with a zero point."""

    zeros: tuple[int, int]

    def result(self, *dtypes: DType) -> DType:
        """Both are quantised."""
        require_type(set(dtypes) <= set(QUANTISED), self, "takes quantised numbers")
        require(len(self.zeros) == 2, self, f"{len(self.zeros)} zero points")
        for dtype, zero in zip(dtypes, self.zeros, strict=True):
            info = np.iinfo(dtype.value)
            fits = info.min <= zero <= info.max if dtype is not DType.INT16 else zero == 0
            require(fits, self, f"a zero point of {zero} for {dtype.value}")
        return self.check()

    def check_factors(self, *factors: Factor, largest: int) -> None:
        """Raises ModelError for a factor that is not one, or is 2^largest or more."""
        for factor in factors:
            sound = 0 <= factor.multiplier < 2**31 and -31 <= factor.shift <= largest
            require(sound, self, f"a factor of {factor}")


@register
@dataclass(frozen=True)
class FixedSum(OfTwo):
    """a, b -> fy (fa (a - za) 2^left +- fb (b - zb) 2^left), with factors of at most 1."""

    factors: tuple[Factor, Factor, Factor]
    left: int
    subtract: bool = False

    def result(self, *dtypes: DType) -> DType:
        """Sums fit 32 bits: 20 to the left for bytes, 15 for 16 bits."""
        require(len(self.factors) == 3, self, f"{len(self.factors)} factors")
        self.check_factors(*self.factors, largest=0)
        wide = DType.INT16 in dtypes
        require(0 <= self.left <= (15 if wide else 20), self, f"{self.left} to the left")
        return super().result(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """Each factor rounds."""
        a, b = (
            _small(x.astype(np.int64) - zero << self.left, factor)
            for x, zero, factor in zip(arrays, self.zeros, self.factors, strict=False)
        )
        return self.clamped(_small(a - b if self.subtract else a + b, self.factors[2]))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        a, b = (
            _scaled(f"({x} - {zero}) * {1 << self.left}", factor)
            for x, zero, factor in zip(args, self.zeros, self.factors, strict=False)
        )
        both = f"{a} {'-' if self.subtract else '+'} {b}"
        return self.result_of(_scaled(both, self.factors[2]))


def _small(x: Numeric, factor: Factor) -> Numeric:
    """A factor that is at most 1."""
    return shifted(high_product(x, factor.multiplier), -factor.shift)


def _scaled(expression: str, factor: Factor) -> str:
    return f"cannery_rescaled({expression}, {factor.multiplier}, {factor.shift})"


@register
@dataclass(frozen=True)
class FixedProduct(OfTwo):
    """a, b -> f (a - za) (b - zb)."""

    factor: Factor

    def result(self, *dtypes: DType) -> DType:
        """Products fit 32 bits."""
        self.check_factors(self.factor, largest=31)
        return super().result(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """The product is exact."""
        a, b = (x.astype(np.int64) - z for x, z in zip(arrays, self.zeros, strict=True))
        return self.clamped(by_factor(a * b, self.factor))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        a, b = (f"({x} - {z})" for x, z in zip(args, self.zeros, strict=True))
        return self.result_of(_scaled(f"{a} * {b}", self.factor))


@register
@dataclass(frozen=True)
class FixedQuantize(ToIntegers):
    """x float32 -> x / scale, rounded once, halves away from zero; NaN becomes the minimum."""

    scale: float

    arity: ClassVar[int] = 1

    def result(self, *dtypes: DType) -> DType:
        """Of floats."""
        require_type(dtypes == (DType.FLOAT32,), self, f"of {dtypes[0].value}")
        require(self.scale > 0.0 and np.isfinite(self.scale), self, f"a scale of {self.scale}")
        return self.check()

    def value(self, *arrays: Numeric) -> Numeric:
        """The quotient is in float32."""
        (x,) = arrays
        quotient = x.astype(np.float32) / np.float32(self.scale)
        whole = np.nan_to_num(away(quotient), nan=-(2.0**31), posinf=2.0**31, neginf=-(2.0**31))
        return self.clamped(np.clip(whole, -(2.0**31), 2.0**31))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        bounds = f"{self.zero}, {self.minimum}, {self.maximum}"
        return (
            f"({self.dtype.c_name})cannery_rounded_away({args[0]} / {c_float(self.scale)}, "
            f"{bounds})"
        )
