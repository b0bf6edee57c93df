"""What is known before the first call: the padding with which values begin, and what layers make
of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cannery.ir.evaluate import widen
from cannery.ir.graph import Array
from cannery.ir.registry import Op
from cannery.ir.tensor import TensorType
from cannery.ops.quantize.linear import QuantizeLinear

#: Results of windows from the elements that they read.
Make = Callable[[Array], Array]

#: How near to the middle of two integers a computed float may be that is rounded to one of them.
_UNSURE = 1e-3


def padding(type_: TensorType, axis: int, count: int, fill: float) -> Array:
    """Elements of padding: the shape of the type, with `count` of them along `axis`."""
    shape = (*type_.shape[:axis], count, *type_.shape[axis + 1 :])
    return np.full(shape, fill, type_.dtype.numpy)


def first(lead: Array, axis: int, count: int) -> Array:
    """The first `count` elements."""
    return lead.take(range(count), axis)


def after(lead: Array, axis: int, start: int) -> Array:
    """The elements from `start` on."""
    return lead.take(range(start, lead.shape[axis]), axis)


def results(op: Op, *inputs: Array | None) -> list[Array]:
    """What an operator makes of elements by its reference; floats are float32."""
    found = op.reference(*(None if a is None else widen(a) for a in inputs))
    return [a.astype(np.float32) if a.dtype.kind == "f" else a for a in found]


def is_sure(op: Op, inputs: list[Array | None]) -> bool:
    """Whether kernels, which round floats in another order, certainly make the same integers."""
    if not isinstance(op, QuantizeLinear):
        return True
    values, scale, _ = inputs
    assert values is not None and scale is not None
    with np.errstate(all="ignore"):
        quotient = values.astype(np.float64) / scale.astype(np.float64)
        return bool((np.abs(quotient - np.floor(quotient) - 0.5) > _UNSURE).all())
