"""Functions of one number that are not activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.words import Words
from cannery.ir.numeric import Numeric, f32, f64
from cannery.ir.registry import register
from cannery.ops.elementwise.base import Unary
from cannery.ops.functions import erf, exp, log


@register
@dataclass(frozen=True)
class Exp(Unary):
    """e to the power of x."""

    needs_math: ClassVar[bool] = True
    approximations: ClassVar[tuple[str, ...]] = ("schraudolph",)

    def value(self, x: Numeric) -> Numeric:
        """exp(x)."""
        return exp(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Within 4 ulp, or Schraudolph's exponent trick."""
        return w.exp_schraudolph(x) if form else w.exp(x)


@register
@dataclass(frozen=True)
class Log(Unary):
    """Natural logarithm: -infinity at 0, NaN below."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """log(x)."""
        return log(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Within 4 ulp."""
        return w.log(x)


@register
@dataclass(frozen=True)
class Sqrt(Unary):
    """Square root; NaN below 0."""

    def value(self, x: Numeric) -> Numeric:
        """sqrt(x)."""
        return np.sqrt(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Correctly rounded."""
        return w.sqrt(x)


@register
@dataclass(frozen=True)
class Reciprocal(Unary):
    """1 / x."""

    def value(self, x: Numeric) -> Numeric:
        """1 / x."""
        return 1.0 / f64(x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Correctly rounded."""
        return w.div(1.0, x)


@register
@dataclass(frozen=True)
class Abs(Unary):
    """|x|."""

    integers: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """|x|."""
        return np.abs(x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.abs(x)


@register
@dataclass(frozen=True)
class Neg(Unary):
    """-x."""

    integers: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """-x."""
        return -x

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.neg(x)


@register
@dataclass(frozen=True)
class Erf(Unary):
    """The error function."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """erf(x)."""
        return erf(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Within 4 ulp."""
        return w.erf(x)


@register
@dataclass(frozen=True)
class Floor(Unary):
    """The greatest integer that is not above x."""

    def value(self, x: Numeric) -> Numeric:
        """floor(x)."""
        return np.floor(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.floor(x)


@register
@dataclass(frozen=True)
class Ceil(Unary):
    """The least integer that is not below x."""

    def value(self, x: Numeric) -> Numeric:
        """ceil(x)."""
        return np.ceil(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.ceil(x)


@register
@dataclass(frozen=True)
class Round(Unary):
    """The nearest integer, halves to the even one."""

    def value(self, x: Numeric) -> Numeric:
        """rint(x)."""
        return np.rint(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.round(x)


@register
@dataclass(frozen=True)
class Sign(Unary):
    """-1, 0 or 1; NaN stays."""

    integers: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """sign(x)."""
        return np.sign(x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact; a value neither above nor below 0 is 0 or NaN and is returned unchanged."""
        negative = w.select(w.lt(x, 0.0), -1.0, x)
        return w.select(w.gt(x, 0.0), 1.0, negative)


@register
@dataclass(frozen=True)
class Square(Unary):
    """`x * x`."""

    integers: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """`x * x`."""
        return x * x

    def expression(self, w: Words, x: str, form: str) -> str:
        """Correctly rounded."""
        return w.mul(x, x)


@register
@dataclass(frozen=True)
class Affine(Unary):
    """alpha * x + beta."""

    alpha: float
    beta: float = 0.0

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha and beta are finite."""
        self.require_finite(alpha=self.alpha, beta=self.beta)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return f32(self.alpha) * f64(x) + f32(self.beta)

    def expression(self, w: Words, x: str, form: str) -> str:
        """One rounding or two."""
        return w.fma(self.alpha, x, self.beta) if self.beta else w.mul(self.alpha, x)
