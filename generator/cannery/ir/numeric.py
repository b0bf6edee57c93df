"""Float64 arithmetic whose bytes do not depend on the machine.

There is no BLAS, einsum or numpy reduction here, because they choose their own order of summation.
Everything is built from elementwise IEEE operations in an order that depends only on the shapes, so
that constants folded by the references are identical everywhere. Code that only judges float32 by
float64 may use `quick_products`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

#: Arrays of numbers: float64 where the tensor is float, its integer dtype otherwise.
Numeric = NDArray[Any]

#: Elements of an accumulator block: with its product it stays in a second-level cache.
_BLOCK = 16384

#: Up to this many sums are computed for many terms at once: a call per term would take longer.
_FEW = 32

#: How many terms of these few sums are computed at once.
_TERMS = 1024

#: Elements of the second factor of a product that are widened to float64 at a time.
_WIDENED = 2**22

_QUICK = ContextVar("quick products", default=False)


@contextmanager
def quick_products() -> Iterator[None]:
    """Within it, BLAS computes `add_product`, many times faster, in its own order.

    It is for errors of float32, which do not depend on the last bits of float64; never for anything
    written into generated files.
    """
    token = _QUICK.set(True)
    try:
        yield
    finally:
        _QUICK.reset(token)


def f64(array: Numeric) -> F64:
    """The array in float64, the same one if it already is."""
    return np.asarray(array, dtype=np.float64)


def f32(value: float) -> float:
    """An attribute as the float32 that models store and generated code compares with."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def add_product(acc: F64, a: F64, b: Numeric) -> None:
    """acc[M,N] += a[M,K] @ b[K,N] in float64, over ascending k; `b` is widened piece by piece."""
    depth = max(1, _WIDENED // max(b.shape[1], 1))
    for start in range(0, b.shape[0], depth):
        some = slice(start, start + depth)
        if _QUICK.get():
            acc += a[:, some] @ f64(b[some])
        else:
            accumulate_product(acc, a[:, some], f64(b[some]))


def accumulate_product(acc: Numeric, a: Numeric, b: Numeric) -> None:
    """acc[M,N] += a[M,K] @ b[K,N], each element over ascending k, multiply and add rounded apart.

    All are float64, or all float32. `acc` may be a strided view. Blocking and orientation do not
    affect the order.
    """
    if acc.shape[1] < acc.shape[0]:  # numpy's inner loop runs over the last axis: make it long
        acc, a, b = acc.T, b.T, a.T
    rows, columns = acc.shape
    if not rows or not columns:
        return
    if rows * columns <= _FEW < b.shape[0]:
        _accumulate_few(acc, a, b)
        return
    width = min(columns, _BLOCK)
    height = max(1, _BLOCK // width)
    left = np.ascontiguousarray(a)
    for start in range(0, columns, width):
        right = np.ascontiguousarray(b[:, start : start + width])
        for top in range(0, rows, height):
            factors = left[top : top + height]
            block = np.ascontiguousarray(acc[top : top + height, start : start + width])
            product = np.empty_like(block)
            for k in range(right.shape[0]):
                np.multiply(factors[:, k : k + 1], right[k], out=product)
                np.add(block, product, out=block)
            acc[top : top + height, start : start + width] = block


def _accumulate_few(acc: Numeric, a: Numeric, b: Numeric) -> None:
    """The same for few sums of any length: numpy accumulates from one k to the next."""
    rows, columns = acc.shape
    terms = np.empty((_TERMS + 1, rows, columns), acc.dtype)
    for start in range(0, b.shape[0], _TERMS):
        some = slice(start, start + _TERMS)
        part = terms[: 1 + b[some].shape[0]]
        part[0] = acc
        np.multiply(a[:, some].T[:, :, None], b[some][:, None, :], out=part[1:])
        acc[...] = np.add.accumulate(part, axis=0, out=part)[-1]


def _axes_first(x: F64, axes: tuple[int, ...]) -> F64:
    """[product of the axes, *the others]."""
    others = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose(*axes, *others)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return np.reshape(moved, (count, *(x.shape[i] for i in others)))


def keep_axes(x: F64, reduced: F64, axes: tuple[int, ...]) -> F64:
    """`reduced` with the reduced axes of `x` put back as ones."""
    return reduced.reshape([1 if i in axes else d for i, d in enumerate(x.shape)])


def tree_sum(x: F64, axes: tuple[int, ...]) -> F64:
    """Sum over `axes`, removed: halves are added elementwise until one row is left.

    An empty sum is 0. Rounding error grows with the logarithm of the count.
    """
    rows = _axes_first(x, axes)
    if not rows.shape[0]:
        return np.zeros(rows.shape[1:])
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        added = rows[:half] + rows[half : 2 * half]
        rows = np.concatenate([added, rows[2 * half :]]) if rows.shape[0] % 2 else added
    return np.asarray(rows[0])


def tree_mean(x: F64, axes: tuple[int, ...]) -> F64:
    """Mean over `axes`, removed; summed like `tree_sum`."""
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return tree_sum(x, axes) / count
