"""Winograd's minimal filtering F(m x m, 3 x 3): the matrices, weights, and a float32 emulation.

A. Lavin & S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016: an m x m tile of
outputs is Y = A^T [(G g G^T) * (B^T d B)] A, where d are (m+2) x (m+2) inputs, g the 3 x 3
filter and * multiplies element by element: (m+2)^2 products for 9 m^2 of the direct form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Matrix = tuple[tuple[Fraction, ...], ...]


def _matrix(text: str) -> Matrix:
    return tuple(tuple(map(Fraction, row.split())) for row in text.split(";"))


@dataclass(frozen=True)
class Winograd:
    """The matrices of F(m x m, 3 x 3): bt = B^T, g = G, at = A^T.

    Column 1 of A^T is all ones: what is added to product (1, 1) is added to every output.
    """

    m: int
    bt: Matrix
    g: Matrix
    at: Matrix

    @property
    def tile(self) -> int:
        """Rows and columns of an input tile."""
        return self.m + 2

    def weights(self, w: NDArray[np.float32]) -> NDArray[np.float32]:
        """G g G^T of w[3,3,IC,OC], as [(m+2)^2,IC,OC]: in float64, in a fixed order."""
        g = _floats(self.g)
        wide = w.astype(np.float64)
        rows = [_weighted(g[i], wide) for i in range(self.tile)]
        found = [_weighted(g[j], rows[i]) for i in range(self.tile) for j in range(self.tile)]
        return np.stack(found).astype(np.float32)

    def emulate(
        self,
        x: NDArray[np.float32],
        w: NDArray[np.float32],
        start: tuple[int, int] = (1, 1),
        size: tuple[int, int] | None = None,
    ) -> NDArray[np.float32]:
        """x[N,H,W,IC] convolved with w[3,3,IC,OC], rounded to float32 at every step.

        `start` are the pads above and left, `size` is [OH, OW] (default: as the input).
        Kernels add in another order, or fuse multiply and add: the error is alike, not the bits.
        """
        n, h, width, channels = x.shape
        oh, ow = size or (h, width)
        rows, columns = -(-oh // self.m), -(-ow // self.m)
        needed = (max(rows * self.m + 2, start[0] + h), max(columns * self.m + 2, start[1] + width))
        padded = np.zeros((n, *needed, channels), np.float32)
        padded[:, start[0] : start[0] + h, start[1] : start[1] + width] = x
        products = self._products(self._tiles(padded, rows, columns), self.weights(w))
        tiles = _transform(_floats32(self.at), products)
        y = np.moveaxis(tiles, (0, 1), (2, 4))  # [N, rows, m, columns, m, OC]
        whole = y.reshape(n, rows * self.m, columns * self.m, w.shape[3])
        return np.ascontiguousarray(whole[:, :oh, :ow])

    def _tiles(self, x: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
        """B^T d B of all tiles: [m+2, m+2, N, rows, columns, IC]."""
        last_row, last_column = (rows - 1) * self.m + 1, (columns - 1) * self.m + 1
        tiles = [
            [
                x[:, i : i + last_row : self.m, j : j + last_column : self.m]
                for j in range(self.tile)
            ]
            for i in range(self.tile)
        ]
        return _transform(_floats32(self.bt), np.asarray(tiles))

    def _products(self, v: NDArray[np.float32], u: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sums over the input channels: [m+2, m+2, N, rows, columns, OC]."""
        weights = u.reshape(self.tile, self.tile, 1, 1, 1, *u.shape[1:])
        total = v[..., 0, None] * weights[..., 0, :]
        for ic in range(1, v.shape[-1]):
            total += v[..., ic, None] * weights[..., ic, :]
        return total


def _floats(matrix: Matrix) -> NDArray[np.float64]:
    return np.array([[float(c) for c in row] for row in matrix])


def _floats32(matrix: Matrix) -> NDArray[np.float32]:
    return _floats(matrix).astype(np.float32)


def _weighted(row: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of row[k] * w[k], in order."""
    return np.asarray(row[0] * w[0] + row[1] * w[1] + row[2] * w[2])


def _transform(matrix: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product matrix . x . matrix^T over the first two axes."""
    for axis in (0, 1):
        moved = np.moveaxis(x, axis, 0)
        rows = [_dot(row, moved) for row in matrix]
        x = np.moveaxis(np.stack(rows), 0, axis)
    return x


def _dot(row: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    total = np.zeros_like(x[0])
    for c, part in zip(row, x, strict=True):
        if c:
            total = total + c * part
    return np.asarray(total)


#: Points 0, 1, -1: as accurate as the direct form.
F2 = Winograd(
    2,
    bt=_matrix("1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1"),
    g=_matrix("1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1"),
    at=_matrix("1 1 1 0; 0 1 -1 -1"),
)

#: Points 0, 1, -1, 2, -2: a quarter of the products, ten times the rounding error.
F4 = Winograd(
    4,
    bt=_matrix(
        "4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0; 0 -2 -1 2 1 0; 0 2 -1 -2 1 0; 0 4 0 -5 0 1"
    ),
    g=_matrix("1/4 0 0; -1/6 -1/6 -1/6; -1/6 1/6 -1/6; 1/24 1/12 1/6; 1/24 -1/12 1/6; 0 0 1"),
    at=_matrix("1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1"),
)


def stacked_input(winograd: Winograd) -> Matrix:
    """B^T of the tiles that cover 4 outputs side by side, as rows over their 6 inputs."""
    found = []
    for start in range(0, 4, winograd.m):
        for row in winograd.bt:
            padded = [Fraction(0)] * 6
            padded[start : start + winograd.tile] = row
            found.append(tuple(padded))
    return tuple(found)


def stacked_output(winograd: Winograd) -> Matrix:
    """A^T of the same tiles: 4 rows over the products of `stacked_input`, block by block."""
    blocks = 4 // winograd.m
    found = []
    for block in range(blocks):
        for row in winograd.at:
            before: Sequence[Fraction] = [Fraction(0)] * (block * winograd.tile)
            after = [Fraction(0)] * ((blocks - 1 - block) * winograd.tile)
            found.append((*before, *row, *after))
    return tuple(found)
