"""Reductions, softmax and normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cannery.errors import ModelError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.elementwise import Affine, Div, Max, Mul, Pow, Square
from cannery.ops.movement.op import Cast
from cannery.ops.reduce import op as reduce
from cannery.ops.softmax.op import LogSoftmax, Softmax

_REDUCTIONS: Mapping[str, type[reduce.Reduction]] = {
    "MEAN": reduce.ReduceMean, "SUM": reduce.ReduceSum, "REDUCE_MAX": reduce.ReduceMax,
    "REDUCE_MIN": reduce.ReduceMin, "REDUCE_PROD": reduce.ReduceProd,
}  # fmt: skip


def reduced_axes(scope: Scope, x: str) -> tuple[int, ...]:
    """The axes over which an operator reduces, in order."""
    rank = scope.rank(x)
    return tuple(sorted({scope.axis(a, rank) for a in scope.known_integers(1, "its axes")}))


@operator(*_REDUCTIONS)
def reduction(scope: Scope) -> str:
    """Over known axes."""
    x = scope.input(0)
    op = _REDUCTIONS[scope.kind](reduced_axes(scope, x), scope.flag("KeepDims"))
    return scope.node(op, [x])


@operator("REDUCE_ANY", "REDUCE_ALL")
def any_or_all(scope: Scope) -> str:
    """As the maximum or minimum of 0 and 1."""
    x = scope.input(0)
    kind = reduce.ReduceMax if scope.kind == "REDUCE_ANY" else reduce.ReduceMin
    numbers = scope.node(Cast(DType.FLOAT32), [x], "numbers")
    op = kind(reduced_axes(scope, x), scope.flag("KeepDims"))
    return scope.node(Cast(DType.BOOL), [scope.node(op, [numbers], "found")])


@operator("SOFTMAX")
def softmax(scope: Scope) -> str:
    """Along the last axis, of beta times the input."""
    x, beta = scope.input(0), scope.number("Beta", 1.0)
    if beta != 1.0:
        x = scope.node(Mul(), [x, scope.scalar("beta", beta)], "scaled")
    return scope.node(Softmax(scope.axis(-1, scope.rank(x))), [x])


@operator("LOG_SOFTMAX")
def log_softmax(scope: Scope) -> str:
    """Along the last axis."""
    x = scope.input(0)
    return scope.node(LogSoftmax(scope.axis(-1, scope.rank(x))), [x])


@operator("L2_NORMALIZATION")
def l2_normalization(scope: Scope) -> str:
    """Divided by the norm along the last axis, which is at least 1e-6."""
    x = scope.input(0)
    axis = scope.axis(-1, scope.rank(x))
    norm = scope.node(reduce.ReduceL2((axis,), True), [x], "norm")
    safe = scope.node(Max(), [norm, scope.scalar("least", 1e-6)], "positive")
    return scope.fused(scope.node(Div(), [x, safe]))


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(scope: Scope) -> str:
    """Divided by (bias + alpha * the sum of squares of the channels around)^beta."""
    x, radius = scope.input(0), scope.integer("Radius")
    shape = scope.shape(x)
    if len(shape) != 4 or not 0 <= radius < 2**16:
        raise ModelError(f"a radius of {radius} in the shape {shape}")
    squares = scope.node(Square(), [x], "squares")
    line = scope.reshaped(squares, (prod(shape[:3]), shape[3], 1), "line")
    size = min(2 * radius + 1, 2 * shape[3] - 1)
    around = ((size // 2, size // 2),)
    op = AveragePool((size,), (1,), around, (1,), count_include_pad=True)
    means = scope.reshaped(scope.node(op, [line], "means"), shape, "around")
    alpha, bias = scope.number("Alpha"), scope.number("Bias")
    base = scope.node(Affine(alpha * size, bias), [means], "base")
    power = scope.node(Pow(), [base, scope.scalar("beta", scope.number("Beta"))], "power")
    return scope.node(Div(), [x, power])
