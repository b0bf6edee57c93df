"""Normalisation by a stored or computed mean and variance."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from cannery.ir.numeric import F64, f64, keep_axes, tree_mean
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import (
    operands,
    require,
    require_axes,
    require_axis,
    require_float,
    require_shape,
)


def _check_epsilon(op: Op, epsilon: float) -> None:
    require(isfinite(epsilon) and epsilon >= 0, op, f"epsilon {epsilon} must be finite and >= 0")


def _along(values: RefArray, rank: int, axes: tuple[int, ...]) -> F64:
    """`values`, whose dimensions are those of `axes`, broadcastable to a tensor of that rank."""
    shape = [1] * rank
    for axis, d in zip(axes, values.shape, strict=True):
        shape[axis] = d
    return f64(values).reshape(shape)


def _standardized(x: F64, axes: tuple[int, ...], epsilon: float) -> F64:
    """(x - mean) / sqrt(variance + epsilon) over `axes`; the variance divides by the count."""
    centred = x - keep_axes(x, tree_mean(x, axes), axes)
    variance = keep_axes(x, tree_mean(centred * centred, axes), axes)
    return np.asarray(centred / np.sqrt(variance + epsilon))


def _affine(y: F64, scale: RefArray | None, bias: RefArray | None, axes: tuple[int, ...]) -> F64:
    """`y * scale + bias`, each if present."""
    if scale is not None:
        y = y * _along(scale, y.ndim, axes)
    return y if bias is None else y + _along(bias, y.ndim, axes)


@register
@dataclass(frozen=True)
class BatchNormalization(Op):
    """x, scale[C], bias[C], mean[C], var[C] -> (x - mean) / sqrt(var + epsilon) * scale + bias.

    C is the dimension of `axis` (0 <= axis < rank).
    """

    axis: int
    epsilon: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError unless the statistics have the dimension of `axis`."""
        (x, *statistics), _ = operands(self, inputs, 5)
        require_float(self, x, *statistics)
        require_axis(self, self.axis, x.rank)
        _check_epsilon(self, self.epsilon)
        for name, type_ in zip(("scale", "bias", "mean", "var"), statistics, strict=True):
            require_shape(self, name, type_, (x.shape[self.axis],))
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As written above."""
        (x, scale, bias, mean, var), _ = operands(self, inputs, 5)
        axes = (self.axis,)
        deviation = np.sqrt(_along(var, x.ndim, axes) + self.epsilon)
        return (_affine((f64(x) - _along(mean, x.ndim, axes)) / deviation, scale, bias, axes),)


@register
@dataclass(frozen=True)
class LayerNormalization(Op):
    """x, scale?, bias? -> standardised over `axes`, times scale, plus bias.

    Scale and bias have the dimensions of `axes` (ascending, within 0..rank-1).
    """

    axes: tuple[int, ...]
    epsilon: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for bad axes or another shape of scale or bias."""
        (x,), (scale, bias) = operands(self, inputs, 1, 2)
        require_float(self, x, scale, bias)
        require(len(self.axes) >= 1, self, "needs at least one axis")
        require_axes(self, self.axes, x.rank)
        _check_epsilon(self, self.epsilon)
        dims = tuple(x.shape[a] for a in self.axes)
        require(min(dims) >= 1, self, f"axes {self.axes} of shape {x.shape} hold no element")
        require_shape(self, "scale", scale, dims)
        require_shape(self, "bias", bias, dims)
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Two passes: the mean, then the mean square of the differences."""
        (x,), (scale, bias) = operands(self, inputs, 1, 2)
        return (_affine(_standardized(f64(x), self.axes, self.epsilon), scale, bias, self.axes),)


@register
@dataclass(frozen=True)
class GroupNormalization(Op):
    """x[N,...], scale[C]?, bias[C]? -> standardised per sample and group of channels, then affine.

    Channels are `axis` (1 <= axis < rank), cut into `groups` runs; each is standardised over its
    channels and all other axes but the batch. groups == C is instance normalisation.
    """

    groups: int
    axis: int
    epsilon: float

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError if groups, scale or bias do not fit C."""
        (x,), (scale, bias) = operands(self, inputs, 1, 2)
        require_float(self, x, scale, bias)
        require_axis(self, self.axis, x.rank)
        require(self.axis >= 1, self, "axis 0 is the batch, not channels")
        _check_epsilon(self, self.epsilon)
        channels = x.shape[self.axis]
        require(self.groups >= 1, self, f"groups {self.groups} must be positive")
        fits = channels % self.groups == 0
        require(fits, self, f"groups {self.groups} does not divide {channels} channels")
        require(all(x.shape[1:]), self, f"shape {x.shape} holds no element")
        require_shape(self, "scale", scale, (channels,))
        require_shape(self, "bias", bias, (channels,))
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Splits the channel axis into (groups, channels per group) and standardises the rest."""
        (x,), (scale, bias) = operands(self, inputs, 1, 2)
        before, channels, after = x.shape[: self.axis], x.shape[self.axis], x.shape[self.axis + 1 :]
        split = f64(x).reshape(*before, self.groups, channels // self.groups, *after)
        axes = tuple(i for i in range(1, split.ndim) if i != self.axis)
        y = _standardized(split, axes, self.epsilon).reshape(x.shape)
        return (_affine(y, scale, bias, (self.axis,)),)
