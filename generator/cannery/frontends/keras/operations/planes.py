"""Rare operations that move whole axes, and products of vectors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.einsum import einsum
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.frontends.keras.operations.movement import cut_parts
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import binary
from cannery.ops.movement.op import Transpose

#: The axis that each function splits.
_SPLITS: Mapping[str, int] = {"Vsplit": 0, "Hsplit": 1, "Dsplit": 2}


@operation(*_SPLITS)
def split(o: Operation) -> list[str]:
    """Parts of one axis."""
    x = o.tensor()
    if o.scope.rank(x) < 2:
        raise UnsupportedError("it splits a value with one axis")
    return cut_parts(o, x, o.counted(_SPLITS[o.class_name], o.scope.rank(x)))


@operation("Dstack", call="xs")
def depth_stack(o: Operation) -> str:
    """Joined along the third axis."""
    xs = o.tensors("xs")
    if o.scope.rank(xs[0]) < 3:
        raise UnsupportedError("it joins values with fewer than three axes")
    return o.node(Concat(2), xs) if len(xs) > 1 else xs[0]


def _turned(o: Operation, x: str, axis: int, label: str = "") -> str:
    """One axis backwards."""
    return o.sliced(x, {axis: (o.shape(x)[axis] - 1, -1, -1)}, label)


@operation("Flipud", "Fliplr")
def flip(o: Operation) -> str:
    """The first axis backwards, or the second."""
    x = o.tensor()
    return _turned(o, x, o.counted(int(o.class_name == "Fliplr"), o.scope.rank(x)))


@operation("Rot90", call="array")
def quarter_turns(o: Operation) -> str:
    """A plane turned by quarters, from the first of its axes to the second."""
    x, given = o.tensor("array"), o.given.integers("axes") or (0, 1)
    turns = o.given.integer("k", 1) % 4
    first, *second = (o.counted(a, o.scope.rank(x)) for a in given)
    if len(second) != 1 or second[0] == first:
        raise ModelError(f"axes {given} make no plane")
    if turns in (1, 3):
        order = list(range(o.scope.rank(x)))
        order[first], order[second[0]] = second[0], first
        x = o.node(Transpose(tuple(order)), [x], "exchanged")
    for axis, when in ((first, (1, 2)), (second[0], (2, 3))):
        x = _turned(o, x, axis, f"turned{axis}") if turns in when else x
    return x


@operation("Inner", "Vdot", call="x1 x2")
def inner(o: Operation) -> str:
    """Sums of products along the last axes, or of all elements."""
    a, b = (o.scope.to_float(x) for x in o.both("x1", "x2"))
    if o.class_name == "Vdot":
        a, b = (o.reshaped(x, (prod(o.shape(x)),), f"flat{k}") for k, x in enumerate((a, b)))
    ranks = o.scope.rank(a), o.scope.rank(b)
    if not all(ranks):
        return o.node(binary.Mul(), [a, b])
    left = "".join(chr(97 + k) for k in range(ranks[0] - 1))
    right = "".join(chr(97 + ranks[0] + k) for k in range(ranks[1] - 1))
    return einsum(o.scope, f"{left}z,{right}z->{left}{right}", [a, b])


@operation("Cross", call="x1 x2")
def cross(o: Operation) -> str:
    """The product of vectors of three elements along the last axis."""
    if {o.given.raw(k, -1) for k in ("axisa", "axisb", "axisc", "axis")} != {-1}:
        raise UnsupportedError("along another axis than the last it is not supported")
    a, b = (o.scope.to_float(x) for x in o.both("x1", "x2"))
    if {o.shape(a)[-1:], o.shape(b)[-1:]} != {(3,)}:
        raise UnsupportedError("of vectors that have not three elements it is not supported")
    one, two = (_following(o, x, f"x{k}") for k, x in enumerate((a, b)))
    # The product with the elements in the order 2, 0, 1, which is put right.
    first = o.node(binary.Mul(), [a, two], "first")
    second = o.node(binary.Mul(), [one, b], "second")
    return _following(o, o.node(binary.Sub(), [first, second], "turned"), "")


def _following(o: Operation, x: str, label: str) -> str:
    """The elements 1, 2, 0 of the last axis."""
    axis = o.scope.rank(x) - 1
    parts = [
        o.sliced(x, {axis: bounds}, f"{label or 'result'}/part{k}")
        for k, bounds in enumerate(((1, 3, 1), (0, 1, 1)))
    ]
    return o.node(Concat(axis), parts, f"{label}/following" if label else "")
