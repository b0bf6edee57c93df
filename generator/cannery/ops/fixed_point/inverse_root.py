"""1 / sqrt(x) of whole numbers in fixed point, by Newton's steps on integers of 32 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ops.fixed_point.arithmetic import (
    I64,
    Factor,
    by_factor,
    high_product,
    rescaled,
    shifted,
)

#: 1.5 with three integer bits, and half of the root of 2 without.
_THREE_HALVES, _HALF_ROOT = 3 << 27, 1518500250

#: By how many bits a root is longer than a result, while it is not yet rescaled.
_LONGER = 20


def inverse_root(x: int) -> Factor:
    """The inverse root of x < 2^31; that of 0 is that of 1."""
    if x <= 1:
        return Factor(2**31 - 1, 0)
    shift = 11
    while x >= 1 << 29:
        x, shift = x // 4, shift + 1
    pairs = (31 - x.bit_length()) // 2 - 1
    x, shift = x << 2 * pairs, shift - pairs
    half, y = int(shifted(x >> 1, 1)), 1 << 28
    for _ in range(5):
        cube = _raised(_times(_times(y, y), y), 6)
        y = _raised(_times(_THREE_HALVES, y) - _times(half, cube), 3)
    y = _times(y, _HALF_ROOT)
    return Factor(y << -shift, 0) if shift < 0 else Factor(y, -shift)


def _times(a: int, b: int) -> int:
    return int(high_product(a, b))


def _raised(x: int, bits: int) -> int:
    return min(max(x << bits, -(2**31)), 2**31 - 1)


def inverse_roots(x: I64, factor: Factor) -> NDArray[np.float64]:
    """Inverse roots times a factor; of 0 and below it is larger than any result."""
    found = []
    for value in map(int, x):
        if value <= 0:
            found.append(2**31)
            continue
        root = inverse_root(value)
        longer = rescaled(1, root.multiplier, root.shift + _LONGER)
        found.append(int(by_factor(longer, Factor(factor.multiplier, factor.shift - _LONGER))))
    return np.asarray(found, np.float64)
