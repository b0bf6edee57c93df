"""Winograd's minimal filtering F(m, r): the matrices, weights, and an emulation.

A. Lavin & S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016: a tile of m x n
outputs is Y = A^T [(G g G^T) * (B^T d B)] A, where d are its inputs, g is the filter and *
multiplies element by element, each side with the matrices of its own axis. F(4x4, 3x3) takes 36
products where the direct form takes 144. An axis without neighbours is F(1, 1), the identity.

The matrices are those of Toom and Cook: polynomials are multiplied through their values at m + r -
2 points and at infinity, transposed (S. Winograd, "Arithmetic Complexity of Computations", 1980).

Outputs that are `stride` inputs apart are a sum of `stride` convolutions of neighbours: each takes
every `stride`-th tap and the matching inputs, with its own algorithm. Three taps at stride 2 are
F(m, 2) and F(m, 1) side by side: 2m + 1 products instead of 3m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import accumulate_product

T = TypeVar("T")


class Hashed(tuple[T, ...]):
    """A tuple that keeps the hash of all its fractions, because much is looked up by it."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


#: Rows of a matrix.
Matrix = Hashed[tuple[Fraction, ...]]

#: Arrays of float32 or float16.
Rounded = NDArray[Any]

#: Most inputs of a tile along one axis with a stride.
MOST_INPUTS = 8

#: Finite points, in the order of use.
Points = Hashed[Fraction]

#: Whole numbers: transforms take the fewest instructions. Small ones keep rounding errors small.
POINTS = Points(map(Fraction, (0, 1, -1, 2, -2)))

#: Reciprocals of one another: no row or column of the matrices is much larger than another, which
#: for F(4x4, 3x3) makes rounding errors two and a half times as small as POINTS does.
RECIPROCALS = Points(Fraction(n, d) for n, d in ((0, 1), (2, 3), (-2, 3), (3, 2), (-3, 2)))


@dataclass(frozen=True)
class Winograd:
    """The matrices of F(m, r), m outputs of a filter of r taps: bt = B^T, g = G, at = A^T.

    `stride`, the inputs from one output to the next, is at most the number of taps.
    """

    m: int
    bt: Matrix
    g: Matrix
    at: Matrix
    stride: int = 1

    @property
    def tile(self) -> int:
        """Inputs that m outputs read, and products."""
        return len(self.bt)

    @property
    def step(self) -> int:
        """Inputs from one tile to the next."""
        return self.m * self.stride

    def reach(self, outputs: int) -> int:
        """Inputs that the tiles of this many outputs read."""
        return (-(-outputs // self.m) - 1) * self.step + self.tile

    @property
    def taps(self) -> int:
        """Length of the filter."""
        return len(self.g[0])

    @property
    def ones(self) -> int | None:
        """The first column of A^T that is all ones: adding to that product adds to every output.

        None without one, where 1 is no point.
        """
        columns = list(zip(*self.at, strict=True))
        return next((k for k, column in enumerate(columns) if set(column) == {1}), None)


@cache
def filtering(m: int, taps: int, at_points: Points = POINTS) -> Winograd:
    """F(m, taps) with up to six products; either m is 1 or there are at least two taps."""
    points = at_points[: m + taps - 2]
    bt, g = [], []
    for point in points:
        others = [p for p in points if p != point]
        scale = prod((point - p for p in others), start=Fraction(1))
        sign = -1 if scale < 0 and point == 0 else 1
        bt.append([sign * c for c in (*_polynomial(others), Fraction(0))])
        g.append([sign * point**k / scale for k in range(taps)])
    at = [[*(p**k for p in points), Fraction(int(k == m - 1))] for k in range(m)]
    bt.append(_polynomial(points))
    g.append([Fraction(int(k == taps - 1)) for k in range(taps)])
    return Winograd(m, _rows(bt), _rows(g), _rows(at))


@cache
def strided(m: int, taps: int, stride: int, at_points: Points = POINTS) -> Winograd:
    """The algorithms of all `stride` phases side by side; `m` is at least 2."""
    width = (m - 1) * stride + taps
    bt: list[tuple[Fraction, ...]] = []
    g: list[tuple[Fraction, ...]] = []
    at: list[tuple[Fraction, ...]] = [()] * m
    for phase in range(stride):
        own = _phase(m, -(-(taps - phase) // stride), at_points)
        bt += [_spread(row, phase, stride, width) for row in own.bt]
        g += [_spread(row, phase, stride, taps) for row in own.g]
        at = [(*before, *row) for before, row in zip(at, own.at, strict=True)]
    return Winograd(m, Matrix(bt), Matrix(g), Matrix(at), stride)


def _phase(m: int, taps: int, at_points: Points) -> Winograd:
    """F(m, taps); with one tap the products are the outputs."""
    if taps > 1:
        return filtering(m, taps, at_points)
    identity = _rows([[Fraction(int(i == j)) for j in range(m)] for i in range(m)])
    return Winograd(m, identity, _rows([[Fraction(1)]] * m), identity)


def _spread(row: Sequence[Fraction], first: int, step: int, width: int) -> tuple[Fraction, ...]:
    """A row of length `width` with the elements `step` apart and zeros between them."""
    found = [Fraction(0)] * width
    found[first : first + step * len(row) : step] = row
    return tuple(found)


def fits(points: int, taps: int, stride: int) -> bool:
    """Whether `cheapest` knows an algorithm, or the axis has no window."""
    if taps == 1 or stride == 1:
        return taps < points
    return stride < taps <= MOST_INPUTS - stride and -(-taps // stride) < points


@cache
def cheapest(
    points: int, taps: int, outputs: int, stride: int = 1, at_points: Points = POINTS
) -> Winograd:
    """F(m, taps) of at most `points` products that takes the fewest products for this many outputs.

    Nine outputs of three taps are 3 x F(3, 3), 15 products, where F(4, 3) would make 18. With a
    stride, `points` limits each phase, and a tile has at most MOST_INPUTS inputs.
    """
    if taps == 1:
        return replace(filtering(1, 1), stride=stride)
    if stride == 1:
        most = points + 1 - taps
        key = lambda m: -(-outputs // m) * (m + taps - 1)  # noqa: E731
        return filtering(min(range(most, 1, -1), key=key), taps, at_points)
    most = min(points + 1 - -(-taps // stride), (MOST_INPUTS - taps) // stride + 1)
    tiles = (strided(m, taps, stride, at_points) for m in range(most, 1, -1))
    return min(tiles, key=lambda tile: -(-outputs // tile.m) * tile.tile)


def _rows(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return Matrix(map(tuple, rows))


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of all (x - root), that of x^0 first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [a - root * b for a, b in zip(shifted, [*found, Fraction(0)], strict=True)]
    return found


@dataclass(frozen=True)
class Tile:
    """A tile of outputs, `rows.m` x `columns.m`, each axis with its own algorithm."""

    rows: Winograd
    columns: Winograd

    @property
    def positions(self) -> int:
        """Products of a tile for each input channel."""
        return self.rows.tile * self.columns.tile

    def weights(self, w: NDArray[np.float32]) -> NDArray[np.float32]:
        """G g G^T of w[KH,KW,IC,OC], as [positions,IC,OC]: in float64, in a fixed order."""
        wide = w.astype(np.float64)
        rows = [_weighted(row, wide) for row in _floats(self.rows.g)]
        found = np.empty((self.positions, *w.shape[2:]), np.float32)
        for k, (row, column) in enumerate(product(rows, _floats(self.columns.g))):
            found[k] = _weighted(column, row)
        return found

    def emulate(
        self,
        x: Rounded,
        w: NDArray[np.float32],
        start: tuple[int, int] = (1, 1),
        size: tuple[int, int] | None = None,
        gap: int = 1,
    ) -> Rounded:
        """x[N,H,W,IC] convolved with w[KH,KW,IC,OC], rounded to the type of x at every step.

        `start` are the pads above and left, `size` is [OH, OW] (default: as the input), and taps
        along rows are `gap` apart. Kernels add in another order, or fuse multiply and add: the
        error is similar, the bits are not.
        """
        n, h, width, channels = x.shape
        oh, ow = size or (h, width)
        if gap > 1:
            return self._emulate_apart(x, w, start, (oh, ow), gap)
        mh, mw = self.rows.m, self.columns.m
        rows, columns = -(-oh // mh), -(-ow // mw)
        needed = (
            max(self.rows.reach(oh), start[0] + h),
            max(self.columns.reach(ow), start[1] + width),
        )
        padded = np.zeros((n, *needed, channels), x.dtype)
        padded[:, start[0] : start[0] + h, start[1] : start[1] + width] = x
        products = self._products(
            self._tiles(padded, rows, columns), self.weights(w).astype(x.dtype)
        )
        tiles = _transform(self.rows.at, self.columns.at, products)
        y = np.moveaxis(tiles, (0, 1), (2, 4))  # [N, rows, m, columns, m, OC]
        whole = y.reshape(n, rows * mh, columns * mw, w.shape[3])
        return np.ascontiguousarray(whole[:, :oh, :ow])

    def _emulate_apart(
        self, x: Rounded, w: NDArray[np.float32], start: tuple[int, int],
        size: tuple[int, int], gap: int,
    ) -> Rounded:  # fmt: skip
        """Every `gap`-th column is an image of its own."""
        n, h, width, channels = x.shape
        (oh, ow), wide = size, size[1] + (w.shape[1] - 1) * gap
        whole = np.zeros((n, h, max(wide, start[1] + width), channels), x.dtype)
        whole[:, :, start[1] : start[1] + width] = x
        images = [
            self.emulate(whole[:, :, phase:wide:gap], w, (start[0], 0), (oh, ow // gap))
            for phase in range(gap)
        ]
        return np.stack(images, axis=3).reshape(n, oh, ow, w.shape[3])

    def _tiles(self, x: Rounded, rows: int, columns: int) -> Rounded:
        """B^T d B of all tiles: [tile, tile, N, rows, columns, IC]."""
        mh, mw = self.rows.step, self.columns.step
        last_row, last_column = (rows - 1) * mh + 1, (columns - 1) * mw + 1
        tiles = [
            [
                x[:, i : i + last_row : mh, j : j + last_column : mw]
                for j in range(self.columns.tile)
            ]
            for i in range(self.rows.tile)
        ]
        return _transform(self.rows.bt, self.columns.bt, np.asarray(tiles))

    def _products(self, v: Rounded, u: Rounded) -> Rounded:
        """Sums over the input channels: [tile, tile, N, rows, columns, OC]."""
        ic, oc = u.shape[1:]
        total = np.zeros((*v.shape[:-1], oc), v.dtype)
        tiles = v.reshape(self.positions, -1, ic)
        for sums, x, weights in zip(total.reshape(*tiles.shape[:2], oc), tiles, u, strict=True):
            accumulate_product(sums, x, weights)
        return total


def _floats(matrix: Matrix) -> NDArray[np.float64]:
    return np.array([[float(c) for c in row] for row in matrix])


def _weighted(row: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of row[k] * w[k], in order."""
    total = row[0] * w[0]
    for factor, part in zip(row[1:], w[1:], strict=True):
        total = total + factor * part
    return np.asarray(total)


def _transform(down: Matrix, across: Matrix, x: Rounded) -> Rounded:
    """The product down . x . across^T over the first two axes."""
    for axis, matrix in enumerate((down, across)):
        moved = np.moveaxis(x, axis, 0)
        rows = [_dot(row, moved) for row in _floats(matrix).astype(x.dtype)]
        x = np.moveaxis(np.stack(rows), 0, axis)
    return x


def _dot(row: Rounded, x: Rounded) -> Rounded:
    total = np.zeros_like(x[0])
    for c, part in zip(row, x, strict=True):
        if c:
            total = total + c * part
    return np.asarray(total)


#: As accurate as the direct form.
F2 = filtering(2, 3)

#: A quarter of the products in two dimensions, ten times the rounding error.
F4 = filtering(4, 3)


@cache
def stacked_input(winograd: Winograd) -> Matrix:
    """B^T of the tiles that cover 4 outputs side by side, as rows over their 6 inputs."""
    found = []
    for start in range(0, 4, winograd.m):
        for row in winograd.bt:
            padded = [Fraction(0)] * 6
            padded[start : start + winograd.tile] = row
            found.append(tuple(padded))
    return Matrix(found)


@cache
def stacked_output(winograd: Winograd) -> Matrix:
    """A^T of the same tiles: 4 rows over the products of `stacked_input`, block by block."""
    blocks = 4 // winograd.m
    found = []
    for block in range(blocks):
        for row in winograd.at:
            before: Sequence[Fraction] = [Fraction(0)] * (block * winograd.tile)
            after = [Fraction(0)] * ((blocks - 1 - block) * winograd.tile)
            found.append((*before, *row, *after))
    return Matrix(found)
