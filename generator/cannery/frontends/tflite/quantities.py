"""What the integers of an operator's inputs and outputs mean: one scale for a whole tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.model import Tensor
from cannery.frontends.tflite.scope import Scope
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import QUANTISED, away

#: Numbers of the activations that are ranges, by the schema.
_RANGES = {0: (-np.inf, np.inf), 1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}

#: Scales between these have a reciprocal in float32, and so has what they give any int16.
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 2**16


@dataclass(frozen=True)
class Quantity:
    """Integers q that mean scale * (q - zero), of a type and in a range."""

    dtype: DType
    scale: float
    zero: int
    minimum: int
    maximum: int

    @property
    def bounds(self) -> tuple[DType, int, int, int]:
        """The first attributes of the operators in `fixed_point`."""
        return self.dtype, self.zero, self.minimum, self.maximum


def _of(tensor: Tensor) -> Quantity | None:
    """What the integers of a tensor mean; None for floats."""
    if tensor.dtype == "FLOAT32":
        return None
    where = f"tensor {tensor.name!r}"
    dtypes = {d.value.upper(): d for d in QUANTISED}
    if tensor.scales is None or tensor.dtype not in dtypes:
        raise UnsupportedError(f"{tensor.name!r} is {tensor.dtype} without a scale")
    if not tensor.scales.single:
        raise UnsupportedError(f"{tensor.name!r} has {tensor.scales.scales.size} scales")
    scale, zero = float(tensor.scales.scales[0]), int(tensor.scales.zeros[0])
    dtype = dtypes[tensor.dtype]
    info = np.iinfo(dtype.value)
    if not (_LEAST <= scale <= _MOST and info.min <= zero <= info.max):
        raise ModelError(f"a scale of {scale} and a zero point of {zero}", where=where)
    return Quantity(dtype, scale, zero, int(info.min), int(info.max))


def quantity(scope: Scope, index: int) -> Quantity | None:
    """What an input means; None for floats."""
    return _of(scope.tensor(index))


def output_range(scope: Scope, *, activation: bool = True) -> Quantity:
    """What the output means, clamped by the activation that is an option of the operator."""
    found = _of(scope.output)
    if found is None:
        raise UnsupportedError("its result is not quantised, but its inputs are")
    number = scope.integer("FusedActivationFunction") if activation else 0
    if number not in _RANGES:
        raise UnsupportedError(f"its activation {number} is not supported on integers")
    bounds = [
        np.clip(found.zero + in_units(b, found.scale), -(2**31), 2**31) for b in _RANGES[number]
    ]
    low, high = max(int(bounds[0]), found.minimum), min(int(bounds[1]), found.maximum)
    return Quantity(found.dtype, found.scale, found.zero, low, max(low, high))


def in_units(bound: float, scale: float) -> float:
    """A bound in whole units of a scale; it may be infinite."""
    with np.errstate(over="ignore"):
        return float(away(np.float32(bound) / np.float32(scale)))


def require_bytes(scope: Scope, *indices: int) -> None:
    """Raises UnsupportedError unless these inputs are bytes."""
    for index in indices:
        if scope.tensor(index).dtype not in ("INT8", "UINT8"):
            raise UnsupportedError(f"on {scope.tensor(index).dtype} it is not supported")


def require_types(scope: Scope, *quantities: Quantity) -> None:
    """Raises UnsupportedError unless all have one type; int16 has no zero points."""
    if len({each.dtype for each in quantities}) > 1:
        raise UnsupportedError("its inputs and its output have different types")
    if quantities[0].dtype is DType.INT16 and any(each.zero for each in quantities):
        raise UnsupportedError("int16 with a zero point")


def require_same(scope: Scope) -> None:
    """Raises UnsupportedError unless the first input and the output mean the same."""
    x, y = scope.tensor(0), scope.output
    if x.dtype != y.dtype or x.scales is None or not x.scales.same(y.scales):
        raise UnsupportedError("its input and its output have different scales")
