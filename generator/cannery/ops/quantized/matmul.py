"""Matrix products of integers with constant weights: dense layers and what becomes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RARE, Op, RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float, require_shape, require_type
from cannery.ops.fixed_point.arithmetic import away, rescaled
from cannery.ops.quantize.linear import quantised as saturated
from cannery.ops.quantized.arithmetic import (
    F32,
    NARROW,
    STORED,
    Activation,
    QuantizedOp,
    f32,
    integer_product,
    quantised,
)
from cannery.ops.quantized.table import make_table

T = TypeVar("T")

#: Bits of a weight that has no code.
BYTE = 8

#: How many inputs may follow x and w.
_FOLLOWING = 6


def parts(op: Op, inputs: tuple[T | None, ...]) -> tuple[T, T, tuple[T | None, ...]]:
    """x, w, and what follows them: scale, bias, gain, start, factor, shift, None if absent."""
    taken: tuple[tuple[T, ...], tuple[T | None, ...]] = operands(op, inputs, 2, _FOLLOWING)
    (x, w), following = taken
    return x, w, following


@dataclass(frozen=True)
class QuantizedProduct(QuantizedOp):
    """What follows the sums of any product.

        sum = start[N] + the products, in int32
        y = float32(sum) * scale[N] + bias[N]
        y = activation(y), each operator in float32, or, if `by_table`, its table
        y = y * gain, if there is one

    The result is float32: y; or of `dtype`, where there is a `bound`: round(y) clamped to +-bound,
    or a `zero` point: saturate(round(y) + zero), as ONNX has it; or, if `dtype` is int32 and there
    is no scale, the sum. For integer results, scale, bias and gain include the factor to those
    integers.

    With bounds `held`, it is in fixed point, without scale, bias, gain and activation:

        y = clamp(sum * factor[N] + zero, held)

    Factors are int32 multipliers with shift[N], the bits by which they go to the right, at least
    one (`fixed_point.arithmetic`); or, without a shift, the bits of float64 as int64: then products
    are rounded once, halves away from zero. No sum times its factor exceeds 2^30.

    `weight_bits` 4 or 2: the weights, of int8, have at most 16 or 4 levels, 0 among them, and
    microcontrollers store their codes (`codes.py`). That changes no result.
    """

    activation: Activation = ()
    by_table: bool = False
    bound: int = 0
    dtype: DType = DType.INT16
    zero: int | None = None
    held: tuple[int, int] | None = None
    weight_bits: int = field(default=BYTE, metadata=RARE)

    @property
    def is_sum(self) -> bool:
        """Whether the sums are the result."""
        return self.dtype is DType.INT32

    @property
    def result_dtype(self) -> DType:
        """The element type of the result."""
        whole = self.bound or self.zero is not None or self.is_sum
        return self.dtype if whole else DType.FLOAT32

    def result(self, shape: tuple[int, ...]) -> TensorType:
        """The type of an output of this shape."""
        return TensorType(shape, self.result_dtype)

    def check(self, x: TensorType, w: TensorType, following: tuple[TensorType | None, ...]) -> None:
        """Raises ModelError or UnsupportedError if types or attributes, or the inputs that follow
        x and w, do not fit together.
        """
        scale, bias, gain, start, factor, shift = following
        of_x = DType.INT8 if x.dtype is DType.UINT8 else x.dtype
        known = x.dtype in (*NARROW, DType.UINT8) and w.dtype is of_x
        require_type(known, self, f"{x} times {w}")
        require_float(self, scale, bias, gain)
        channels = (w.shape[-1],)
        for name, type_ in (("scale", scale), ("bias", bias), ("start", start)):
            require_shape(self, name, type_, channels)
        require_shape(self, "gain", gain, ())
        require(not self.by_table or gain is not None, self, "a table needs a gain")
        known = not self.by_table or make_table(self.activation) is not None
        require(known, self, f"no table of {self.activation}")
        require(start is None or start.dtype is DType.INT32, self, f"sums that begin with {start}")
        coded = self.weight_bits in (2, 4) and w.dtype is DType.INT8
        require(self.weight_bits == BYTE or coded, self, f"{w} in {self.weight_bits} bits")
        if self.held is not None:
            self._check_fixed(channels, factor, shift, any((scale, bias, gain, self.activation)))
        else:
            require(factor is None is shift, self, "factors without bounds")
            self._check_result(scale, bias, gain)

    def _check_fixed(
        self, channels: tuple[int, ...], factor: TensorType | None, shift: TensorType | None,
        more: bool,
    ) -> None:  # fmt: skip
        assert self.held is not None
        require(not more and not self.bound, self, "fixed point and floats")
        require(factor is not None and self.zero is not None, self, "no factor or no zero point")
        require_type(self.dtype in STORED, self, f"to {self.dtype.value}")
        types = ((factor, DType.INT64 if shift is None else DType.INT32), (shift, DType.INT32))
        for type_, dtype in types:
            require_shape(self, "factor", type_, channels)
            require(type_ is None or type_.dtype is dtype, self, f"a factor of {type_}")
        require(len(self.held) == 2, self, f"bounds of {self.held}")
        info, (low, high) = np.iinfo(self.dtype.value), self.held
        require(info.min <= low <= high <= info.max, self, f"bounds of {self.held}")

    def _check_result(
        self, scale: TensorType | None, bias: TensorType | None, gain: TensorType | None
    ) -> None:
        require((scale is None) == self.is_sum, self, "sums alone have no scale")
        if self.is_sum:
            plain = not (bias or gain or self.activation or self.bound) and self.zero is None
            require(plain, self, "nothing follows sums")
        elif self.zero is None:
            fits = 0 <= self.bound < 2 ** (8 * self.dtype.bytes - 1) and self.dtype in NARROW
            require(fits, self, f"bound {self.bound} of {self.dtype.value}")
        else:
            require(self.dtype in STORED and not self.bound, self, f"to {self.dtype.value}")
            info = np.iinfo(self.dtype.value)
            require(info.min <= self.zero <= info.max, self, f"a zero point of {self.zero}")

    def finish(self, sums: Numeric, following: tuple[RefArray | None, ...]) -> RefArray:
        """The results from the products' sums[..., N], and the inputs that follow x and w."""
        scale, bias, gain, start, factor, shift = following
        if start is not None:
            sums = sums + start
        if self.held is not None:
            assert factor is not None
            return self._fixed(sums, factor, shift)
        if scale is None:
            return np.asarray(sums.astype(np.int32))
        y: F32 = f32(f32(sums) * f32(scale))
        if bias is not None:
            y = f32(y + f32(bias))
        if self.by_table:
            table = make_table(self.activation)
            assert table is not None
            y = table.lookup(y)
        else:
            for op in self.activation:
                y = f32(op.reference(y)[0])
        if gain is not None:
            y = f32(y * f32(gain))
        if self.zero is not None:
            return saturated(y, np.asarray(self.zero, self.dtype.numpy))
        return quantised(y, self.bound, self.dtype) if self.bound else y

    def _fixed(self, sums: Numeric, factor: RefArray, shift: RefArray | None) -> RefArray:
        assert self.held is not None
        if shift is None:
            whole = np.asarray(away(sums * factor.astype(np.int64).view(np.float64)), np.int64)
        else:
            whole = rescaled(sums, factor.astype(np.int64), -shift.astype(np.int64))
        return np.asarray(np.clip(whole + (self.zero or 0), *self.held).astype(self.dtype.numpy))


@register
@dataclass(frozen=True)
class QuantizedMatMul(QuantizedProduct):
    """x[...,M,K] w[K,N] scale[N]? bias[N]? gain? start[N]? factor[N]? shift[N]? -> y[...,M,N].

    See `QuantizedProduct`.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        x, w, following = parts(self, inputs)
        self.check(x, w, following)
        fits = x.rank >= 2 and w.rank == 2 and x.shape[-1] == w.shape[0]
        require(fits, self, f"{x} times {w}")
        return (self.result((*x.shape[:-1], w.shape[1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sums in int64."""
        x, w, following = parts(self, inputs)
        return (self.finish(integer_product(x, w), following),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element and k."""
        x, _, _ = parts(self, inputs)
        return int(outputs[0].elements * x.shape[-1])
