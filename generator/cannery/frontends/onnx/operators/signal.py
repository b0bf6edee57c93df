"""Fourier transforms, as products with the transform's matrix; weights of mel filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends.fourier import MOST_OF_MATRIX, transform_matrix
from cannery.frontends.onnx.operators.arithmetic import element_type
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import combined
from cannery.frontends.onnx.operators.values import (
    MAX_CONSTANT,
    Constant,
    Value,
    check_size,
    identity,
)
from cannery.ops.elementwise.binary import Mul
from cannery.ops.indexing.gather import Gather
from cannery.ops.matmul.op import MatMul


def _inverse_of_half(given: int, length: int) -> NDArray[np.float64]:
    """[given, 2, length, 1]: real numbers from the first half of their spectrum."""
    matrix = transform_matrix(given, length, length, (2, 1), 1) / length
    for j in range(1, given):
        matrix[j] *= 0 if j > length // 2 else 1 if 2 * j == length else 2
    return matrix


def _transformed(scope: Scope, name: str, matrix: NDArray[np.float64]) -> str:
    """x[.., n, c] times a matrix [n, c, m, d]: [.., m, d]."""
    n, c, m, d = matrix.shape
    shape = scope.type(name).shape
    rows = scope.plain(scope.reshaped(scope.result(name), (*shape[:-2], n * c), "rows"))
    weight = scope.constant("transform", matrix.reshape(n * c, m * d).astype(np.float32))
    single = len(shape) == 2
    if single:
        rows = scope.plain(scope.reshaped(scope.result(rows), (1, n * c), "row"))
    y = scope.result(scope.node(MatMul(), [rows, weight], "product"))
    return scope.plain(scope.reshaped(y, (*shape[:-2], m, d), "spectrum"))


@operator("DFT")
def dft(scope: Scope) -> Value:
    """Along one axis of [.., 1] or [.., 2] numbers; the inverse is divided by the length."""
    x = scope.input(0)
    rank = len(x.shape)
    if scope.opset < 20:
        axis = scope.integer("axis", 1)
    else:
        given = scope.known_integer(2, "axes")
        axis = -2 if given is None else given
    axis = scope.axis(axis, rank)
    parts = x.shape[-1]
    if axis == rank - 1 or parts not in (1, 2):
        raise ModelError(f"cannot transform axis {axis} of shape {x.shape}")
    inverse, half = bool(scope.integer("inverse", 0)), bool(scope.integer("onesided", 0))
    count = x.shape[axis]
    length = scope.known_integer(1, "lengths")
    if length is None:
        length = 2 * (count - 1) if inverse and half else count
    if length < 1 or not count:
        raise ModelError(f"a transform of {length} numbers")
    if inverse and half:
        matrix = _inverse_of_half(count, length)[:, :parts]
    else:
        kept = length // 2 + 1 if half else length
        matrix = transform_matrix(count, length, kept, (parts, 2), 1 if inverse else -1)
        matrix = matrix / length if inverse else matrix
    order = (*(k for k in range(rank - 1) if k != axis), axis, rank - 1)
    return scope.result(_transformed(scope, scope.place(x, order), matrix), order)


@operator("STFT")
def stft(scope: Scope) -> Value:
    """x[N,L,1 or 2] -> [N,frames,m,2]: the transforms of overlapping frames, weighted."""
    x, window = scope.input(0), scope.optional(2)
    if len(x.shape) == 2:
        x = scope.reshaped(x, (*x.shape, 1), "real")
    if len(x.shape) != 3 or (window is not None and len(window.shape) != 1):
        raise ModelError(f"its signal has shape {x.shape}, expected batch, length and parts")
    step = scope.known_integer(1, "steps")
    size = scope.known_integer(3, "lengths")
    if size is None:
        size = x.shape[-2] if window is None else window.shape[0]
    length, parts = x.shape[-2:]
    if step is None or step < 1 or not 1 <= size <= length or parts not in (1, 2):
        raise ModelError(f"frames of {size}, each {step}, of shape {x.shape}")
    half = bool(scope.integer("onesided", 1))
    frames = 1 + (length - size) // step
    check_size((frames, size), MAX_CONSTANT)
    at = np.arange(frames)[:, None] * step + np.arange(size)
    places = Constant(at, f"{scope.name}/frames")
    axis = len(x.shape) - 2
    cut = scope.node(Gather(axis), [scope.plain(x), scope.plain(places)], "frames")
    if window is not None:
        column = scope.reshaped(window, (size, 1), "window")
        cut = scope.plain(combined(scope, Mul(), scope.result(cut), column, "weighted"))
    kept = size // 2 + 1 if half else size
    y = _transformed(scope, cut, transform_matrix(size, size, kept, (parts, 2), -1))
    return scope.result(y, identity(len(x.shape) + 1))


@operator("MelWeightMatrix")
def mel_weighttransform_matrix(scope: Scope) -> Value:
    """Triangles that are evenly spaced in mel, over the bins of a spectrum: a constant."""
    numbers: list[float] = []
    for k in range(5):
        array = scope.known(k, "its numbers")
        if array is None or array.size != 1:
            raise ModelError(f"input {k} is not a number")
        numbers.append(float(array.reshape(-1)[0]))
    if not np.isfinite(numbers).all() or numbers[2] <= 0 or min(numbers[3:]) < 0:
        raise ModelError(f"its numbers {numbers} make no filters")
    count, length = int(numbers[0]), int(numbers[1])
    if count < 1 or length < 1 or (length // 2 + 1) * count > MOST_OF_MATRIX:
        raise ModelError(f"{count} filters of {length} numbers")
    edges = _mel_edges(count, length, numbers[2:])
    y = np.zeros((length // 2 + 1, count))
    if edges[0] < 0 or edges[-1] > len(y):
        raise ModelError(f"its filters reach from {edges[0]} to {edges[-1]} of {len(y)} bins")
    for k, (low, middle, high) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        if low == middle:
            y[middle, k] = 1
        else:
            y[low : middle + 1, k] = np.arange(middle - low + 1) / (middle - low)
        if high > middle:
            y[middle:high, k] = np.arange(high - middle, 0, -1) / (high - middle)
    return Constant(y.astype(element_type(scope.integer("output_datatype", 1))), scope.name)


def _mel_edges(count: int, length: int, numbers: Sequence[float]) -> list[int]:
    """The bins where triangles begin, culminate and end."""
    rate, *hertz = numbers
    low, high = (2595 * np.log10(1 + h / 700) for h in hertz)
    mel = np.arange(count + 2) * (high - low) / (count + 2) + low
    bins = (length + 1) * 700 * (10 ** (mel / 2595) - 1) // rate
    return [int(b) for b in bins]
