"""Integer forms of operators made for floats: elementwise arithmetic and reductions."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise.integers import integer_form, is_signed, wrapped
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)
from cannery.ops.scalar.base import write_pointwise
from cannery.ops.scalar.body import Body

#: Writes the statements of a node.
Write = Callable[[Body], None]


def takes_integers(op: Op, dtype: DType) -> bool:
    """Whether an operator has a form for an integer or bool type."""
    return integer_code(op, dtype) is not None


def integer_code(op: Op, dtype: DType) -> Write | None:
    """How an operator of this module is written for an element type; None if it is not."""
    if isinstance(op, Elementwise):
        form = integer_form(op, dtype)
        return None if form is None else lambda c: write_pointwise(c, lambda args: form(*args))
    if isinstance(op, Reduction) and dtype is not DType.FLOAT32 and _joins(op, dtype):
        return lambda c: _write_reduction(c, op)
    return None


def _joins(op: Reduction, dtype: DType) -> Callable[[str, str], str] | None:
    """The accumulator `a` with one more element `x`."""
    plus, times = wrapped(dtype, "+"), wrapped(dtype, "*")
    forms: dict[type[Reduction], Callable[[str, str], str]] = {
        ReduceMax: lambda a, x: f"{x} > {a} ? {x} : {a}",
        ReduceMin: lambda a, x: f"{x} < {a} ? {x} : {a}",
    }
    if dtype is not DType.BOOL:
        forms |= {
            ReduceSum: plus,
            ReduceProd: times,
            ReduceL1: _plus_absolute(dtype),
            ReduceSumSquare: lambda a, x: plus(a, times(x, x)),
        }
    return forms.get(type(op))


def _plus_absolute(dtype: DType) -> Callable[[str, str], str]:
    plus, minus = wrapped(dtype, "+"), wrapped(dtype, "-")
    if not is_signed(dtype):
        return plus
    return lambda a, x: f"({dtype.c_name})({x} < 0 ? {minus(a, x)} : {plus(a, x)})"


def _write_reduction(c: Body, op: Reduction) -> None:
    """For each output, a loop over the reduced elements."""
    x = c.input(0)
    join = _joins(op, x.type.dtype)
    assert join is not None
    kept = [k for k in range(x.type.rank) if k not in op.axes]
    exact = isinstance(op, ReduceMax | ReduceMin)
    start = {True: "", False: "1" if isinstance(op, ReduceProd) else "0"}[exact]
    with c.nest("i", [x.shape[k] for k in kept]) as outer:
        at = dict(zip(kept, outer, strict=True))
        first = x.at(*(at.get(k, "0") for k in range(x.type.rank)))
        c(f"{x.c} a = {start or first};")
        with c.nest("j", [x.shape[k] for k in op.axes]) as inner:
            at |= dict(zip(op.axes, inner, strict=True))
            c(f"const {x.c} v = {x.at(*(at[k] for k in range(x.type.rank)))};")
            c(f"a = {join('a', 'v')};")
        y = [at[k] if k in kept else "0" for k in range(x.type.rank)]
        places = y if op.keepdims else [at[k] for k in kept]
        c(f"{c.output.at(*places)} = a;")
