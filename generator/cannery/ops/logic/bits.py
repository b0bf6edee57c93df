"""Operators on the bits of integers, remainders, and powers of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.elementwise.integers import is_signed, quotient
from cannery.ops.scalar.base import Pointwise, ScalarOp, SignOp
from cannery.ops.scalar.body import Body


@dataclass(frozen=True)
class _Bitwise(SignOp):
    """Two integers of one dtype -> the same dtype, bit by bit."""

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        return self.same_integers(*dtypes)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"({dtypes[0].c_name})({args[0]} {self.sign} {args[1]})"


@register
@dataclass(frozen=True)
class BitwiseAnd(_Bitwise):
    """a & b."""

    sign: ClassVar[str] = "&"
    function: ClassVar[np.ufunc] = np.bitwise_and


@register
@dataclass(frozen=True)
class BitwiseOr(_Bitwise):
    """a | b."""

    sign: ClassVar[str] = "|"
    function: ClassVar[np.ufunc] = np.bitwise_or


@register
@dataclass(frozen=True)
class BitwiseXor(_Bitwise):
    """a ^ b."""

    sign: ClassVar[str] = "^"
    function: ClassVar[np.ufunc] = np.bitwise_xor


@register
@dataclass(frozen=True)
class BitwiseNot(_Bitwise):
    """~a."""

    arity: ClassVar[int] = 1
    sign: ClassVar[str] = "~"
    function: ClassVar[np.ufunc] = np.invert

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return f"({dtypes[0].c_name})~{args[0]}"


@register
@dataclass(frozen=True)
class BitShift(Pointwise):
    """a << b, or a >> b if `right`; if b is not a bit position, only the sign remains.

    Right shifts of signed integers keep the sign, left shifts drop bits that do not fit.
    """

    right: bool = False

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        return self.same_integers(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """Shifted."""
        a, b = arrays
        bits = a.dtype.itemsize * 8
        fits = (b >= 0) & (b < bits)
        inside = np.where(fits, b, 0).astype(a.dtype)
        if self.right:
            sign = np.where(a < 0, -1, 0).astype(a.dtype)  # int64 and uint64 would become float64
            return np.where(fits, np.right_shift(a, inside), sign)
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        shifted = np.left_shift(a.astype(unsigned), inside.astype(unsigned))
        return np.where(fits, shifted.astype(a.dtype), 0).astype(a.dtype)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Computed in an unsigned type that is not promoted; a negative a through its
        complement.
        """
        a, b = args
        wide = "uint64_t" if dtypes[0].bytes == 8 else "uint32_t"
        bits, c = dtypes[0].bytes * 8, dtypes[0].c_name
        signed = is_signed(dtypes[0])
        fits = f"{b} >= 0 && {b} < {bits}" if signed else f"{b} < {bits}"
        if not self.right:
            return f"({c})({fits} ? ({wide}){a} << {b} : 0)"
        if not signed:
            return f"({c})({fits} ? ({wide}){a} >> {b} : 0)"
        return f"({c})({a} < 0 ? ({fits} ? ~(~{a} >> {b}) : -1) : {fits} ? {a} >> {b} : 0)"


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
            return dtype
        return self.same_integers(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """The remainder; for floats that of fmod, or that plus b, rounded."""
        return np.fmod(*arrays) if self.fmod else np.mod(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        a, b = args
        c = dtypes[0].c_name
        if dtypes[0] is DType.FLOAT32:
            return f"{'cannery_fmod' if self.fmod else 'cannery_mod'}({a}, {b})"
        if not is_signed(dtypes[0]):
            return f"({c})({b} == 0 ? 0 : {a} % {b})"
        rest = f"{a} % {b}"
        if not self.fmod:
            rest = f"({rest} != 0 && ({a} < 0) != ({b} < 0) ? {rest} + {b} : {rest})"
        return f"({c})({b} == 0 || {b} == -1 ? 0 : {rest})"


@register
@dataclass(frozen=True)
class FloorDiv(Pointwise):
    """The greatest integer that is at most a / b, for integers; 0 where b is 0; it wraps."""

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the inputs."""
        return self.same_integers(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """As numpy."""
        return np.floor_divide(*arrays)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """The quotient, rounded towards 0, or one less where that is above."""
        a, b = args
        dtype = dtypes[0]
        rounded = quotient(dtype)(a, b)
        if not is_signed(dtype):
            return rounded
        above = f"{b} != 0 && {b} != -1 && {a} % {b} != 0 && ({a} < 0) != ({b} < 0)"
        return f"({dtype.c_name})({rounded} - ({above}))"


@register
@dataclass(frozen=True)
class IntegerPow(Pointwise):
    """a to the power of b for integers, modulo 2^bits; for b < 0 the integer part: 0, 1 or -1.

    0 to a negative power is 0. ONNX's Pow is this operator where both are integers.
    """

    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """The dtype of a; b may have another one."""
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


@register
@dataclass(frozen=True)
class BitCast(ScalarOp):
    """The bits of x as elements of type `to`.

    If these are smaller, as many as one of x has become a further axis, the low bits first; if they
    are larger, the last axis becomes one element.
    """

    to: DType

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x, with that axis; raises CanneryError for types that do not fit."""
        (x,), _ = operands(self, inputs, 1)
        own, to = x.dtype.bytes, self.to.bytes
        sound = self.to is not DType.BOOL
        require_type(sound, self, f"from {x.dtype.value} to {self.to.value}")
        if own > to:
            return (TensorType((*x.shape, own // to), self.to),)
        if own == to:
            return (TensorType(x.shape, self.to),)
        fits = x.shape[-1:] == (to // own,)
        require(fits, self, f"{x.shape} of {x.dtype.value} are no elements of {self.to.value}")
        return (TensorType(x.shape[:-1], self.to),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A view; floats are float64 in references."""
        (x,), _ = operands(self, inputs, 1)
        stored = x.astype(np.float32) if x.dtype.kind == "f" else x
        (type_,) = self.infer(TensorType(x.shape, DType(stored.dtype.name)))
        y = np.frombuffer(np.ascontiguousarray(stored), self.to.numpy).reshape(type_.shape)
        return (y.astype(np.float64) if y.dtype.kind == "f" else y,)

    def write(self, c: Body) -> None:
        """All bytes at once."""
        c(f"memcpy({c.output.name}, {c.input(0).name}, {c.output.type.bytes}u);")
