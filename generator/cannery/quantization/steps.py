"""How fine integers are: bounds of values and steps of weights that keep sums within int32.

A sum over k of x[k] w[k,n] is at most `bound` * sum |w[k,n]|. So the finer values are, the coarser
weights must be, and the other way round. The bound of a value is chosen to minimise the combined
noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import F64, Numeric, f64
from cannery.ir.tensor import DType
from cannery.ops.quantized.arithmetic import LARGEST_SUM, largest_sums
from cannery.quantization.calibration import Spread

#: The numbers of bits to try for int16 values, without the sign.
BITS = range(8, 16)


@dataclass(frozen=True)
class Weights:
    """Integers w[K,N] and their steps [N]; they mean w * step."""

    integers: Numeric
    steps: F64


def round_weights(w: Numeric, bound: int, dtype: DType) -> Weights:
    """w[K,N] as integers: for each column the finest whose sums stay below the largest.

    Rounding may add half a unit for each k, which counts. The integers themselves prove it.
    """
    exact = f64(w)
    sums = np.abs(exact).sum(axis=0)
    most = LARGEST_SUM // bound - (w.shape[0] + 1) // 2
    if most < 1:
        raise AssertionError(f"{w.shape[0]} products of numbers up to {bound}")
    steps = np.maximum(np.abs(exact).max(axis=0) / np.iinfo(dtype.value).max, sums / most)
    steps[steps < np.finfo(np.float32).tiny] = 1.0  # nothing but zeros
    integers = np.rint(exact / steps).astype(dtype.numpy)
    if largest_sums(integers, bound).max(initial=0) > LARGEST_SUM:
        raise AssertionError("sums may become too large")
    return Weights(integers, steps)


def choose_bound(
    factors: Sequence[Numeric], spread: Spread, dtype: DType, limit: int = LARGEST_SUM
) -> int:
    """The largest integer of a value that several products read; at most `limit`.

    A value that no product reads is as fine as possible.
    """
    largest = min(int(np.iinfo(dtype.value).max), limit)
    if dtype is DType.INT8 or not factors:
        return largest
    bounds = [min(2**bits - 1, largest) for bits in BITS]
    return _quietest({bound: _noise(factors, spread, bound) for bound in bounds})


def choose_state_bound(factors: Sequence[Numeric], rms: float, dtype: DType) -> int:
    """The same for outputs of a recurrent layer, between -1 and 1: a power of two, of int16.

    So they become floats, and integers again, without loss.
    """
    if dtype is DType.INT8:
        return 127
    noise = {2**bits: _noise(factors, Spread(1.0, rms), 2**bits) for bits in BITS if bits < 15}
    return _quietest(noise)


def _quietest(noise: Mapping[int, float]) -> int:
    """The bound with the least noise; if several, the smallest."""
    return min(noise, key=lambda bound: (noise[bound], bound))


def _noise(factors: Sequence[Numeric], spread: Spread, bound: int) -> float:
    """The sum over all outputs of the noise from rounding values and weights, relative to each.

    Both are taken as uniform within half a step; twelve times the variance is counted.
    """
    total = 0.0
    for w in factors:
        if LARGEST_SUM // bound <= w.shape[0]:
            return float("inf")
        rounded = round_weights(w, bound, DType.INT16)
        energy = np.square(f64(w)).sum(axis=0)
        of_values = (spread.largest / bound) ** 2 * energy
        of_weights = np.square(rounded.steps) * w.shape[0] * spread.rms**2
        total += float(((of_values + of_weights) / np.maximum(energy, 1e-300)).mean())
    return total
