"""bfloat16 in numpy: the numbers, and pairs of them as processors multiply them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import F64
from cannery.ir.registry import RefArray


def rounded_to_bfloat(x: RefArray) -> F64:
    """Numbers rounded to float32 and then to the nearest bfloat16, ties to even, as float64; large
    ones are infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        floats = x.astype(np.float32)
    found = (bfloat_bits(floats).astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float64)


def bfloat_bits(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16)


def paired(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """x[2*K, ...] rounded, as pairs[K, ...]: the first of each pair is the lower half of a float's
    bits.
    """
    bits = bfloat_bits(x).astype(np.uint32)
    return (bits[0::2] | bits[1::2] << 16).view(np.float32)
