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
from cannery.ir.tensor import TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import ArgMax, ArgMin
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.reduce.op import Reduction


@dataclass(frozen=True)
class Whole:
    """The layer that needs all steps, and the axes of a value that have them."""

    layer: Node
    axes: Set[int]


@dataclass(frozen=True)
class _Use:
    """An operator, the types of an input and of the output, and the input's axes with steps."""

    op: Any
    place: int
    input: TensorType
    output: TensorType
    axes: Set[int]


def axes_after(
    node: Node, inputs: Sequence[TensorType | None], output: TensorType, found: Sequence[Set[int]]
) -> set[int]:
    """The axes of a node's first output that have steps, for those of its inputs.

    Types are those of the whole sequence. An axis of one element has none. None are known after an
    operator without a rule that changes the rank.
    """
    axes = set[int]()
    for place, (type_, given) in enumerate(zip(inputs, found, strict=True)):
        if type_ is not None and given:
            axes |= _after(_Use(node.op, place, type_, output, given))
    return {axis for axis in axes if output.shape[axis] > 1}


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
    before, after = use.input.shape, use.output.shape
    spans = [_span(before, axis) for axis in use.axes]
    return {
        axis
        for axis in range(len(after))
        if any(max(low, _span(after, axis)[0]) < min(high, _span(after, axis)[1])
               for low, high in spans)
    }  # fmt: skip


def _span(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Elements from one place of an axis to the next, and to the next place of the axis before."""
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
