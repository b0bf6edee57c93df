"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.ops.elementwise.binary import Add, Div, Max, Mul, Sub
from cannery.ops.elementwise.unary import Sqrt, Square
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.reduce.op import ReduceL2, ReduceMean

_EPSILON = 1e-3


def _affine_names(scale: bool, center: bool) -> tuple[str, ...]:
    return (*(("gamma",) if scale else ()), *(("beta",) if center else ()))


def _epsilon(config: LayerConfig) -> float:
    return config.number("epsilon", _EPSILON)


@layer("BatchNormalization", "BatchNormalizationV1", "BatchNormalizationV2")
def batch_normalization(config: LayerConfig) -> LayerPlan:
    """Normalizes by the moving statistics, along one axis or several."""
    axes = config.axes("axis", (-1,))
    scale, center = config.flag("scale", True), config.flag("center", True)
    epsilon = _epsilon(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        resolved = sorted({scope.axis(x, a) for a in axes})
        if not resolved:
            raise ModelError("batch normalization over no axis")
        if len(resolved) > 1:
            shape = tuple(d if i in resolved else 1 for i, d in enumerate(scope.shape(x)))
            return _Statistics(scope, shape, scale, center).along_several(x, epsilon)
        statistics = _Statistics(scope, (scope.shape(x)[resolved[0]],), scale, center)
        return scope.node(BatchNormalization(resolved[0], epsilon), [x, *statistics.operands()])

    state = ("moving_mean", "moving_variance")
    return LayerPlan(build, _affine_names(scale, center), (*state, *_renorm_state(config)))


def _renorm_state(config: LayerConfig) -> tuple[str, ...]:
    """What batch renormalization stores in addition; it acts only in training."""
    if not config.flag("renorm", False):
        return ()
    return ("moving_stddev", "renorm_mean", "renorm_stddev")


class _Statistics:
    """The four statistics of a batch normalization: vectors, or of the input's rank."""

    def __init__(self, scope: Scope, shape: tuple[int, ...], scale: bool, center: bool) -> None:
        self._scope = scope
        self._shape = shape
        self._stored = {"gamma": scale, "beta": center}

    def _read(self, name: str) -> NDArray[np.generic]:
        if self._stored.get(name, True):
            return self._scope.weight(name, self._shape)
        fill = 1.0 if name == "gamma" else 0.0
        return np.full(self._shape, fill, np.float32)

    def operands(self) -> list[str]:
        """Constants: scale, bias, mean, variance. Stored ones first: they prove the shape."""
        values = {
            name: self._scope.constant(name, lambda name=name: self._read(name))  # type: ignore[misc]
            for name in ("moving_mean", "moving_variance", "gamma", "beta")
        }
        return [values[n] for n in ("gamma", "beta", "moving_mean", "moving_variance")]

    def along_several(self, x: str, epsilon: float) -> str:
        """As x * a + b, computed in float64, for statistics with as many dimensions as x."""
        mean, variance, gamma, beta = (
            self._read(n).astype(np.float64)
            for n in ("moving_mean", "moving_variance", "gamma", "beta")
        )
        with np.errstate(invalid="ignore", divide="ignore"):  # raised when everything is read
            factor = gamma / np.sqrt(variance + epsilon)
        term = beta - mean * factor
        scope = self._scope
        scaled = scope.node(Mul(), [x, scope.constant("factor", lambda: factor)], "scale")
        return scope.node(Add(), [scaled, scope.constant("term", lambda: term)])


@layer("LayerNormalization")
def layer_normalization(config: LayerConfig) -> LayerPlan:
    """Per sample, over one axis or several; Keras 3 has a form without subtraction and bias."""
    axes = config.axes("axis", (-1,))
    rms = config.flag("rms_scaling", False)
    scale = config.flag("scale", True) or rms
    center = config.flag("center", True) and not rms
    epsilon = _epsilon(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        given = [scope.axis(x, a) for a in axes]
        if not given:
            raise ModelError("layer normalization over no axis")
        resolved = tuple(sorted(set(given)))
        shapes = [tuple(scope.shape(x)[a] for a in order) for order in (resolved, given)]

        def stored(name: str) -> str:
            # Keras orders the stored dimensions as given, but reads them as sorted.
            return scope.constant(name, lambda: scope.weight(name, *shapes).reshape(shapes[0]))

        if rms:
            return _rms_scaled(scope, x, resolved, epsilon)
        affine = [stored("gamma") if scale else "", stored("beta") if center else ""]
        operands = affine if center else affine[: int(scale)]
        return scope.node(LayerNormalization(resolved, epsilon), [x, *operands])

    return LayerPlan(build, _affine_names(scale, center))


def _rms_scaled(scope: Scope, x: str, axes: tuple[int, ...], epsilon: float) -> str:
    """As x / sqrt(variance + epsilon) * gamma, where the variance is about the mean."""
    shape = scope.shape(x)
    wide = tuple(d if i in axes else 1 for i, d in enumerate(shape))
    stored = tuple(shape[a] for a in axes)
    gamma = scope.constant("gamma", lambda: scope.weight("gamma", stored).reshape(wide))
    small = scope.constant("epsilon", lambda: np.float32(epsilon).reshape(()))
    mean = scope.node(ReduceMean(axes, keepdims=True), [x], "mean")
    squares = scope.node(Square(), [scope.node(Sub(), [x, mean], "centred")], "squares")
    variance = scope.node(ReduceMean(axes, keepdims=True), [squares], "variance")
    safe = scope.node(Add(), [variance, small], "stabilised")
    scaled = scope.node(Div(), [x, scope.node(Sqrt(), [safe], "deviation")], "scaled")
    return scope.node(Mul(), [scaled, gamma])


@layer("GroupNormalization")
def group_normalization(config: LayerConfig) -> LayerPlan:
    """Per sample and group of channels; -1 groups means as many as channels."""
    groups = config.integer("groups", 32, minimum=-1)
    axis = config.integer("axis", -1, minimum=-(2**31))
    scale, center = config.flag("scale", True), config.flag("center", True)
    epsilon = _epsilon(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        resolved = scope.axis(x, axis)
        channels = scope.shape(x)[resolved]
        affine = [scope.stored("gamma", (channels,)) if scale else ""]
        affine += [scope.stored("beta", (channels,))] if center else []
        operands = affine if scale or center else []
        op = GroupNormalization(channels if groups == -1 else groups, resolved, epsilon)
        return scope.node(op, [x, *operands])

    return LayerPlan(build, _affine_names(scale, center))


@layer("RMSNormalization")
def rms_normalization(config: LayerConfig) -> LayerPlan:
    """Quotients x / sqrt(mean square + epsilon) along axes, times a stored scale."""
    axes = config.axes("axis", (-1,))
    epsilon = config.number("epsilon", 1e-6)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        resolved = tuple(sorted({scope.axis(x, a) for a in axes}))
        shape = scope.shape(x)
        wide = tuple(d if k in resolved else 1 for k, d in enumerate(shape))
        stored = tuple(shape[a] for a in resolved)
        scale = scope.constant("scale", lambda: scope.weight("scale", stored).reshape(wide))
        small = scope.constant("epsilon", lambda: np.float32(epsilon).reshape(()))
        squares = scope.node(Square(), [x], "squares")
        mean = scope.node(ReduceMean(resolved, keepdims=True), [squares], "mean")
        size = scope.node(Sqrt(), [scope.node(Add(), [mean, small], "stabilised")], "size")
        return scope.node(Mul(), [scope.node(Div(), [x, size], "scaled"), scale])

    return LayerPlan(build, ("scale",))


#: Least length by which UnitNormalization divides, in Keras 2 and 3.
_LEAST_LENGTH = (1e-6, 1e-12)


@layer("UnitNormalization")
def unit_normalization(config: LayerConfig) -> LayerPlan:
    """To length 1 along axes."""
    axes = config.axes("axis", (-1,))
    least = _LEAST_LENGTH[config.version.is_3]

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        resolved = tuple(sorted({scope.axis(x, a) for a in axes}))
        bound = scope.constant("least", lambda: np.float32(least).reshape(()))
        length = scope.node(ReduceL2(resolved, keepdims=True), [x], "length")
        return scope.node(Div(), [x, scope.node(Max(), [length, bound], "bounded")])

    return LayerPlan(build)
