"""Operators on the bits of integers, remainders, and powers of integers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.tensor import DType
from cannery.ops.checks import require_type
from cannery.ops.elementwise.integers import is_signed
from cannery.ops.numeric import Numeric
from cannery.ops.registry import register
from cannery.ops.scalar.base import Pointwise


@dataclass(frozen=True)
class _Bitwise(Pointwise):
    """Two integers of one dtype -> the same dtype, bit by bit."""

    sign: ClassVar[str]

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        return self.same_integers(*dtypes)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"({dtypes[0].c_name})({args[0]} {self.sign} {args[1]})"

    @abstractmethod
    def value(self, *arrays: Numeric) -> Numeric:
        """The operator on arrays."""


@register
@dataclass(frozen=True)
class BitwiseAnd(_Bitwise):
    """a & b."""

    sign: ClassVar[str] = "&"

    def value(self, *arrays: Numeric) -> Numeric:
        """`a & b`."""
        return np.bitwise_and(*arrays)


@register
@dataclass(frozen=True)
class BitwiseOr(_Bitwise):
    """a | b."""

    sign: ClassVar[str] = "|"

    def value(self, *arrays: Numeric) -> Numeric:
        """`a | b`."""
        return np.bitwise_or(*arrays)


@register
@dataclass(frozen=True)
class BitwiseXor(_Bitwise):
    """a ^ b."""

    sign: ClassVar[str] = "^"

    def value(self, *arrays: Numeric) -> Numeric:
        """`a ^ b`."""
        return np.bitwise_xor(*arrays)


@register
@dataclass(frozen=True)
class BitwiseNot(_Bitwise):
    """~a."""

    arity: ClassVar[int] = 1
    sign: ClassVar[str] = "~"

    def value(self, *arrays: Numeric) -> Numeric:
        """`~a`."""
        return np.invert(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"({dtypes[0].c_name})~{args[0]}"


@register
@dataclass(frozen=True)
class BitShift(Pointwise):
    """a << b, or a >> b if `right`; b as large as the number of bits, or larger, leaves 0.

    Of unsigned integers; signed ones would need a sign convention that ONNX does not give.
    """

    right: bool = False

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        dtype = self.same_integers(*dtypes)
        require_type(
            not is_signed(dtype), self, f"works on unsigned integers, not on {dtype.value}"
        )
        return dtype

    def value(self, *arrays: Numeric) -> Numeric:
        """Shifted."""
        a, b = arrays
        bits = a.dtype.itemsize * 8
        inside = np.where(b < bits, b, 0).astype(a.dtype)
        shifted = np.right_shift(a, inside) if self.right else np.left_shift(a, inside)
        return np.where(b < bits, shifted, 0).astype(a.dtype)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Computed in an unsigned type that is not promoted."""
        a, b = args
        wide = "uint64_t" if dtypes[0].bytes == 8 else "uint32_t"
        sign = ">>" if self.right else "<<"
        bits = dtypes[0].bytes * 8
        return f"({dtypes[0].c_name})({b} < {bits} ? ({wide}){a} {sign} {b} : 0)"


@register
@dataclass(frozen=True)
class Mod(Pointwise):
    """The remainder of a / b: with the sign of b, or of a if `fmod`; 0 for integers with b == 0."""

    fmod: bool = False

    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        dtype = self.same(*dtypes)
        if dtype is DType.FLOAT32:
            require_type(self.fmod, self, "the remainder of floats is that of fmod")
            return dtype
        return self.same_integers(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """The remainder, exact."""
        return np.fmod(*arrays) if self.fmod else np.mod(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        a, b = args
        c = dtypes[0].c_name
        if dtypes[0] is DType.FLOAT32:
            return f"cannery_fmod({a}, {b})"
        if not is_signed(dtypes[0]):
            return f"({c})({b} == 0 ? 0 : {a} % {b})"
        rest = f"{a} % {b}"
        if not self.fmod:
            rest = f"({rest} != 0 && ({a} < 0) != ({b} < 0) ? {rest} + {b} : {rest})"
        return f"({c})({b} == 0 || {b} == -1 ? 0 : {rest})"


@register
@dataclass(frozen=True)
class IntegerPow(Pointwise):
    """a to the power of b for integers, modulo 2^bits; of b < 0 the whole part: 0, 1 or -1.

    0 to a negative power is 0. ONNX's Pow is this operator where both are integers.
    """

    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """The dtype of a; b may be of another one."""
        for dtype in dtypes:
            self.same_integers(dtype)
        return dtypes[0]

    def value(self, *arrays: Numeric) -> Numeric:
        """By squaring."""
        a, b = np.broadcast_arrays(*arrays)
        base, exponent = a.astype(np.int64), b.astype(np.int64)
        inverse = np.where(base == 1, 1, np.where(base == -1, 1 - 2 * (exponent & 1), 0))
        left, y = np.where(exponent < 0, 0, exponent), np.ones_like(base)
        while left.any():
            y = np.where(left & 1, y * base, y)
            base, left = base * base, left >> 1
        return np.where(exponent < 0, inverse, y).astype(a.dtype)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """By squaring, in 64 bits."""
        a, b = args
        return f"({dtypes[0].c_name})cannery_ipow((int64_t){a}, (int64_t){b})"
