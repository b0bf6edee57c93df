"""Matrix products of integers with constant weights: dense layers, and what becomes one."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float, require_shape, require_type
from cannery.ops.numeric import Numeric
from cannery.ops.quantized.arithmetic import (
    F32,
    NARROW,
    Activation,
    QuantizedOp,
    f32,
    integer_product,
    quantised,
)
from cannery.ops.quantized.table import make_table
from cannery.ops.registry import RefArray, register


@dataclass(frozen=True)
class QuantizedProduct(QuantizedOp):
    """What follows the sums of a product, whichever it is.

        y = float32(sum) * scale[N] + bias[N]
        y = activation(y), each operator in float32, or, where `by_table`, its table
        y = y * gain, where there is one

    `bound` 0: y is the result, float32. Else round(y) is, of `dtype`, held within +-bound: scale,
    bias and gain then hold the factor to such numbers.
    """

    activation: Activation = ()
    by_table: bool = False
    bound: int = 0
    dtype: DType = DType.INT16

    def result(self, shape: tuple[int, ...]) -> TensorType:
        """The type of an output of such a shape."""
        return TensorType(shape, self.dtype if self.bound else DType.FLOAT32)

    def check(
        self, x: TensorType, w: TensorType, scale: TensorType, bias: TensorType | None,
        gain: TensorType | None,
    ) -> None:  # fmt: skip
        """Raises ModelError or UnsupportedError where types or attributes do not go together."""
        require_type(x.dtype in NARROW and w.dtype is x.dtype, self, f"{x} times {w}")
        require_float(self, scale, bias, gain)
        channels = (w.shape[-1],)
        require_shape(self, "scale", scale, channels)
        require_shape(self, "bias", bias, channels)
        require_shape(self, "gain", gain, ())
        require(not self.by_table or gain is not None, self, "a table needs a gain")
        fits = 0 <= self.bound < 2 ** (8 * self.dtype.bytes - 1) and self.dtype in NARROW
        require(fits, self, f"bound {self.bound} of {self.dtype.value}")

    def finish(
        self, sums: Numeric, scale: RefArray, bias: RefArray | None, gain: RefArray | None
    ) -> RefArray:
        """What becomes of sums[..., N]."""
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
        return quantised(y, self.bound, self.dtype) if self.bound else y


@register
@dataclass(frozen=True)
class QuantizedMatMul(QuantizedProduct):
    """x[..., M, K] w[K, N] scale[N] bias[N]? gain? -> y[..., M, N], see `QuantizedProduct`."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        (x, w, scale), (bias, gain) = operands(self, inputs, 3, 2)
        self.check(x, w, scale, bias, gain)
        fits = x.rank >= 2 and w.rank == 2 and x.shape[-1] == w.shape[0]
        require(fits, self, f"{x} times {w}")
        return (self.result((*x.shape[:-1], w.shape[1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sums in int64."""
        (x, w, scale), (bias, gain) = operands(self, inputs, 3, 2)
        return (self.finish(integer_product(x, w), scale, bias, gain),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element and k."""
        (x, *_), _ = operands(self, inputs, 3, 2)
        return int(outputs[0].elements * x.shape[-1])
