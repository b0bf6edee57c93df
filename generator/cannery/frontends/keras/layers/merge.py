"""Layers that combine several tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.ir.registry import Op
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise.binary import Add, Div, Max, Min, Mul, Sub
from cannery.ops.elementwise.unary import Sqrt
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.ops.reduce.op import ReduceSumSquare

#: Least squared length that Dot divides by when it normalizes, in Keras 2 and 3.
_MIN_SQUARES = (1e-12, 1e-14)


def _operands(scope: Scope, inputs: Sequence[str]) -> list[str]:
    """The inputs, of equal rank: Keras inserts ones after the batch."""
    if any(not scope.is_float(x) for x in inputs):
        raise UnsupportedError(
            "arithmetic on integers is not supported", cure="put a Rescaling layer before it"
        )
    rank = max(scope.rank(x) for x in inputs)
    return [_lifted(scope, x, rank, i) for i, x in enumerate(inputs)]


def _lifted(scope: Scope, x: str, rank: int, index: int) -> str:
    shape = scope.shape(x)
    missing = rank - len(shape)
    if not missing:
        return x
    lifted = (shape[0], *((1,) * missing), *shape[1:])
    return scope.node(Reshape(lifted), [x], f"input{index}")


def _chain(scope: Scope, op: Op, inputs: Sequence[str], label: str = "") -> str:
    """op(op(x0, x1), x2) ...; the last node has the name of the layer (or of `label`)."""
    result, *rest = inputs
    for i, x in enumerate(rest, start=1):
        part = f"{label or 'part'}{i}" if i < len(rest) else label
        result = scope.node(op, [result, x], part)
    return result


def _plan(fold: Callable[[Scope, list[str]], str], exactly: int | None = None) -> LayerPlan:
    def build(scope: Scope, inputs: Sequence[str]) -> str:
        if not inputs or (exactly is not None and len(inputs) != exactly):
            raise ModelError(f"takes {exactly or 'several'} inputs, has {len(inputs)}")
        return fold(scope, _operands(scope, inputs))

    return LayerPlan(build)


@layer("Add")
def add(config: LayerConfig) -> LayerPlan:
    """Sum of all inputs, from the left."""
    return _plan(lambda scope, xs: _chain(scope, Add(), xs))


@layer("Subtract")
def subtract(config: LayerConfig) -> LayerPlan:
    """Difference of two inputs."""
    return _plan(lambda scope, xs: _chain(scope, Sub(), xs), exactly=2)


@layer("Multiply")
def multiply(config: LayerConfig) -> LayerPlan:
    """Product of all inputs, from the left."""
    return _plan(lambda scope, xs: _chain(scope, Mul(), xs))


@layer("Maximum")
def maximum(config: LayerConfig) -> LayerPlan:
    """Greatest of all inputs."""
    return _plan(lambda scope, xs: _chain(scope, Max(), xs))


@layer("Minimum")
def minimum(config: LayerConfig) -> LayerPlan:
    """Least of all inputs."""
    return _plan(lambda scope, xs: _chain(scope, Min(), xs))


@layer("Average")
def average(config: LayerConfig) -> LayerPlan:
    """Sum of all inputs, times 1 / count."""

    def fold(scope: Scope, xs: list[str]) -> str:
        share = scope.constant("share", lambda: np.float32(1 / len(xs)).reshape(()))
        return scope.node(Mul(), [_chain(scope, Add(), xs, "sum"), share])

    return _plan(fold)


@layer("Concatenate")
def concatenate(config: LayerConfig) -> LayerPlan:
    """All inputs joined along one axis."""
    axis = config.integer("axis", -1, minimum=-(2**31))

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        if not inputs:
            raise ModelError("takes several inputs, has none")
        mixed = len({scope.is_float(x) for x in inputs}) > 1
        xs = [scope.to_float(x) for x in inputs] if mixed else list(inputs)
        resolved = scope.axis(xs[0], axis)
        return scope.node(Concat(resolved), xs) if len(xs) > 1 else xs[0]

    return LayerPlan(build)


@layer("Dot")
def dot(config: LayerConfig) -> LayerPlan:
    """Contracts axes[0] of the first with axes[1] of the second input, sample by sample.

    Other axes follow each other: first those of the first input, then those of the second; two
    vectors give [N,1]. `normalize` scales both to unit length along the axis first.
    """
    given = config.axes("axes")
    normalize = config.flag("normalize", False)
    least = _MIN_SQUARES[config.version.is_3]
    axes = given * 2 if len(given) == 1 else given
    if len(axes) != 2:
        raise ModelError(f"axes {axes} must be one or two", where=f"layer {config.name!r}")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        if len(inputs) != 2:
            raise ModelError(f"takes 2 inputs, has {len(inputs)}")
        xs = [scope.to_float(x) for x in inputs]
        resolved = [scope.axis(x, a) for x, a in zip(xs, axes, strict=True)]
        if normalize:
            pairs = zip(xs, resolved, strict=True)
            xs = [_unit(scope.under(f"unit{i}"), x, a, least) for i, (x, a) in enumerate(pairs)]
        return _contract(scope, xs, resolved)

    return LayerPlan(build)


def _unit(scope: Scope, x: str, axis: int, least: float) -> str:
    """Scales to unit length: x / sqrt(max(sum of squares along the axis, least))."""
    bound = scope.constant("min_square", lambda: np.float32(least).reshape(()))
    squares = scope.node(ReduceSumSquare((axis,), keepdims=True), [x], "squares")
    length = scope.node(Sqrt(), [scope.node(Max(), [squares, bound], "bounded")], "length")
    return scope.node(Div(), [x, length])


def _contract(scope: Scope, xs: list[str], axes: list[int]) -> str:
    """A matrix product per sample: a[N,free,K] times b[N,K,free]."""
    batch = scope.shape(xs[0])[0]
    free = [_free_dims(scope, x, a) for x, a in zip(xs, axes, strict=True)]
    depth = scope.shape(xs[0])[axes[0]]
    if depth != scope.shape(xs[1])[axes[1]]:
        shapes = " and ".join(str(scope.shape(x)) for x in xs)
        raise ModelError(f"axes {tuple(axes)} of {shapes} differ in size")
    a = _matrix(scope, xs[0], axes[0], (batch, prod(free[0]), depth), last=True)
    b = _matrix(scope, xs[1], axes[1], (batch, depth, prod(free[1])), last=False)
    wanted = (batch, *free[0], *free[1]) if free[0] or free[1] else (batch, 1)
    product = (batch, prod(free[0]), prod(free[1]))
    if product == wanted:
        return scope.node(MatMul(), [a, b])
    return scope.node(Reshape(wanted), [scope.node(MatMul(), [a, b], "product")])


def _free_dims(scope: Scope, x: str, axis: int) -> tuple[int, ...]:
    return tuple(d for i, d in enumerate(scope.shape(x)) if i not in (0, axis))


def _matrix(scope: Scope, x: str, axis: int, shape: tuple[int, ...], *, last: bool) -> str:
    """`x` with `axis` last (or second), the others joined: of the given shape."""
    side = "a" if last else "b"
    others = [i for i in range(1, scope.rank(x)) if i != axis]
    order = (0, *others, axis) if last else (0, axis, *others)
    if order != tuple(range(len(order))):
        x = scope.transposed(x, f"{side}_order", order)
    return x if scope.shape(x) == shape else scope.node(Reshape(shape), [x], f"{side}_matrix")
