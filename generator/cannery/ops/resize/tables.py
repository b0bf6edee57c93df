"""How much each element of an axis weighs in each output of a resize: tables for `Interpolate`.

The elements around a position get the weights of a filter at their distance: a triangle (linear),
Keys' cubic, Lanczos' sinc. With antialias the filter is stretched by the inverse of the scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from cannery.ops.resize.positions import ResizedAxis

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Filter:
    """A function of the distance, `reach` elements to each side.

    `cubic` is the a of R. Keys (1981). Elements outside count as the outermost one, or with
    `exclude_outside` not at all. Positions between elements are multiples of 1/`steps`, unless it
    is 0.
    """

    kind: str
    reach: int
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    steps: int = 0


@dataclass(frozen=True)
class AxisTable:
    """For each output index along an axis: what it reads, and its weights."""

    places: NDArray[np.int32]
    weights: NDArray[np.float32]


def axis_table(how: Filter, axis: ResizedAxis) -> AxisTable:
    """The table of one axis."""
    places, weights = [], []
    for x in axis.exact():
        base = ceil(x) - 1
        ratio = x - base
        if how.steps:
            ratio = Fraction(round(ratio * how.steps), how.steps)
        found = _weights(how, float(ratio), float(axis.rounded_scale))
        first = base + 1 - len(found) // 2
        at = np.arange(first, first + len(found))
        within = np.where((at >= 0) & (at < axis.size), found, 0.0)
        if how.exclude_outside and within.sum():
            found = within / within.sum()
        places.append(np.clip(at, 0, axis.size - 1))
        weights.append(found)
    return AxisTable(np.asarray(places, np.int32), np.asarray(weights, np.float32))


def _weights(how: Filter, ratio: float, scale: float) -> Floats:
    """Weights of the elements around a position that lies 0 < ratio <= 1 after its predecessor."""
    shrink = min(scale, 1.0) if how.antialias else 1.0
    first = floor(-how.reach / shrink) + 1
    distance = np.abs(np.arange(first, 2 - first) - ratio)
    found = _at_distance(how, distance * shrink)
    return found / found.sum() if how.antialias else found


def _at_distance(how: Filter, x: Floats) -> Floats:
    """The filter at distances x >= 0."""
    if how.kind == "linear":
        return np.clip(1 - x, 0, 1)
    if how.kind == "lanczos":
        found = np.sinc(x) * np.sinc(x / how.reach)
        return np.where(x < how.reach, found, 0.0)
    a = how.cubic
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
