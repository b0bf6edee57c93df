"""Operators that draw random numbers, from where the option NOISE says."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.multinomial import multinomial as draw_classes
from cannery.frontends.tflite.scope import DTYPES, Scope, operator
from cannery.ir.tensor import MAX_ELEMENTS, DType
from cannery.ops.random.op import DrawNormal, DrawUniform
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
    """Logarithms of probabilities[batch,classes], how many to draw -> classes[batch,draws]."""
    scope.ignore("Seed", "Seed2")
    x, counts = scope.input(0), scope.known_integers(1, "its number of draws")
    dtype = DTYPES.get(scope.output.dtype, DType.FLOAT32)
    if scope.rank(x) != 2 or not scope.shape(x)[1] or len(counts) != 1 or counts[0] < 1:
        raise ModelError(f"draws {counts} of {scope.shape(x)}")
    if dtype not in (DType.INT32, DType.INT64):
        raise ModelError(f"classes are {dtype.value}")
    batch, classes = scope.shape(x)
    if batch * classes * counts[0] > MAX_ELEMENTS:
        raise ModelError(f"draws {counts} of {scope.shape(x)}")
    return draw_classes(scope, x, counts[0], dtype)
