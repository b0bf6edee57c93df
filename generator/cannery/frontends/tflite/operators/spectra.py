"""Fourier transforms and complex numbers, which are pairs of values: real and imaginary parts."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.frontends.fourier import transform_matrix
from cannery.frontends.tflite.operators.movement import part
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Sqrt, Square
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Identity, Transpose


@operator("RFFT2D")
def rfft2d(scope: Scope) -> str:
    """x[..,H,W], the lengths h and w: [..,h,w/2+1], of x that is cut or filled up with zeros."""
    x, lengths = scope.input(0), scope.known_integers(1, "its lengths")
    if scope.rank(x) < 2 or scope.dtype(x) is not DType.FLOAT32:
        raise ModelError(f"its input is {scope.type(x)}, expected images of floats")
    if len(lengths) != 2 or min(lengths) < 1:
        raise ModelError(f"its lengths are {lengths}")
    height, width = lengths
    *outer, rows, columns = scope.shape(x)
    kept = width // 2 + 1
    matrix = transform_matrix(columns, width, kept, (1, 2), -1)
    # Real parts of all columns, then imaginary ones.
    weight = scope.constant("w", matrix[:, 0].swapaxes(1, 2).reshape(columns, -1).astype("float32"))
    lines = scope.reshaped(x, (_count(outer) * rows, columns), "lines")
    found = scope.node(MatMul(), [lines, weight], "along_width")
    if height == rows == 1:
        y = scope.reshaped(found, (*outer, 1, 2, kept), "parts")
    else:
        y = _along_height(scope, found, (_count(outer), rows, 2 * kept), height)
        y = scope.reshaped(y, (*outer, height, 2, kept), "parts")
    return scope.pair(*(_side(scope, y, k) for k in (0, 1)))


def _count(outer: list[int]) -> int:
    count = 1
    for d in outer:
        count *= d
    return count


def _along_height(scope: Scope, x: str, shape: tuple[int, int, int], height: int) -> str:
    """x[n,H,2*W], as real and imaginary parts of rows -> [n,h,2*W]."""
    n, rows, both = shape
    width = both // 2
    wide = scope.reshaped(x, (n, rows, 2, width), "rows")
    columns = scope.node(Transpose((0, 3, 1, 2)), [wide], "columns")
    flat = scope.reshaped(columns, (n * width, rows * 2), "columns_flat")
    matrix = transform_matrix(rows, height, height, (2, 2), -1).reshape(rows * 2, height * 2)
    weight = scope.constant("h", matrix.astype("float32"))
    found = scope.node(MatMul(), [flat, weight], "along_height")
    spread = scope.reshaped(found, (n, width, height, 2), "found")
    return scope.node(Transpose((0, 2, 3, 1)), [spread], "in_order")


def _side(scope: Scope, x: str, k: int) -> str:
    """[..,2,W] -> [..,W]: the real (0) or the imaginary parts."""
    *outer, _, width = scope.shape(x)
    label = ("real", "imaginary")[k]
    one = part(scope, x, (*(0 for _ in outer), k, 0), (*outer, 1, width), f"{label}/part")
    return scope.reshaped(one, (*outer, width), label)


@operator("REAL", "IMAG")
def real_or_imaginary(scope: Scope) -> str:
    """One of both parts."""
    real, imaginary = scope.parts(0)
    return scope.node(Identity(), [real if scope.kind == "REAL" else imaginary])


@operator("COMPLEX_ABS")
def complex_abs(scope: Scope) -> str:
    """The distance from 0."""
    squares = [scope.node(Square(), [x], f"square{k}") for k, x in enumerate(scope.parts(0))]
    return scope.node(Sqrt(), [scope.node(Add(), squares, "sum")])
