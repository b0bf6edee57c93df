"""Comparisons, logic and choices: bool tensors of 0 and 1."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.checks import require_type
from cannery.ops.scalar.base import Pointwise, SignOp


@dataclass(frozen=True)
class _Comparison(SignOp):
    """a, b of one dtype -> bool."""

    def result(self, *dtypes: DType) -> DType:
        """Bool."""
        self.same(*dtypes)
        return DType.BOOL

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"(uint8_t)({args[0]} {self.sign} {args[1]})"


@register
@dataclass(frozen=True)
class Equal(_Comparison):
    """a == b; NaN is not equal to anything."""

    sign: ClassVar[str] = "=="
    function: ClassVar[np.ufunc] = np.equal


@register
@dataclass(frozen=True)
class Less(_Comparison):
    """a < b."""

    sign: ClassVar[str] = "<"
    function: ClassVar[np.ufunc] = np.less


@register
@dataclass(frozen=True)
class LessOrEqual(_Comparison):
    """a <= b."""

    sign: ClassVar[str] = "<="
    function: ClassVar[np.ufunc] = np.less_equal


@register
@dataclass(frozen=True)
class Greater(_Comparison):
    """a > b."""

    sign: ClassVar[str] = ">"
    function: ClassVar[np.ufunc] = np.greater


@register
@dataclass(frozen=True)
class GreaterOrEqual(_Comparison):
    """a >= b."""

    sign: ClassVar[str] = ">="
    function: ClassVar[np.ufunc] = np.greater_equal


@dataclass(frozen=True)
class _Logic(SignOp):
    """Bools -> bool."""

    def result(self, *dtypes: DType) -> DType:
        """Bool."""
        require_type(set(dtypes) == {DType.BOOL}, self, "works on bool")
        return DType.BOOL

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Anything other than 0 counts as true."""
        a, b = args
        return f"(uint8_t)(({a} != 0) {self.sign} ({b} != 0))"


@register
@dataclass(frozen=True)
class And(_Logic):
    """a and b."""

    sign: ClassVar[str] = "&"
    function: ClassVar[np.ufunc] = np.logical_and


@register
@dataclass(frozen=True)
class Or(_Logic):
    """a or b."""

    sign: ClassVar[str] = "|"
    function: ClassVar[np.ufunc] = np.logical_or


@register
@dataclass(frozen=True)
class Xor(_Logic):
    """Either a or b."""

    sign: ClassVar[str] = "^"
    function: ClassVar[np.ufunc] = np.logical_xor


@register
@dataclass(frozen=True)
class Not(_Logic):
    """Not a."""

    arity: ClassVar[int] = 1
    sign: ClassVar[str] = "!"
    function: ClassVar[np.ufunc] = np.logical_not

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Anything other than 0 counts as true."""
        return f"(uint8_t)({args[0]} == 0)"


@register
@dataclass(frozen=True)
class Where(Pointwise):
    """condition, a, b -> a where the condition holds, else b."""

    arity: ClassVar[int] = 3

    def result(self, *dtypes: DType) -> DType:
        """The dtype of a and b."""
        condition, a, b = dtypes
        require_type(condition is DType.BOOL, self, f"chooses by bool, not by {condition.value}")
        return self.same(a, b)

    def value(self, *arrays: Numeric) -> Numeric:
        """Elements of a or b."""
        return np.where(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        condition, a, b = args
        return f"{condition} != 0 ? {a} : {b}"


@dataclass(frozen=True)
class _FloatTest(Pointwise):
    """x of float32 -> bool."""

    arity: ClassVar[int] = 1

    def result(self, *dtypes: DType) -> DType:
        """Bool."""
        require_type(
            dtypes == (DType.FLOAT32,), self, f"works on float32, not on {dtypes[0].value}"
        )
        return DType.BOOL

    @abstractmethod
    def value(self, *arrays: Numeric) -> Numeric:
        """The test."""


@register
@dataclass(frozen=True)
class IsNaN(_FloatTest):
    """Whether x is not a number."""

    def value(self, *arrays: Numeric) -> Numeric:
        """`x != x`."""
        return np.isnan(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"(uint8_t)({args[0]} != {args[0]})"


@register
@dataclass(frozen=True)
class IsInf(_FloatTest):
    """Whether x is infinity, minus infinity, or either."""

    negative: bool = True
    positive: bool = True

    def value(self, *arrays: Numeric) -> Numeric:
        """Comparison with infinities."""
        (x,) = arrays
        return np.asarray(((x == np.inf) & self.positive) | ((x == -np.inf) & self.negative))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        (x,) = args
        most = "3.4028235e+38f"
        tests = [f"{x} > {most}"] * self.positive + [f"{x} < -{most}"] * self.negative
        never = f"0 && {x} > {most}"  # names the variable, as compilers demand
        return f"(uint8_t)({' || '.join(tests) or never})"
