"""Checks that the operators share; every failure names the operator and the offending attribute."""

from __future__ import annotations

from typing import TypeVar

from cannery.errors import ModelError, UnsupportedError
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType

T = TypeVar("T")


def operands(
    op: Op, given: tuple[T | None, ...], required: int, optional: int = 0
) -> tuple[tuple[T, ...], tuple[T | None, ...]]:
    """Splits `given` into the required and the optional inputs, with None for absent ones.

    Raises ModelError if a required input is absent or there are too many.
    """
    needed = tuple(i for i in given[:required] if i is not None)
    if len(needed) != required or len(given) > required + optional:
        present = sum(i is not None for i in given)
        upper = f" to {required + optional}" if optional else ""
        raise ModelError(f"{op.kind} takes {required}{upper} inputs, not {present}")
    rest = given[required:]
    return needed, rest + (None,) * (optional - len(rest))


def require(condition: bool, op: Op, what: str) -> None:
    """Raises ModelError `<op>: <what>` unless `condition` holds."""
    if not condition:
        raise ModelError(f"{op.kind}: {what}")


def require_type(condition: bool, op: Op, what: str) -> None:
    """Raises UnsupportedError `<op>: <what>` unless `condition`, on element types, holds."""
    if not condition:
        raise UnsupportedError(f"{op.kind}: {what}")


def require_float(op: Op, *types: TensorType | None) -> None:
    """Raises ModelError unless every present input is float32."""
    for type_ in types:
        if type_ is not None and type_.dtype is not DType.FLOAT32:
            raise ModelError(
                f"{op.kind} works on float32, not on {type_.dtype.value}",
                cure="insert a Cast before it",
            )


def require_axis(op: Op, axis: int, rank: int) -> None:
    """Raises ModelError unless 0 <= axis < rank; frontends resolve negative axes."""
    require(0 <= axis < rank, op, f"axis {axis} is outside 0..{rank - 1}")


def require_axes(op: Op, axes: tuple[int, ...], rank: int) -> None:
    """Raises ModelError unless `axes` ascend strictly within 0..rank-1."""
    for axis in axes:
        require_axis(op, axis, rank)
    require(list(axes) == sorted(set(axes)), op, f"axes {axes} must ascend without repetition")


def require_shape(op: Op, name: str, type_: TensorType | None, shape: tuple[int, ...]) -> None:
    """Raises ModelError if the input called `name` is present with another shape."""
    if type_ is not None and type_.shape != shape:
        raise ModelError(f"{op.kind}: {name} has shape {type_.shape}, expected {shape}")


def broadcast_shapes(op: Op, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape by numpy's rules; raises ModelError if there is none."""
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for dims in zip(*aligned, strict=True):
        wide = {d for d in dims if d != 1}
        if len(wide) > 1:
            texts = " and ".join(map(str, shapes))
            raise ModelError(f"{op.kind}: shapes {texts} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)
