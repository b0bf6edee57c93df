"""Classes drawn by the logarithms of their probabilities, as ONNX and TensorFlow Lite have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cannery.frontends.node_scope import NodeScope
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Exp, Min, Mul, Sub
from cannery.ops.logic.compare import LessOrEqual
from cannery.ops.movement.op import Cast, Expand, Reshape
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.random.op import DrawUniform
from cannery.ops.reduce.op import ReduceMax, ReduceSum
from cannery.option_values import MEAN

Array = NDArray[np.generic]


class DrawingScope(NodeScope, Protocol):
    """What appends nodes, and knows where random numbers come from."""

    @property
    def noise(self) -> str | None:
        """The option NOISE."""

    def drawn(self, kind: type[DrawUniform], shape: Sequence[int]) -> str:
        """A value of random numbers."""

    def constant(self, label: str, array: Array) -> str:
        """A constant `<layer>/<label>`."""


def multinomial(scope: DrawingScope, x: str, draws: int, dtype: DType) -> str:
    """Of the value x[batch,classes], classes[batch,draws], int32 or int64; for MEAN the likeliest.

    Each draw is the first class up to which the probabilities add up to more than a uniform number.
    A class that is impossible is never drawn.
    """
    batch, classes = scope.type(x).shape
    if scope.noise == MEAN:
        likeliest = scope.node(ArgMax(1), [x], "likeliest")
        return _as(scope, scope.node(Expand((batch, draws)), [likeliest], "each"), dtype)
    below = scope.node(ReduceSum((1,)), [_passed(scope, x, draws)], "below")
    last = scope.constant("last", np.asarray(classes - 1, np.int32))
    return _as(scope, scope.node(Min(), [below, last], "class"), dtype)


def _as(scope: DrawingScope, value: str, dtype: DType) -> str:
    """Classes in a type."""
    return value if scope.type(value).dtype is dtype else scope.node(Cast(dtype), [value])


def _passed(scope: DrawingScope, x: str, draws: int) -> str:
    """int32[batch,classes,draws]: whether the sum up to a class does not exceed a draw."""
    batch, classes = scope.type(x).shape
    greatest = scope.node(ReduceMax((1,), True), [x], "greatest")
    weights = scope.node(Exp(), [scope.node(Sub(), [x, greatest], "relative")], "weights")
    sums = scope.node(CumSum(1), [weights], "sums")
    total = scope.node(ReduceMax((1,), True), [sums], "total")
    drawn = scope.node(Mul(), [scope.drawn(DrawUniform, (batch, draws)), total], "drawn")
    steps = scope.node(Reshape((batch, classes, 1)), [sums], "steps")
    marks = scope.node(Reshape((batch, 1, draws)), [drawn], "marks")
    passed = scope.node(LessOrEqual(), [steps, marks], "passed")
    return scope.node(Cast(DType.INT32), [passed], "ones")
