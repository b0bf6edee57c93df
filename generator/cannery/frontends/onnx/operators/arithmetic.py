"""Shapes, slices and element types, as ONNX defines them; for operators and for folding."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.model import HALVES
from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.values import unsupported_elements
from cannery.ops.window import Pads, same_pads

#: TensorProto.DataType (onnx.proto) to numpy; float16 and bfloat16 are computed as float32.
_ELEMENTS = {
    **dict.fromkeys(HALVES, "float32"),

    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip

_OTHERS = {8: "string", 14: "complex64", 15: "complex128"}


def element_type(number: int) -> np.dtype[np.generic]:
    """The element type of a number of TensorProto.DataType. Raises UnsupportedError."""
    if number not in _ELEMENTS:
        raise unsupported_elements(_OTHERS.get(number, f"type {number} of ONNX"))
    return np.dtype(_ELEMENTS[number])


def target_shape(scope: Scope, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that Reshape makes of `shape`: 0 keeps a dimension, -1 is the rest."""
    target = scope.known_integers(1, "shapes")
    if target is None:
        raise ModelError("input 1 is missing")
    keep = not scope.integer("allowzero", 0)
    dims = []
    for axis, d in enumerate(target):
        if d == 0 and keep and axis >= len(shape):
            raise ModelError(f"shape {target} keeps a dimension that {shape} does not have")
        dims.append(shape[axis] if d == 0 and keep else d)
    known = prod(d for d in dims if d != -1)
    if dims.count(-1) > 1 or min(dims, default=0) < -1 or (-1 in dims and not known):
        raise ModelError(f"shape {target} is malformed")
    if -1 in dims:
        dims[dims.index(-1)] = prod(shape) // known
    if prod(dims) != prod(shape):
        raise ModelError(f"shape {shape} cannot become {target}")
    return tuple(dims)


def bounds_of_slices(scope: Scope, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """(start, end, step) per axis of a Slice of `shape`, resolved as `ops.movement.Slice` says."""
    if scope.opset < 10:
        starts, ends = scope.integers("starts"), scope.integers("ends")
        axes = scope.integers("axes", tuple(range(len(starts))))
        steps: tuple[int, ...] = (1,) * len(starts)
    else:
        given = [scope.known_integers(k, "bounds") for k in range(1, 5)]
        if given[0] is None or given[1] is None:
            raise ModelError("has no bounds")
        starts, ends = given[0], given[1]
        axes = tuple(range(len(starts))) if given[2] is None else given[2]
        steps = (1,) * len(starts) if given[3] is None else given[3]
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("its starts, ends, axes and steps differ in number")
    bounds = [(0, d, 1) for d in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ModelError("a step of 0")
        k = scope.axis(axis, len(shape))
        bounds[k] = _resolved(start, end, step, shape[k])
    return tuple(bounds)


def _resolved(start: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    if step < 0 and start < -size:  # unlike numpy, where nothing is before the first element
        start = -size
    start, end, step = slice(start, end, step).indices(size)
    count = len(range(start, end, step))
    if step > 0:
        return (start, max(start, end), step) if count else (0, 0, 1)
    return (start, end, step) if count else (0, 0, 1)


def window_pads(
    scope: Scope,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Pads:
    """Pads of a convolution or pool, from `pads` or `auto_pad`."""
    rank = len(kernel)
    for name, values in (("strides", strides), ("dilations", dilations)):
        if min(values, default=1) < 1:
            raise ModelError(f"{name} {values} must be positive")
    mode = scope.text("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    given = scope.integers("pads", (0,) * (2 * rank), 2 * rank)
    if mode == "NOTSET":
        if min(given, default=0) < 0:
            raise UnsupportedError(f"pads {given} are negative")
        return tuple(zip(given[:rank], given[rank:], strict=True))
    if mode == "VALID":
        return ((0, 0),) * rank
    pads = same_pads(spatial, kernel, strides, dilations)
    return pads if mode == "SAME_UPPER" else tuple((end, begin) for begin, end in pads)
