"""Operators whose results have as many rows as they find, see `frontends/onnx/rows.py`."""

from __future__ import annotations

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.movement import part
from cannery.frontends.tflite.scope import DTYPES, Scope, operator
from cannery.ir.tensor import MAX_ELEMENTS, DType
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.select import NonZero
from cannery.ops.indexing.unique import FIRST, INVERSE, Unique
from cannery.ops.movement.op import Cast


@operator("WHERE")
def where(scope: Scope) -> str:
    """The indices of the elements that are not 0, a row for each, as int64."""
    x = scope.input(0)
    if not scope.rank(x):
        raise ModelError("a scalar has no indices")
    if scope.array(x) is not None:
        raise UnsupportedError("of constants it is not supported")
    if scope.type(x).elements * scope.rank(x) >= MAX_ELEMENTS:
        raise ModelError(f"the places of {scope.shape(x)}")
    found = scope.node(NonZero(), [x], "found")
    rows, columns = scope.shape(found)
    scope.finds_rows(found)
    return part(scope, found, (1, 0), (rows - 1, columns))


@operator("UNIQUE")
def unique(scope: Scope) -> list[str]:
    """x[n] -> its different elements in the order of the first of each, and which one each is."""
    scope.ignore("IdxOutType")
    x = scope.input(0)
    if scope.rank(x) != 1:
        raise ModelError(f"its input has the shape {scope.shape(x)}, expected one axis")
    if scope.array(x) is not None:
        raise UnsupportedError("of constants it is not supported")
    found = scope.node(Unique(0, ascending=False), [x], "found")
    scope.finds_rows(found)
    first, inverse = (_column(scope, found, k, label) for k, label in _COLUMNS)
    dtype = DTYPES.get(scope.output_at(1).dtype, DType.INT32)
    which = inverse if dtype is DType.INT64 else scope.node(Cast(dtype), [inverse], "which")
    return [scope.node(Gather(0), [x, first]), which]


_COLUMNS = ((FIRST, "first"), (INVERSE, "inverse"))


def _column(scope: Scope, found: str, column: int, label: str) -> str:
    """A column of the rows after the first, [n]."""
    rows = scope.shape(found)[0] - 1
    return scope.reshaped(
        part(scope, found, (1, column), (rows, 1), f"{label}/column"), (rows,), label
    )
