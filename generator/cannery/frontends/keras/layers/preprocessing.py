"""Layers that prepare inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.ops.elementwise.binary import Add, Div, Mul, Sub
from cannery.ops.logic.compare import Equal, Where
from cannery.ops.reduce.op import ReduceMax, ReduceMin

#: Least standard deviation that Normalization divides by.
_EPSILON = 1e-7

_Numbers = NDArray[np.float64]


def _affine(
    scope: Scope, x: str, steps: Sequence[tuple[type[Add] | type[Mul], str, _Numbers]]
) -> str:
    """`x` through a Mul and an Add of constants; neutral ones vanish, the last one has the layer's
    name.
    """
    needed = [s for s in steps if np.any(s[2] != (1.0 if s[0] is Mul else 0.0))]
    for i, (op, label, value) in enumerate(needed):
        _check_broadcast(scope, x, label, value)
        constant = scope.constant(f"{label}_value", lambda value=value: value)  # type: ignore[misc]
        x = scope.node(op(), [x, constant], label if i + 1 < len(needed) else "")
    return x


def _check_broadcast(scope: Scope, x: str, label: str, value: _Numbers) -> None:
    shape = scope.shape(x)
    try:
        fits = np.broadcast_shapes(shape, value.shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ModelError(f"{label} of shape {value.shape} does not fit its input {shape}")


@layer("Rescaling")
def rescaling(config: LayerConfig) -> LayerPlan:
    """As x * scale + offset; both may be arrays that broadcast."""
    scale, offset = config.array("scale"), config.array("offset", 0.0)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        return _affine(scope, x, [(Mul, "scale", scale), (Add, "offset", offset)])

    return LayerPlan(build)


@layer("AutoContrast")
def auto_contrast(config: LayerConfig) -> LayerPlan:
    """Each channel of each image from its least to its greatest number, as the whole range."""
    bounds = config.array("value_range") if config.has("value_range") else np.asarray([0, 255])
    if bounds.shape != (2,):
        raise ModelError("value_range must be two numbers", where=f"layer {config.name!r}")
    low, high = bounds
    config.ignore("data_format")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if scope.rank(x) != 4:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected images")
        least = scope.node(ReduceMin((1, 2), keepdims=True), [x], "least")
        most = scope.node(ReduceMax((1, 2), keepdims=True), [x], "most")
        share = scope.node(
            Div(),
            [
                scope.node(Sub(), [x, least], "above"),
                scope.node(Sub(), [most, least], "contrast"),
            ],
            "share",
        )
        steps: list[tuple[type[Add] | type[Mul], str, _Numbers]] = [
            (Mul, "scale", np.asarray(high - low)),
            (Add, "offset", np.asarray(low)),
        ]
        y = _affine(scope.under("range"), share, steps)
        flat = scope.node(Equal(), [most, least], "flat")
        return scope.node(Where(), [flat, x, y])

    return LayerPlan(build, trains_by_default=True)


@layer("Normalization")
def normalization(config: LayerConfig) -> LayerPlan:
    """(x - mean) / deviation along the kept axes, or its inverse; from the config or learnt."""
    axes = config.axes("axis", ()) if config.has("axis") else (-1,)
    invert = config.flag("invert", False)
    given = _given_moments(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        kept = sorted({scope.axis(x, a) for a in axes})
        shape = scope.shape(x)
        dims = tuple(shape[a] for a in kept)
        wide = tuple(d if i in kept else 1 for i, d in enumerate(shape))
        mean, variance = (_spread(m(scope, dims), dims, wide) for m in given)
        deviation = np.maximum(np.sqrt(variance), _EPSILON)
        if invert:
            return _affine(scope, x, [(Mul, "scale", deviation), (Add, "offset", mean)])
        return _affine(scope, x, [(Add, "offset", -mean), (Mul, "scale", 1 / deviation)])

    stored = config.raw("mean") is None
    return LayerPlan(build, state=("mean", "variance", "count") if stored else ())


_Moment = Callable[[Scope, tuple[int, ...]], _Numbers]


def _given_moments(config: LayerConfig) -> tuple[_Moment, _Moment]:
    """Mean and variance, from the config if it has them, else from the stored weights."""

    def moment(key: str) -> _Moment:
        if config.raw(key) is None:
            return lambda scope, dims: scope.weight(key, dims).astype(np.float64)
        value = config.array(key)
        return lambda scope, dims: value

    mean, variance = moment("mean"), moment("variance")
    if (config.raw("mean") is None) != (config.raw("variance") is None):
        raise ModelError("mean and variance must come together", where=f"layer {config.name!r}")
    if config.raw("variance") is not None and np.any(config.array("variance") < 0):
        raise ModelError("variance is negative", where=f"layer {config.name!r}")
    return mean, variance


def _spread(value: _Numbers, dims: tuple[int, ...], wide: tuple[int, ...]) -> _Numbers:
    """A value that broadcasts to the kept dimensions, as a constant that broadcasts to the
    input.
    """
    while value.ndim > len(dims) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.ascontiguousarray(np.broadcast_to(value, dims)).reshape(wide)
    except ValueError:
        raise ModelError(
            f"mean or variance of shape {value.shape} does not fit axes of sizes {dims}"
        ) from None
