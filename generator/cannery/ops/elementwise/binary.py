"""Arithmetic of two tensors, broadcast as in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.words import Words
from cannery.ir.numeric import Numeric, f64
from cannery.ir.registry import register
from cannery.ops.elementwise.base import Binary
from cannery.ops.functions import power


@register
@dataclass(frozen=True)
class Add(Binary):
    """a + b; integers wrap."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """`a + b`."""
        return np.asarray(a + b)

    def expression(self, w: Words, a: str, b: str) -> str:
        """Correctly rounded."""
        return w.add(a, b)


@register
@dataclass(frozen=True)
class Sub(Binary):
    """a - b; integers wrap."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """`a - b`."""
        return np.asarray(a - b)

    def expression(self, w: Words, a: str, b: str) -> str:
        """Correctly rounded."""
        return w.sub(a, b)


@register
@dataclass(frozen=True)
class Mul(Binary):
    """a * b; integers wrap."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """`a * b`."""
        return np.asarray(a * b)

    def expression(self, w: Words, a: str, b: str) -> str:
        """Correctly rounded."""
        return w.mul(a, b)


@register
@dataclass(frozen=True)
class Div(Binary):
    """a / b; integers truncate as in C; the result is 0 where b is 0."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """`a / b`."""
        if a.dtype.kind == "f":
            return np.asarray(a / b)
        quotient, rest = np.divmod(a, b)
        whole = quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype)
        return np.asarray(np.where(b == 0, a.dtype.type(0), whole))

    def expression(self, w: Words, a: str, b: str) -> str:
        """Correctly rounded."""
        return w.div(a, b)


@register
@dataclass(frozen=True)
class Max(Binary):
    """The greater of both; NaN if either is."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """maximum(a, b)."""
        return np.asarray(np.maximum(a, b))

    def expression(self, w: Words, a: str, b: str) -> str:
        """Takes a where a is NaN, where the word max yields b."""
        return w.select(w.eq(a, a), w.max(a, b), a)


@register
@dataclass(frozen=True)
class Min(Binary):
    """The lesser of both; NaN if either is."""

    integers: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """minimum(a, b)."""
        return np.asarray(np.minimum(a, b))

    def expression(self, w: Words, a: str, b: str) -> str:
        """Takes a where a is NaN, where the word min yields b."""
        return w.select(w.eq(a, a), w.min(a, b), a)


@register
@dataclass(frozen=True)
class Pow(Binary):
    """a to the power of b. A negative a needs an integer b, else the result is NaN."""

    needs_math: ClassVar[bool] = True

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """`a ** b`."""
        return power(f64(a), f64(b))

    def expression(self, w: Words, a: str, b: str) -> str:
        """`exp(b log|a|)` with the sign of an odd power: relative error about |b log a| * 2^-23.

        Uses log(a), not log|a|, where b is not an integer: NaN for a negative a. 1^b and a^0 are 1
        even where the product is NaN, except for (-1)^infinity.
        """
        whole = w.eq(w.floor(b), b)
        size = w.exp(w.mul(b, w.log(w.select(whole, w.abs(a), a))))
        half = w.mul(0.5, b)
        odd = w.eq(w.sub(half, w.floor(half)), 0.5)
        signed = w.mul(size, w.select(odd, w.copysign(1.0, a), 1.0))
        return w.select(w.eq(b, 0.0), 1.0, w.select(w.eq(a, 1.0), 1.0, signed))
