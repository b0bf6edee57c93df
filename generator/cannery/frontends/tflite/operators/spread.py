"""Gaps between elements, and reductions of windows that may have gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.registry import Op
from cannery.ir.tensor import MAX_ELEMENTS
from cannery.ops.elementwise import Add, Max, Min, Mul
from cannery.ops.logic.compare import And, Or
from cannery.ops.movement.op import Pad, Slice

#: Operators of REDUCE_WINDOW, by their numbers in the schema.
_REDUCTIONS: Mapping[int, Op] = {1: Add(), 2: Mul(), 3: Min(), 4: Max(), 5: And(), 6: Or()}

#: Most taps of a window, along all axes together: each is a node.
_MOST_TAPS = 256


def _spread(scope: Scope, x: str, gaps: Sequence[int], value: float) -> str:
    """The value with as many elements more between neighbours, along each axis."""
    for axis, gap in enumerate(gaps):
        shape = scope.shape(x)
        if gap < 0 or prod(shape) * (gap + 1) > MAX_ELEMENTS:
            raise ModelError(f"{gap} elements between those of {shape}")
        if not gap or shape[axis] < 2:
            continue
        single = scope.reshaped(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]), f"single{axis}")
        pads = ((0, 0),) * (axis + 1) + ((0, gap),) + ((0, 0),) * (len(shape) - axis - 1)
        wide = scope.node(Pad(pads, value), [single], f"gaps{axis}")
        size = shape[axis] * (gap + 1)
        line = scope.reshaped(wide, (*shape[:axis], size, *shape[axis + 1 :]), f"line{axis}")
        x = _along(scope, line, axis, (0, size - gap, 1), f"spread{axis}")
    return x


def _along(scope: Scope, x: str, axis: int, span: tuple[int, int, int], label: str) -> str:
    """A range of elements (start, end, step) along one axis."""
    shape = scope.shape(x)
    start, end, step = span
    starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], ends[axis], steps[axis] = start, end, step
    return scope.node(Slice(tuple(starts), tuple(ends), tuple(steps)), [x], label)


def _one(scope: Scope, index: int, what: str) -> float:
    found = scope.known(index, what)
    if found.size != 1:
        raise ModelError(f"{what} has {found.size} elements")
    return float(found.item())


@operator("DILATE")
def dilate(scope: Scope) -> str:
    """x, dilations, the number in the gaps."""
    x = scope.input(0)
    dilations = scope.known_integers(1, "its dilations")
    if len(dilations) != scope.rank(x) or min(dilations, default=1) < 1:
        raise ModelError(f"dilations {dilations} of {scope.shape(x)}")
    return _spread(scope, x, [d - 1 for d in dilations], _one(scope, 2, "its number"))


@operator("STABLEHLO_PAD")
def stablehlo_pad(scope: Scope) -> str:
    """x, the number around and between its elements; fewer than 0 take elements away."""
    x = scope.input(0)
    value = _one(scope, 1, "its number")
    names = ("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
    low, high, gaps = (scope.integers(name) for name in names)
    if {len(low), len(high), len(gaps)} != {scope.rank(x)}:
        raise ModelError(f"edges {low}, {high} and gaps {gaps} of {scope.shape(x)}")
    spread = _spread(scope, x, gaps, value)
    sizes = zip(scope.shape(spread), low, high, strict=True)
    if any(max(0, -a) + max(0, -b) > d or max(a, b) > MAX_ELEMENTS for d, a, b in sizes):
        raise ModelError(f"edges {low} and {high} of {scope.shape(spread)}")
    starts = tuple(max(0, -a) for a in low)
    ends = tuple(d - max(0, -b) for d, b in zip(scope.shape(spread), high, strict=True))
    inner = scope.node(Slice(starts, ends, (1,) * len(starts)), [spread], "inner")
    pads = tuple((max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True))
    return scope.node(Pad(pads, value), [inner])


@operator("REDUCE_WINDOW")
def reduce_window(scope: Scope) -> str:
    """x, the number to begin with, sizes, strides and dilations of a window: axis after axis."""
    x, begin = scope.input(0), scope.input(1)
    op = _REDUCTIONS.get(scope.integer("ReduceFunction"))
    if op is None:
        raise UnsupportedError(f"its function {scope.integer('ReduceFunction')} is not supported")
    whats = "the size of its window", "its strides", "its dilations"
    sizes, strides, dilations = (scope.known_integers(k + 2, w) for k, w in enumerate(whats))
    shape = scope.shape(x)
    if {len(sizes), len(strides), len(dilations)} != {len(shape)} or (
        min((*sizes, *strides, *dilations), default=1) < 1
    ):
        raise ModelError(f"a window {sizes}, each {strides}, dilated by {dilations}, of {shape}")
    if sum(sizes) > _MOST_TAPS:
        raise UnsupportedError(f"a window {sizes} is too large")
    for axis in range(len(shape)):
        last = shape[axis] - (sizes[axis] - 1) * dilations[axis]
        if last < 1:
            raise ModelError(f"a window {sizes} is larger than {shape}")
        if sizes[axis] == strides[axis] == 1:
            continue
        at = [k * dilations[axis] for k in range(sizes[axis])]
        taps = [_along(scope, x, axis, (k, k + last, strides[axis]), f"tap{axis}") for k in at]
        x = taps[0]
        for tap in taps[1:]:
            x = scope.node(op, [x, tap], f"window{axis}")
    return scope.node(op, [x, scope.reshaped(begin, (), "begin")])
