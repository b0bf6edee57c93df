"""Elementwise operators between integers: functions of a byte by a table, and operators on two.

They stand for ONNX's DequantizeLinear, operators, QuantizeLinear, and give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import Elementwise, RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_shape, require_type
from cannery.ops.quantize.linear import quantised
from cannery.ops.quantized.arithmetic import (
    BYTES,
    F32,
    STORED,
    Activation,
    QuantizedOp,
    f32,
)
from cannery.ops.quantized.arithmetic import quantised as bounded


@dataclass(frozen=True)
class Scaled:
    """What integers q represent: (q - zero) * scale, with the scale in float32."""

    scale: float
    zero: int

    def floats(self, q: Numeric) -> F32:
        """The numbers."""
        return f32(f32(f32(q) - np.float32(self.zero)) * np.float32(self.scale))

    def integers(self, x: F32, dtype: DType) -> Numeric:
        """saturate(round(x / scale) + zero)."""
        with np.errstate(all="ignore"):
            quotient = f32(x / np.float32(self.scale))
        return quantised(quotient, np.asarray(self.zero, dtype.numpy))


@register
@dataclass(frozen=True)
class QuantizedElementwise(QuantizedOp):
    """a, b of one shape -> activation(op(a, b)) of `dtype`, see `Scaled`.

    `op` and the activations must be exact in float32 except for one rounding. If there is a
    `bound`, results are clamped to +-bound instead of the dtype's range, and y's zero is 0.
    """

    op: Elementwise
    a: Scaled
    b: Scaled
    y: Scaled
    dtype: DType
    activation: Activation = ()
    bound: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of both."""
        (a, b), _ = operands(self, inputs, 2)
        known = {a.dtype, b.dtype, self.dtype} <= set(STORED)
        require_type(known, self, f"{a.dtype.value} and {b.dtype.value} to {self.dtype.value}")
        require_shape(self, "b", b, a.shape)
        held = 0 < self.bound < 2 ** (8 * self.dtype.bytes - 1) and not self.y.zero
        require(not self.bound or held, self, f"bound {self.bound} of {self.dtype.value}")
        return (TensorType(a.shape, self.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float32, each operator rounded."""
        (a, b), _ = operands(self, inputs, 2)
        (value,) = self.op.reference(self.a.floats(a), self.b.floats(b))
        value = f32(value)
        for op in self.activation:
            value = f32(op.reference(value)[0])
        if self.bound:
            return (bounded(f32(value / np.float32(self.y.scale)), self.bound, self.dtype),)
        return (self.y.integers(value, self.dtype),)


@register
@dataclass(frozen=True)
class ByteTable(QuantizedOp):
    """x, table[256] of bytes or floats -> the entry of each byte, taken as unsigned."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x, the type of the table."""
        (x, table), _ = operands(self, inputs, 2)
        known = (*BYTES, DType.FLOAT32)
        require_type(x.dtype in BYTES and table.dtype in known, self, f"{x} by {table}")
        require_shape(self, "table", table, (256,))
        return (TensorType(x.shape, table.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """One entry for each element."""
        (x, table), _ = operands(self, inputs, 2)
        return (table[x.view(np.uint8)],)
