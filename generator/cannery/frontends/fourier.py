"""Fourier transforms as matrices, for all formats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError

#: Most elements of a transform's matrix.
MOST_OF_MATRIX = 2**24


def transform_matrix(
    given: int, length: int, kept: int, parts: tuple[int, int], sign: int
) -> NDArray[np.float64]:
    """[given, parts[0], kept, parts[1]]: the transform of `given` numbers, truncated or padded.

    Numbers have a real part, or also an imaginary one; e^(sign * 2 pi i j k / length). Raises
    UnsupportedError for more than `MOST_OF_MATRIX` elements.
    """
    if given * kept * parts[0] * parts[1] > MOST_OF_MATRIX:
        raise UnsupportedError(f"a transform of {length} numbers is too long")
    j, k = np.arange(given)[:, None], np.arange(kept)[None, :]
    angle = 2 * np.pi / length * (j * k % length)  # exact products of indices
    used = (j < length).astype(np.float64)
    real, imaginary = np.cos(angle) * used, sign * np.sin(angle) * used
    full = np.array([[real, imaginary], [-imaginary, real]])
    return np.ascontiguousarray(full[: parts[0], : parts[1]].transpose(2, 0, 3, 1))
