"""Activations.

Thresholds compare as float32, as in the frameworks and in the generated code. At infinity the
smooth activations take their limit; there the frameworks' formulas give NaN (0 * infinity).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import ClassVar

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ctext.words import Words
from cannery.ir.numeric import F64, Numeric, f32, f64
from cannery.ir.registry import register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require
from cannery.ops.elementwise.base import Binary, Unary
from cannery.ops.functions import erfc, exp, expm1, log1p, tanh


def _sigmoid(x: F64) -> F64:
    """1 / (1 + exp(-x)) without overflow."""
    small = exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _softplus(x: F64) -> F64:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0.0) + log1p(exp(-np.abs(x)))


@register
@dataclass(frozen=True)
class Relu(Unary):
    """max(x, 0)."""

    integers: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """max(x, 0)."""
        return np.asarray(np.maximum(x, x.dtype.type(0)))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact; zero is the first operand, so that NaN passes through."""
        return w.max(0.0, x)


@register
@dataclass(frozen=True)
class LeakyRelu(Unary):
    """x where x >= 0, else alpha * x."""

    alpha: float

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha is finite."""
        self.require_finite(alpha=self.alpha)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return np.where(x < 0, f32(self.alpha) * x, x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """One rounding; where 0 < alpha <= 1, x >= alpha * x gives the sign of x."""
        scaled = w.mul(self.alpha, x)
        if 0.0 < f32(self.alpha) <= 1.0:
            return w.max(scaled, x)
        return w.select(w.lt(x, 0.0), scaled, x)


@register
@dataclass(frozen=True)
class PRelu(Binary):
    """x, slope -> x where x >= 0, else slope * x. The slope broadcasts to x, not the other way
    round.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError if the slope does not broadcast to it."""
        (x, slope), _ = operands(self, inputs, 2)
        (y,) = super().infer(*inputs)
        fits = y.shape == x.shape
        require(fits, self, f"slope of shape {slope.shape} does not broadcast to {x.shape}")
        return (y,)

    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """As written above."""
        return np.where(a < 0, b * a, a)

    def expression(self, w: Words, a: str, b: str) -> str:
        """One rounding."""
        return w.select(w.lt(a, 0.0), w.mul(b, a), a)


@register
@dataclass(frozen=True)
class ReluGeneral(Unary):
    """The ReLU layer of Keras with all its parameters.

    min(x, max_value) where x > threshold, else negative_slope * (x - threshold). At the threshold
    the result is 0: Keras computes that, although its documentation says x.
    """

    negative_slope: float = 0.0
    threshold: float = 0.0
    max_value: float | None = None

    def check_attributes(self) -> None:
        """Raises ModelError for what Keras rejects: a negative threshold or maximum."""
        self.require_finite(negative_slope=self.negative_slope, threshold=self.threshold)
        require(self.threshold >= 0, self, f"threshold {self.threshold} must not be negative")
        if self.max_value is not None:
            self.require_finite(max_value=self.max_value)
            require(self.max_value >= 0, self, f"max_value {self.max_value} must not be negative")

    def value(self, x: Numeric) -> Numeric:
        """As written above; without a slope, x at or below the threshold gives 0."""
        threshold, slope = f32(self.threshold), f32(self.negative_slope)
        above = x if self.max_value is None else np.minimum(x, f32(self.max_value))
        below = slope * (x - threshold) if slope else np.zeros_like(x)
        return np.where(x <= threshold, below, above)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact above the threshold."""
        slope, threshold = f32(self.negative_slope), f32(self.threshold)
        above = x if self.max_value is None else w.min(self.max_value, x)
        if not slope and not threshold:
            rectified = w.max(0.0, x)
            return rectified if self.max_value is None else w.min(self.max_value, rectified)
        below = w.mul(slope, w.sub(x, threshold)) if slope else w.zero()
        return w.select(w.le(x, threshold), below, above)


@register
@dataclass(frozen=True)
class ThresholdedRelu(Unary):
    """x where x > alpha, else 0."""

    alpha: float = 1.0

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha is finite."""
        self.require_finite(alpha=self.alpha)

    def value(self, x: Numeric) -> Numeric:
        """As written above; NaN stays."""
        return np.where(x <= f32(self.alpha), 0.0, x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact."""
        return w.select(w.le(x, self.alpha), 0.0, x)


@register
@dataclass(frozen=True)
class Clip(Unary):
    """min(max(x, minimum), maximum); infinite bounds have no effect. ReLU6 is Clip(0, 6)."""

    minimum: float
    maximum: float

    def check_attributes(self) -> None:
        """Raises ModelError for a bound that is not a number."""
        for name, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            require(not isnan(bound), self, f"{name} must be a number")

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return np.minimum(np.maximum(x, f32(self.minimum)), f32(self.maximum))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Exact; the bounds are the first operands, so that NaN passes through."""
        low, high = f32(self.minimum), f32(self.maximum)
        bounded = x if low == -np.inf else w.max(low, x)
        return bounded if high == np.inf else w.min(high, bounded)


@register
@dataclass(frozen=True)
class Elu(Unary):
    """x where x >= 0, else alpha * (exp(x) - 1)."""

    alpha: float = 1.0

    needs_math: ClassVar[bool] = True

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha is finite."""
        self.require_finite(alpha=self.alpha)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return np.where(x < 0, f32(self.alpha) * expm1(np.minimum(x, 0.0)), x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """By expm1."""
        return w.elu(x, c_float(self.alpha))


@register
@dataclass(frozen=True)
class Selu(Unary):
    """gamma * x where x > 0, else gamma * alpha * (exp(x) - 1)."""

    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    needs_math: ClassVar[bool] = True

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha and gamma are finite."""
        self.require_finite(alpha=self.alpha, gamma=self.gamma)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        below = f32(self.alpha) * expm1(np.minimum(x, 0.0))
        return f32(self.gamma) * np.where(x <= 0, below, x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """Elu, scaled."""
        return w.mul(self.gamma, w.elu(x, c_float(self.alpha)))


@register
@dataclass(frozen=True)
class Celu(Unary):
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""

    alpha: float = 1.0

    needs_math: ClassVar[bool] = True

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha is finite and not 0."""
        self.require_finite(alpha=self.alpha)
        require(f32(self.alpha) != 0, self, f"alpha {self.alpha} must not be 0")

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        alpha = f32(self.alpha)
        return np.maximum(x, 0.0) + np.minimum(0.0, alpha * expm1(x / alpha))

    def expression(self, w: Words, x: str, form: str) -> str:
        """By expm1."""
        inner = x if f32(self.alpha) == 1.0 else w.mul(1.0 / f32(self.alpha), x)
        return w.select(w.lt(x, 0.0), w.mul(self.alpha, w.expm1(inner)), x)


@register
@dataclass(frozen=True)
class Gelu(Unary):
    """x * Phi(x) with the normal distribution Phi, or its approximation by tanh.

    approximate: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
    """

    approximate: bool = False

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        x = np.maximum(x, -1e3)
        if self.approximate:
            return 0.5 * x * (1.0 + tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x * x * x)))
        return 0.5 * x * erfc(-x / np.sqrt(2.0))

    def expression(self, w: Words, x: str, form: str) -> str:
        """By tanh or erf."""
        return w.gelu_tanh(x) if self.approximate else w.gelu_erf(x)


@register
@dataclass(frozen=True)
class Sigmoid(Unary):
    """1 / (1 + exp(-x))."""

    needs_math: ClassVar[bool] = True
    approximations: ClassVar[tuple[str, ...]] = ("rational",)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return _sigmoid(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Within 4 ulp, or by the rational tanh."""
        return w.sigmoid_rational(x) if form else w.sigmoid(x)


@register
@dataclass(frozen=True)
class Tanh(Unary):
    """Hyperbolic tangent."""

    needs_math: ClassVar[bool] = True
    approximations: ClassVar[tuple[str, ...]] = ("rational", "table")

    def value(self, x: Numeric) -> Numeric:
        """tanh(x)."""
        return tanh(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Within 4 ulp, or by a fraction of polynomials, or by a table."""
        return {"": w.tanh, "rational": w.tanh_rational, "table": w.tanh_table}[form](x)


@register
@dataclass(frozen=True)
class HardSigmoid(Unary):
    """max(0, min(1, alpha * x + beta)). Keras 2 and ONNX: 0.2, 0.5; Keras 3: 1/6, 0.5."""

    alpha: float = 0.2
    beta: float = 0.5

    def check_attributes(self) -> None:
        """Raises ModelError unless alpha and beta are finite."""
        self.require_finite(alpha=self.alpha, beta=self.beta)

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return np.clip(f32(self.alpha) * x + f32(self.beta), 0.0, 1.0)

    def expression(self, w: Words, x: str, form: str) -> str:
        """The bounds are the first operands, so that NaN passes through."""
        return w.max(0.0, w.min(1.0, w.fma(self.alpha, x, self.beta)))


@register
@dataclass(frozen=True)
class Silu(Unary):
    """x * sigmoid(x); swish."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        x = np.maximum(x, -1e3)
        return x * _sigmoid(x)

    def expression(self, w: Words, x: str, form: str) -> str:
        """By sigmoid. Approximations are not allowed: x times an absolute error is unbounded."""
        return w.silu(x)


@register
@dataclass(frozen=True)
class HardSwish(Unary):
    """x * max(0, min(1, x/6 + 1/2)); hard_silu."""

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return x * np.clip(f64(x) / 6.0 + 0.5, 0.0, 1.0)

    def expression(self, w: Words, x: str, form: str) -> str:
        """The bounds are the first operands, so that NaN passes through."""
        return w.mul(x, w.max(0.0, w.min(1.0, w.fma(1.0 / 6.0, x, 0.5))))


@register
@dataclass(frozen=True)
class Mish(Unary):
    """x * tanh(softplus(x))."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        x = np.maximum(x, -1e3)
        return x * tanh(_softplus(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """By one exponential."""
        return w.mish(x)


@register
@dataclass(frozen=True)
class Softplus(Unary):
    """log(1 + exp(x))."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        return _softplus(f64(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Without overflow."""
        return w.softplus(x)


@register
@dataclass(frozen=True)
class Softsign(Unary):
    """x / (1 + |x|)."""

    needs_math: ClassVar[bool] = True

    def value(self, x: Numeric) -> Numeric:
        """As written above."""
        x = np.clip(x, -1e300, 1e300)
        return x / (1.0 + np.abs(x))

    def expression(self, w: Words, x: str, form: str) -> str:
        """Two roundings, none beyond 2^30."""
        return w.softsign(x)
