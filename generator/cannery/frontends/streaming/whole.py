"""Which axes of a value have all steps, as a Reshape of them or a softmax over them leaves these.

An output with such an axis would be a whole window in each call. Sums over it end that: a dense
layer over all steps, a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any

from cannery.ir.graph import Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Identity, Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import ArgMax, ArgMin
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.reduce.op import Reduction
from cannery.ops.scalar.base import Pointwise

#: Elements from one place to the next, and to the end of them all, in a value's order of elements.
Span = tuple[int, int]


@dataclass(frozen=True)
class Whole:
    """The layer that needs all steps, the axes of a value that have them, and where within these
    the steps are, which a Reshape may separate from features again.
    """

    layer: Node
    axes: Set[int]
    spans: Set[Span]


def whole_of(layer: Node, type_: TensorType, axes: Set[int]) -> Whole:
    """All of `axes` of a value of this type."""
    return Whole(layer, axes, {_span(type_.shape, axis) for axis in axes})


@dataclass(frozen=True)
class _Use:
    """An operator, the types of an input and of the output, and where the input has steps."""

    op: Any
    place: int
    input: TensorType
    output: TensorType
    axes: Set[int]
    spans: Set[Span]


def whole_after(
    node: Node, inputs: Sequence[TensorType | None], output: TensorType,
    found: Sequence[Whole | None],
) -> Whole | None:  # fmt: skip
    """Where a node's first output has steps, for those of its inputs; None: nowhere.

    Types are those of the whole sequence. An axis of one element has none. None are known after an
    operator without a rule that changes the rank.
    """
    uses = [
        _Use(node.op, place, type_, output, whole.axes, whole.spans)
        for place, (type_, whole) in enumerate(zip(inputs, found, strict=True))
        if type_ is not None and whole
    ]
    axes = {axis for use in uses for axis in _after(use) if output.shape[axis] > 1}
    layer = next((whole.layer for whole in found if whole), None)
    if layer is None or not axes:
        return None
    if all(_keeps_order(use) for use in uses):
        return Whole(layer, axes, {span for use in uses for span in use.spans})
    return whole_of(layer, output, axes)


def _keeps_order(use: _Use) -> bool:
    """Whether each element of the output is that of the input at the same place."""
    each = isinstance(use.op, Elementwise | Pointwise | Identity | Cast)
    return isinstance(use.op, Reshape) or (each and use.input.shape == use.output.shape)


def _after(use: _Use) -> set[int]:
    for kind, rule in _RULES.items():
        if isinstance(use.op, kind):
            return rule(use)
    return _aligned(use) if use.output.rank >= use.input.rank else set()


def _aligned(use: _Use) -> set[int]:
    """At their ends, as in broadcasting."""
    return {axis + use.output.rank - use.input.rank for axis in use.axes}


def _reshape(use: _Use) -> set[int]:
    """The axes that count over some of the same places."""
    own = {axis: _span(use.output.shape, axis) for axis in range(use.output.rank)}
    return {
        axis
        for axis, (first, last) in own.items()
        if any(max(low, first) < min(high, last) for low, high in use.spans)
    }


def _span(shape: tuple[int, ...], axis: int) -> Span:
    return prod(shape[axis + 1 :]), prod(shape[axis:])


def _transpose(use: _Use) -> set[int]:
    return {use.op.perm.index(axis) for axis in use.axes}


def _slice(use: _Use) -> set[int]:
    """Those of which it takes more than half."""
    return {a for a in use.axes if 2 * use.output.shape[a] > use.input.shape[a]}


def _without(use: _Use, gone: Sequence[int]) -> set[int]:
    left = use.axes - set(gone)
    return {a - (0 if use.op.keepdims else sum(g < a for g in gone)) for a in left}


def _matmul(use: _Use) -> set[int]:
    """All but the inner dimension; a bias is aligned with the columns."""
    if use.place > 1:
        return _aligned(use) if use.place == 2 else set()
    turned = getattr(use.op, ("transpose_a", "transpose_b")[use.place], False)
    inner = use.input.rank - (2 if turned != (use.place == 1) else 1)
    kept = use.output.rank - 2 + use.place
    outer = {a + use.output.rank - use.input.rank for a in use.axes if a < use.input.rank - 2}
    own = any(a >= use.input.rank - 2 and a != inner for a in use.axes)
    return outer | ({kept} if own else set())


def _conv(use: _Use) -> set[int]:
    """All but channels, which it sums up."""
    return set(use.axes) - {use.input.rank - 1} if use.place == 0 else set()


#: What operators do with such axes, where it is not what `_aligned` says.
_RULES: Mapping[Any, Callable[[_Use], set[int]]] = {
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reduction: lambda u: _without(u, u.op.axes),
    ArgMax: lambda u: _without(u, (u.op.axis,)),
    ArgMin: lambda u: _without(u, (u.op.axis,)),
    MatMul: _matmul,
    MatMulInteger: _matmul,
    Conv: _conv,
    ConvInteger: _conv,
    ConvTranspose: _conv,
}
