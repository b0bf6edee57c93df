"""Reductions over any axes; global pooling is ReduceMean or ReduceMax over the spatial ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import F64, Numeric, f64, keep_axes, tree_mean, tree_sum
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axes, require_float
from cannery.ops.functions import exp, log


@dataclass(frozen=True)
class Reduction(Op):
    """x -> y without `axes` (ascending, within 0..rank-1), or with them kept at size 1 if
    `keepdims`.
    """

    axes: tuple[int, ...]
    keepdims: bool = False

    #: Whether a reduction over no elements has a value.
    empty: ClassVar[bool] = True
    #: Whether integers are accepted too; the result has their dtype and wraps around.
    integers: ClassVar[bool] = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad axes, a wrong dtype, or nothing to reduce."""
        (x,), _ = operands(self, inputs, 1)
        self.check_dtype(x)
        require_axes(self, self.axes, x.rank)
        sound = self.empty or all(x.shape[a] for a in self.axes)
        require(sound, self, f"axes {self.axes} of shape {x.shape} hold no element")
        return (TensorType(self._reduced(x.shape), x.dtype),)

    def check_dtype(self, x: TensorType) -> None:
        """Raises ModelError for an element type that the reduction does not accept."""
        if not self.integers or x.dtype is DType.BOOL:
            require_float(self, x)

    def _reduced(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.keepdims:
            return tuple(1 if i in self.axes else d for i, d in enumerate(shape))
        return tuple(d for i, d in enumerate(shape) if i not in self.axes)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """See `reduced`."""
        (x,), _ = operands(self, inputs, 1)
        return (self.reduced(x).reshape(self._reduced(x.shape)),)

    @abstractmethod
    def reduced(self, x: Numeric) -> Numeric:
        """`x` reduced, its reduced axes gone or ones."""


@dataclass(frozen=True)
class _Exact(Reduction):
    """A reduction that is exact in any order, of any numbers."""

    empty: ClassVar[bool] = False

    def check_dtype(self, x: TensorType) -> None:
        """Accepts every element type; false is less than true."""


@register
@dataclass(frozen=True)
class ReduceMax(_Exact):
    """Maximum; NaN propagates."""

    def reduced(self, x: Numeric) -> Numeric:
        """The maximum."""
        return np.asarray(x.max(axis=self.axes))


@register
@dataclass(frozen=True)
class ReduceMin(_Exact):
    """Minimum; NaN propagates."""

    def reduced(self, x: Numeric) -> Numeric:
        """The minimum."""
        return np.asarray(x.min(axis=self.axes))


@register
@dataclass(frozen=True)
class ReduceMean(Reduction):
    """Arithmetic mean."""

    empty: ClassVar[bool] = False

    def reduced(self, x: Numeric) -> Numeric:
        """The sum divided by the count."""
        return tree_mean(f64(x), self.axes)


@register
@dataclass(frozen=True)
class ReduceSum(Reduction):
    """Sum."""

    integers: ClassVar[bool] = True

    def reduced(self, x: Numeric) -> Numeric:
        """The sum."""
        if x.dtype.kind != "f":
            return np.asarray(x.sum(axis=self.axes, dtype=x.dtype))
        return tree_sum(f64(x), self.axes)


@register
@dataclass(frozen=True)
class ReduceProd(Reduction):
    """Product, in ascending order."""

    integers: ClassVar[bool] = True

    def reduced(self, x: Numeric) -> Numeric:
        """The product."""
        if x.dtype.kind != "f":
            return np.asarray(x.prod(axis=self.axes, dtype=x.dtype))
        rows = np.moveaxis(f64(x), self.axes, range(len(self.axes)))
        kept = rows.shape[len(self.axes) :]
        result: F64 = np.ones(kept)
        for row in rows.reshape(-1, *kept) if x.size else ():
            result = result * row
        return result


@register
@dataclass(frozen=True)
class ReduceL1(Reduction):
    """Sum of magnitudes."""

    integers: ClassVar[bool] = True

    def reduced(self, x: Numeric) -> Numeric:
        """The sum of |x|."""
        if x.dtype.kind != "f":
            return np.asarray(np.abs(x).sum(axis=self.axes, dtype=x.dtype))
        return tree_sum(np.abs(f64(x)), self.axes)


@register
@dataclass(frozen=True)
class ReduceSumSquare(Reduction):
    """Sum of squares."""

    integers: ClassVar[bool] = True

    def reduced(self, x: Numeric) -> Numeric:
        """The sum of x^2."""
        if x.dtype.kind != "f":
            return np.asarray((x * x).sum(axis=self.axes, dtype=x.dtype))
        return tree_sum(f64(x) * f64(x), self.axes)


@register
@dataclass(frozen=True)
class ReduceL2(Reduction):
    """Euclidean norm."""

    def reduced(self, x: Numeric) -> Numeric:
        """sqrt(sum x^2)."""
        return np.asarray(np.sqrt(tree_sum(f64(x) * f64(x), self.axes)))


@register
@dataclass(frozen=True)
class ReduceLogSumExp(Reduction):
    """log(sum(exp(x))), shifted by the maximum so that it does not overflow."""

    empty: ClassVar[bool] = False

    def reduced(self, x: Numeric) -> Numeric:
        """`max + log(sum(exp(x - max)))`; infinite if the maximum is."""
        wide = f64(x)
        top = np.asarray(wide.max(axis=self.axes))
        shift = keep_axes(wide, np.where(np.isfinite(top), top, 0.0), self.axes)
        with np.errstate(divide="ignore"):
            summed = log(tree_sum(exp(wide - shift), self.axes))
        return np.asarray(summed + shift.reshape(summed.shape))
