"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import apply, combined
from cannery.frontends.onnx.operators.movement import expanded
from cannery.frontends.onnx.operators.reduction import reduced
from cannery.frontends.onnx.operators.values import Computed, Constant, Value, channels_last
from cannery.ops.elementwise.binary import Add, Div, Max, Mul, Sub
from cannery.ops.elementwise.unary import Sqrt, Square
from cannery.ops.normalization.op import BatchNormalization, GroupNormalization, LayerNormalization
from cannery.ops.reduce.op import ReduceL1, ReduceL2, ReduceMean

_EPSILON = 1e-5


def _channels(x: Value) -> int:
    if len(x.shape) < 2:
        raise ModelError(f"its input has shape {x.shape}, which has no channels")
    return x.shape[1]


def _epsilon(scope: Scope) -> float:
    """The number added to a variance, whose square root divides: finite, and not negative."""
    epsilon = scope.number("epsilon", _EPSILON)
    if not 0.0 <= epsilon < np.inf:
        raise ModelError(f"epsilon {epsilon:g} must be finite and >= 0")
    return epsilon


@operator("BatchNormalization")
def batch_normalization(scope: Scope) -> Value:
    """By stored statistics, per channel."""
    scope.ignore("momentum", "is_test")
    x = scope.input(0)
    _channels(x)
    if scope.integer("training_mode", 0) or not scope.integer("spatial", 1):
        raise UnsupportedError("it is in training mode, or not per channel")
    epsilon = _epsilon(scope)
    values = [scope.input(k) for k in range(1, 5)]
    if any(isinstance(v, Computed) for v in values):
        return _by_computed_statistics(scope, x, values, epsilon)
    name, perm = scope.as_is(x)
    op = BatchNormalization(perm.index(1), epsilon)
    statistics = [scope.plain(v) for v in values]
    return scope.result(scope.node(op, [name, *statistics]), perm)


def _by_computed_statistics(
    scope: Scope, x: Value, values: Sequence[Value], epsilon: float
) -> Value:
    """Step by step: (x - mean) / sqrt(var + epsilon) * scale + bias."""
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    if any(v.shape != (x.shape[1],) for v in values):
        raise ModelError(f"its statistics do not fit the {x.shape[1]} channels of its input")
    labels = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        scope.reshaped(v, shape, label) for v, label in zip(values, labels, strict=True)
    )
    small = Constant(np.asarray(epsilon, np.float32), f"{scope.name}/epsilon")
    safe = combined(scope, Add(), variance, small, "stabilised")
    root = apply(scope, Sqrt(), safe, "root")
    y = combined(scope, Sub(), x, mean, "centred")
    y = combined(scope, Div(), y, root, "standardised")
    return combined(scope, Add(), combined(scope, Mul(), y, scale, "scaled"), bias)


@operator("InstanceNormalization")
def instance_normalization(scope: Scope) -> Value:
    """Per sample and channel. If a Reshape joined channels, it is per group of them."""
    x = scope.input(0)
    groups = _channels(x)
    whole = scope.whole(x)
    joined = groups and len(whole.shape) > 2 and x.shape[:2] == (whole.shape[0], groups)
    if not joined or whole.shape[1] % groups or len(x.shape) != 3:
        return _grouped(scope, x, groups, [1, 2])
    return scope.reshaped(_grouped(scope, whole, groups, [1, 2], "grouped"), x.shape)


@operator("GroupNormalization")
def group_normalization(scope: Scope) -> Value:
    """Per sample and group of channels; until version 20 scale and bias are per group."""
    _check_stash(scope)
    return _grouped(scope, scope.input(0), scope.integer("num_groups"), [1, 2])


def _grouped(
    scope: Scope, x: Value, groups: int, affine: Sequence[int], label: str = ""
) -> Computed:
    channels = _channels(x)
    if groups < 1 or channels % groups:
        raise ModelError(f"{groups} groups do not divide {channels} channels")
    name, perm = scope.as_is(x)
    if perm[0] != 0:  # statistics are those of one sample
        name, perm = scope.last(x), channels_last(len(x.shape))
    op = GroupNormalization(groups, perm.index(1), _epsilon(scope))
    operands = []
    for k in affine:
        value = scope.input(k)
        if value.shape == (groups,) != (channels,):
            column = scope.reshaped(value, (groups, 1), f"column{k}")
            wide = expanded(scope, column, (groups, channels // groups), f"expanded{k}")
            value = scope.reshaped(wide, (channels,), f"affine{k}")
        operands.append(scope.plain(value))
    return scope.result(scope.node(op, [name, *operands], label), perm)


def _check_stash(scope: Scope) -> None:
    if scope.integer("stash_type", 1) != 1:
        raise UnsupportedError("a stash_type other than float32")


@operator("LayerNormalization")
def layer_normalization(scope: Scope) -> Value:
    """Over the axes from `axis` on."""
    _check_stash(scope)
    x = scope.input(0)
    rank = len(x.shape)
    axis = scope.axis(scope.integer("axis", -1), rank)
    name, perm = scope.as_is(x)
    axes = tuple(k for k, p in enumerate(perm) if p >= axis)
    inner = tuple(p - axis for p in perm if p >= axis)
    operands = []
    for k in (1, 2):
        value = scope.optional(k)
        if value is not None:
            full = _full(scope, value, x.shape[axis:], f"affine{k}")
            operands.append(scope.place(full, inner))
    op = LayerNormalization(axes, _epsilon(scope))
    return scope.result(scope.node(op, [name, *operands]), perm)


def _full(scope: Scope, value: Value, target: tuple[int, ...], label: str) -> Value:
    """A scale or bias that broadcasts to `target`, expanded to its size."""
    if value.shape == target:
        return value
    if isinstance(value, Constant):
        try:
            wide = np.broadcast_to(value.array, target)
        except ValueError:
            raise ModelError(f"shape {value.shape} does not broadcast to {target}") from None
        return Constant(np.ascontiguousarray(wide), value.hint)
    return expanded(scope, value, target, label)


@operator("RMSNormalization")
def rms_normalization(scope: Scope) -> Value:
    """Over the axes from `axis` on: x / sqrt(mean(x^2) + epsilon) * scale."""
    _check_stash(scope)
    x, scale = scope.input(0), scope.input(1)
    rank = len(x.shape)
    axes = tuple(range(scope.axis(scope.integer("axis", -1), rank), rank))
    name = scope.plain(x)
    squares = scope.node(Square(), [name], "squares")
    mean = scope.node(ReduceMean(axes, keepdims=True), [squares], "mean")
    small = scope.scalar("epsilon", _epsilon(scope))
    safe = scope.node(Add(), [mean, small], "stabilised")
    root = scope.node(Sqrt(), [safe], "root")
    scaled = scope.node(Div(), [name, root], "scaled")
    return scope.result(scope.node(Mul(), [scaled, scope.plain(scale)]))


@operator("LpNormalization")
def lp_normalization(scope: Scope) -> Value:
    """Divides by the 1-norm or 2-norm along an axis; 0 where that is 0."""
    x = scope.input(0)
    axis = scope.axis(scope.integer("axis", -1), len(x.shape))
    order = scope.integer("p", 2)
    if order not in (1, 2):
        raise UnsupportedError(f"p {order}; 1 and 2 are supported")
    norm = reduced(scope, ReduceL1 if order == 1 else ReduceL2, x, [axis], True, "norm")
    # The least normal number: anything less is a sum of zeros, or nearly so.
    least = Constant(np.asarray(np.finfo(np.float32).tiny, np.float32), f"{scope.name}/least")
    return combined(scope, Div(), x, combined(scope, Max(), norm, least, "positive"))
