"""Winograd's algorithm on bytes: no sum on the way to an output leaves its type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ops.quantized.winograd import MOST_CHANNELS, WEIGHTS

#: B^T and A^T of F(2, 3).
INTO = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
BACK = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])

BYTES = [(0, 255), (-128, 127)]


def running(terms: NDArray[Any], signs: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """What there is after each addition of `signs` times the terms."""
    total = np.zeros_like(terms[0])
    for term, sign in zip(terms, signs, strict=True):
        total = total + sign * term
        yield total


def sums() -> Iterator[NDArray[Any]]:
    """Every sum of one channel as M[16,9]: for inputs d and weights w it is d M w."""
    m = np.einsum("ai,bj,ak,bl->abijkl", INTO, INTO, WEIGHTS, WEIGHTS).reshape(4, 4, 16, 9)
    yield from m.reshape(16, 16, 9)
    for signs in BACK:
        columns = []
        for b in range(4):
            *before, last = running(m[:, b], signs)
            yield from before
            columns.append(last)
        for across in BACK:
            yield from running(np.array(columns), across)


@pytest.mark.parametrize(("least", "most"), BYTES)
def test_sums_of_the_most_channels_fit_int32(least: int, most: int) -> None:
    # Products are largest where all numbers are at the ends of their ranges.
    weights = np.array(list(product((-128, 127), repeat=9)))
    largest = 0
    for matrix in sums():
        each = weights @ matrix.T
        high = np.where(each > 0, each * most, each * least).sum(axis=1).max()
        low = np.where(each > 0, each * least, each * most).sum(axis=1).min()
        largest = max(largest, int(high), -int(low))
    assert largest == 4 * 9 * 128 * max(most, -least)
    assert largest * MOST_CHANNELS < 2**31


@pytest.mark.parametrize(("least", "most"), BYTES)
def test_transformed_inputs_and_weights_fit_int16(least: int, most: int) -> None:
    assert 128 * (np.abs(WEIGHTS).sum(axis=1) ** 2).max() < 2**15
    assert max(most, -least) * (np.abs(INTO).sum(axis=1) ** 2).max() < 2**15
