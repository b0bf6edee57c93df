"""Activation layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras.layers.functions import read_activation
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import (
    Clip,
    Elu,
    LeakyRelu,
    PRelu,
    Relu,
    ReluGeneral,
    ThresholdedRelu,
)
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Reshape, Transpose
from cannery.ops.softmax.op import Softmax

#: What Keras puts in the place of scores that a mask leaves out.
_FAR = -1e9


def _plan(op: Op) -> LayerPlan:
    """A layer that is one node without weights."""

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.node(op, [scope.to_float(scope.single(inputs))])

    return LayerPlan(build)


@layer("Activation")
def activation(config: LayerConfig) -> LayerPlan:
    """Any activation function."""
    function = read_activation(config)
    if function is not None and function.child is not None:
        return function.child.plan

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.single(inputs)
        return x if function is None else function.apply(scope, scope.to_float(x))

    return LayerPlan(build)


@layer("ReLU", activation=True)
def relu(config: LayerConfig) -> LayerPlan:
    """With negative slope, threshold and maximum; as the simplest operator that computes it."""
    slope = config.number("negative_slope", 0.0)
    threshold = config.number("threshold", 0.0)
    maximum = config.optional_number("max_value")
    if maximum is None and threshold == 0:
        return _plan(LeakyRelu(slope) if slope else Relu())
    if maximum is not None and threshold == 0 and slope == 0:
        return _plan(Clip(0.0, maximum))
    return _plan(ReluGeneral(slope, threshold, maximum))


@layer("LeakyReLU", activation=True)
def leaky_relu(config: LayerConfig) -> LayerPlan:
    """Keras 2 calls the slope alpha, Keras 3 negative_slope; 0.3 in both unless given."""
    alpha = config.number("alpha", config.number("negative_slope", 0.3))
    return _plan(LeakyRelu(alpha))


@layer("ThresholdedReLU", activation=True)
def thresholded_relu(config: LayerConfig) -> LayerPlan:
    """The input where it is above theta, else 0."""
    return _plan(ThresholdedRelu(config.number("theta", 1.0)))


@layer("ELU", activation=True)
def elu(config: LayerConfig) -> LayerPlan:
    """The input x where x > 0, else alpha * (exp(x) - 1)."""
    return _plan(Elu(config.number("alpha", 1.0)))


@layer("PReLU", activation=True)
def prelu(config: LayerConfig) -> LayerPlan:
    """A stored slope per element of a sample, equal along `shared_axes`."""
    shared = config.axes("shared_axes", ())

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        axes = {scope.axis(x, a) for a in shared}
        shape = scope.shape(x)
        stored = tuple(1 if a in axes else shape[a] for a in range(1, len(shape)))
        return scope.node(PRelu(), [x, scope.stored("alpha", stored)])

    return LayerPlan(build, weights=("alpha",))


@layer("Softmax", activation=True)
def softmax(config: LayerConfig) -> LayerPlan:
    """Along one axis, or along several as if they were one."""
    axes = config.axes("axis", (-1,))

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        resolved = sorted({scope.axis(x, a) for a in axes})
        if not resolved:
            raise ModelError("softmax over no axis")
        mask = scope.mask()
        if mask is not None:
            x = _without_masked(scope, x, mask)
        if len(resolved) == 1:
            return scope.node(Softmax(resolved[0]), [x])
        return _softmax_over(scope, x, resolved)

    return LayerPlan(build, reads_masks=True)


def _without_masked(scope: Scope, x: str, mask: str) -> str:
    """`x`, with a large negative number where the mask is false, or at most 0.5."""
    scope.given.result_mask = scope.given.masks[0]
    if scope.type(mask).dtype is not DType.BOOL:
        half = scope.literal("half", np.asarray(0.5))
        mask = scope.node(Greater(), [scope.to_float(mask), half], "mask")
    return scope.node(Where(), [mask, x, scope.literal("far", np.asarray(_FAR))], "masked")


def _softmax_over(scope: Scope, x: str, axes: list[int]) -> str:
    """Softmax over several axes: they go last, become one, and go back."""
    shape = scope.shape(x)
    kept = [a for a in range(len(shape)) if a not in axes]
    order = (*kept, *axes)
    x = scope.transposed(x, "axes_last", order)
    moved = scope.shape(x)
    joined = prod(shape[a] for a in axes)
    flat = scope.node(Reshape((*moved[: len(kept)], joined)), [x], "flat")
    y = scope.node(Softmax(len(kept)), [flat], "softmax")
    y = scope.node(Reshape(moved), [y], "unflat")
    back = tuple(order.index(a) for a in range(len(order)))
    return scope.node(Transpose(back), [y])
