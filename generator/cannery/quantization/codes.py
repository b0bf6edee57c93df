"""Weights of few levels: which levels, and which layers bear them.

`int4` are steps of their own for each output, 15 of them, as fine as the least squared error wants:
large weights may be clipped. A palette is common to all outputs of a layer: the levels are those of
the least squared error that are possible, found exactly by dynamic programming over the sorted
weights (k-means in one dimension, Wang and Song, The R Journal 3/2, 2011), where one of them is 0.
Each output keeps a step, by which its levels are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import F64, Numeric, f64
from cannery.ops.quantized.matmul import BYTE
from cannery.quantization.steps import Weights

#: The magnitudes of int8 that levels may have.
LARGEST = 127

#: Parts of the largest weight of an output that the largest level of int4 may stand for.
PARTS = tuple(k / 32 for k in range(12, 33))

#: How often levels and steps are fitted to each other.
ROUNDS = 4

#: Layers with fewer weights gain nothing.
LEAST_WEIGHTS = 64


@dataclass(frozen=True)
class Form:
    """How weights are stored: codes of `bits` bits, steps of each output or levels of a palette."""

    name: str
    bits: int
    palette: bool

    def of(self, w: Numeric, start: Weights) -> Weights:
        """w[K,N] in these levels; `start` are the same as bytes."""
        return _palette(f64(w), start, 2**self.bits) if self.palette else _steps(f64(w), self.bits)


#: By the value of the option WEIGHTS_AS.
FORMS = {
    form.name: form
    for form in (Form("int4", 4, False), Form("palette4", 4, True), Form("palette2", 2, True))
}


@dataclass(frozen=True)
class Coding:
    """The form of weights, and the layers that keep bytes."""

    form: Form
    kept: frozenset[str] = frozenset()

    def bits(self, layer: str, count: int) -> int:
        """Bits of each of so many weights of a layer."""
        return BYTE if layer in self.kept or count < LEAST_WEIGHTS else self.form.bits


def _steps(w: F64, bits: int) -> Weights:
    """w[K,N] as multiples of a step for each output, up to 2^(bits-1) - 1 of them."""
    most = 2 ** (bits - 1) - 1
    largest = np.abs(w).max(axis=0)
    largest[largest < np.finfo(np.float32).tiny] = float(most)  # nothing but zeros
    best, least = largest / most, np.full(w.shape[1], np.inf)
    for part in PARTS:
        steps = largest * part / most
        error = np.square(w - steps * _clipped(w, steps, most)).sum(axis=0)
        better = error < least
        best, least = np.where(better, steps, best), np.where(better, error, least)
    return Weights(_clipped(w, best, most).astype(np.int8), best)


def _clipped(w: F64, steps: F64, most: int) -> F64:
    return np.clip(np.rint(w / steps), -most, most)


def _palette(w: F64, start: Weights, count: int) -> Weights:
    """w[K,N] as `count` levels times a step for each output."""
    steps, levels = start.steps, np.zeros(1, np.int64)
    for _ in range(ROUNDS):
        whole = np.clip(np.rint(w / steps), -LARGEST, LARGEST).astype(np.int64)
        weight = np.broadcast_to(np.square(steps), w.shape).ravel()
        found = np.bincount(whole.ravel() + LARGEST, weight, 2 * LARGEST + 1)
        levels = levels_of(f64(found), count)
        known = f64(nearest(w / steps, levels))
        square = np.square(known).sum(axis=0)
        fitted = (w * known).sum(axis=0) / np.maximum(square, 1.0)
        steps = np.where(fitted > 0, fitted, steps)
    return Weights(nearest(w / steps, levels), steps)


def nearest(values: F64, levels: NDArray[np.int64]) -> Numeric:
    """The nearest of the ascending levels for each value, as int8."""
    between = (levels[1:] + levels[:-1]) / 2.0
    return np.asarray(levels[np.searchsorted(between, values)].astype(np.int8))


def levels_of(found: F64, count: int) -> NDArray[np.int64]:
    """At most `count` ascending integers, 0 among them, with the least squared distance to numbers
    from -LARGEST to LARGEST of these weights.
    """
    numbers = np.arange(-LARGEST, LARGEST + 1, dtype=np.float64)
    most = len(numbers)
    sums = [np.concatenate([[0.0], np.cumsum(found * numbers**k)]) for k in range(3)]
    weight, first, second = (s[None, :] - s[:, None] for s in sums)  # of numbers [from, to)
    mean = np.rint(first / np.where(weight > 0, weight, 1.0))
    own = np.where(weight > 0, second - 2.0 * mean * first + np.square(mean) * weight, 0.0)
    own[np.tril_indices(most + 1, -1)] = np.inf
    zero = np.where(np.isinf(own), np.inf, second)
    # cost[z, m]: the least of the first m numbers in as many levels as there were rounds, z of
    # which are 0.
    cost = np.full((2, most + 1), np.inf)
    cost[0, 0] = 0.0
    chosen = []
    for _ in range(count):
        plain = cost[:, :, None] + own
        fixed = cost[0][:, None] + zero
        both = np.concatenate([plain[1], fixed])
        chosen.append((plain[0].argmin(axis=0), both.argmin(axis=0)))
        cost = np.stack([plain[0].min(axis=0), both.min(axis=0)])
    levels, end, has_zero = [0], most, True
    for without, within in reversed(chosen):
        begin = int((within if has_zero else without)[end])
        if has_zero and begin > most:
            has_zero, begin = False, begin - most - 1
        else:
            levels.append(int(mean[begin, end]))
        end = begin
    return np.unique(np.asarray(levels, np.int64))
