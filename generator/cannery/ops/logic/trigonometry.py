"""Trigonometric and hyperbolic functions and their inverses, by scalar_math.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.numeric import Numeric, f64
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops import functions
from cannery.ops.checks import require_type
from cannery.ops.scalar.base import Pointwise


@dataclass(frozen=True)
class _Function(Pointwise):
    """x -> f(x) of float32, within an ulp or two; the word of scalar_math.h is cannery_<word>."""

    arity: ClassVar[int] = 1
    scalar_math: ClassVar[bool] = True
    word: ClassVar[str]

    def result(self, *dtypes: DType) -> DType:
        """float32."""
        require_type(
            dtypes == (DType.FLOAT32,), self, f"works on float32, not on {dtypes[0].value}"
        )
        return DType.FLOAT32

    def value(self, *arrays: Numeric) -> Numeric:
        """The function of `cannery.ops.functions` with the same name."""
        (x,) = arrays
        found: Numeric = getattr(functions, self.word)(f64(x))
        return found

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """In double precision, rounded once."""
        return f"cannery_{self.word}({args[0]})"


@register
@dataclass(frozen=True)
class Sin(_Function):
    """Sine."""

    word: ClassVar[str] = "sin"


@register
@dataclass(frozen=True)
class Cos(_Function):
    """Cosine."""

    word: ClassVar[str] = "cos"


@register
@dataclass(frozen=True)
class Tan(_Function):
    """Tangent."""

    word: ClassVar[str] = "tan"


@register
@dataclass(frozen=True)
class Asin(_Function):
    """Inverse sine; NaN beyond -1..1."""

    word: ClassVar[str] = "asin"


@register
@dataclass(frozen=True)
class Acos(_Function):
    """Inverse cosine; NaN beyond -1..1."""

    word: ClassVar[str] = "acos"


@register
@dataclass(frozen=True)
class Atan(_Function):
    """Inverse tangent."""

    word: ClassVar[str] = "atan"


@register
@dataclass(frozen=True)
class Atan2(Pointwise):
    """y, x -> the angle of the point (x, y), from -pi to pi, within an ulp or two."""

    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """float32."""
        require_type(set(dtypes) == {DType.FLOAT32}, self, "works on float32")
        return DType.FLOAT32

    def value(self, *arrays: Numeric) -> Numeric:
        """In float64."""
        y, x = arrays
        return functions.atan2(f64(y), f64(x))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """In double precision, rounded once."""
        return f"cannery_atan2({args[0]}, {args[1]})"


@register
@dataclass(frozen=True)
class Sinh(_Function):
    """Hyperbolic sine."""

    word: ClassVar[str] = "sinh"


@register
@dataclass(frozen=True)
class Cosh(_Function):
    """Hyperbolic cosine."""

    word: ClassVar[str] = "cosh"


@register
@dataclass(frozen=True)
class Asinh(_Function):
    """Inverse hyperbolic sine."""

    word: ClassVar[str] = "asinh"


@register
@dataclass(frozen=True)
class Acosh(_Function):
    """Inverse hyperbolic cosine; NaN below 1."""

    word: ClassVar[str] = "acosh"


@register
@dataclass(frozen=True)
class Atanh(_Function):
    """Inverse hyperbolic tangent; NaN beyond -1..1."""

    word: ClassVar[str] = "atanh"
