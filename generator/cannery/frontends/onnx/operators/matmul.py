"""Matrix products."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import aligned
from cannery.frontends.onnx.operators.values import Constant, Value
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.matmul.det import Det
from cannery.ops.matmul.op import MatMul


@operator("Gemm")
def gemm(scope: Scope) -> Value:
    """Alpha * A' B' + beta * C, where C broadcasts to the product."""
    scope.ignore("broadcast")
    alpha, beta = scope.number("alpha", 1.0), scope.number("beta", 1.0)
    a = _matrix(scope, 0, bool(scope.integer("transA", 0)))
    b = _matrix(scope, 1, bool(scope.integer("transB", 0)))
    c = scope.optional(2)
    if isinstance(c, Constant) and c.array.size == 1 and not c.array.any():
        c = None
    columns = scope.result(b).shape[1]
    bias = c is not None and alpha == beta == 1.0 and c.shape in ((columns,), (1, columns))
    operands = [a, b, *([scope.plain(scope.reshaped(c, (columns,), "bias"))] if bias and c else [])]
    done = bias or c is None or beta == 0.0
    y = scope.node(MatMul(), operands, "" if done and alpha == 1.0 else "product")
    if alpha != 1.0:
        y = scope.node(Mul(), [y, scope.scalar("alpha", alpha)], "" if done else "scaled")
    if done or c is None:
        return scope.result(y)
    if beta != 1.0:
        term = scope.node(Mul(), [scope.plain(c), scope.scalar("beta", beta)], "term")
        c = scope.result(term)
    names, _ = aligned(scope, [scope.result(y), c])
    return scope.result(scope.node(Add(), names))


def _matrix(scope: Scope, index: int, transposed: bool) -> str:
    value = scope.input(index)
    if len(value.shape) != 2:
        raise ModelError(f"input {index} has shape {value.shape}, expected a matrix")
    return scope.place(value, (1, 0) if transposed else (0, 1))


@operator("MatMul")
def matmul(scope: Scope) -> Value:
    """Like numpy.matmul: leading axes broadcast, a vector is a row or a column."""
    a, b = scope.input(0), scope.input(1)
    if not a.shape or not b.shape:
        raise ModelError("a scalar is not a matrix")
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if row:
        a = scope.reshaped(a, (1, *a.shape), "row")
    if column:
        b = scope.reshaped(b, (*b.shape, 1), "column")
    y = scope.node(MatMul(), [scope.plain(a), scope.plain(b)], "product" if row or column else "")
    result = scope.result(y)
    *lead, m, n = result.shape
    shape = (*lead, *(() if row else (m,)), *(() if column else (n,)))
    return scope.reshaped(result, shape)


@operator("Det")
def det(scope: Scope) -> Value:
    """The determinants of square matrices."""
    return scope.result(scope.node(Det(), [scope.plain(scope.input(0))]))
