"""Operators that draw random numbers, from where the option NOISE says."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.tflite.scope import DTYPES, Scope, operator
from cannery.ir.tensor import MAX_ELEMENTS, DType
from cannery.ops.elementwise import Exp, Min, Mul, Sub
from cannery.ops.logic.compare import LessOrEqual
from cannery.ops.movement.op import Cast, Expand
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.random.op import DrawNormal, DrawUniform
from cannery.ops.reduce.op import ReduceMax, ReduceSum
from cannery.option_values import MEAN


@operator("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")
def random(scope: Scope) -> str:
    """Of a known shape: standard normal numbers, or uniform ones from 0 to below 1."""
    scope.ignore("Seed", "Seed2")  # what a seed means is another thing in each runtime
    shape = scope.known_integers(0, "its shape")
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"its shape {shape}")
    uniform = scope.kind == "RANDOM_UNIFORM"
    if scope.noise == MEAN:
        return scope.constant("mean", np.full(shape, 0.5 * uniform, np.float32))
    return scope.drawn(DrawUniform if uniform else DrawNormal, shape)


@operator("MULTINOMIAL")
def multinomial(scope: Scope) -> str:
    """Logarithms of probabilities[batch,classes], how many to draw -> classes[batch,draws].

    Each draw is the first class up to which the probabilities add up to more than a uniform number;
    for MEAN the likeliest class.
    """
    scope.ignore("Seed", "Seed2")
    x, counts = scope.input(0), scope.known_integers(1, "its number of draws")
    dtype = DTYPES.get(scope.output.dtype, DType.FLOAT32)
    if scope.rank(x) != 2 or not scope.shape(x)[1] or len(counts) != 1 or counts[0] < 1:
        raise ModelError(f"draws {counts} of {scope.shape(x)}")
    if dtype not in (DType.INT32, DType.INT64):
        raise ModelError(f"classes are {dtype.value}")
    batch, classes = scope.shape(x)
    shape = (batch, counts[0])
    if batch * classes * counts[0] > MAX_ELEMENTS:
        raise ModelError(f"draws {counts} of {scope.shape(x)}")
    if scope.noise == MEAN:
        likeliest = scope.node(ArgMax(1), [x], "likeliest")
        each = scope.node(Expand(shape), [likeliest], "each")
        return scope.node(Cast(dtype), [each])
    greatest = scope.node(ReduceMax((1,), True), [x], "greatest")
    weights = scope.node(Exp(), [scope.node(Sub(), [x, greatest], "relative")], "weights")
    sums = scope.node(CumSum(1), [weights], "sums")
    total = scope.node(ReduceMax((1,), True), [sums], "total")
    drawn = scope.node(Mul(), [scope.drawn(DrawUniform, shape), total], "drawn")
    steps = scope.reshaped(sums, (batch, classes, 1), "steps")
    marks = scope.reshaped(drawn, (batch, 1, counts[0]), "marks")
    passed = scope.node(LessOrEqual(), [steps, marks], "passed")
    ones = scope.node(Cast(DType.INT32), [passed], "ones")
    below = scope.node(ReduceSum((1,)), [ones], "below")
    last = scope.constant("last", np.asarray(classes - 1, np.int32))
    return scope.node(Cast(dtype), [scope.node(Min(), [below, last], "class")])
