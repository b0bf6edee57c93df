"""Where an output index of a resize lies along an axis of the input, by ONNX Resize's names.

There are two versions, because runtimes compute with float32, and files were checked with them.
Rounding decides which element is nearest and what is outside: there `rounded` rounds as ONNX
Runtime does, in the order of its operations. Weights between elements do not jump, so `exact` does
not round at all.

The formulas are from the operator's specification. Its lengths are whole numbers even where a scale
gives a fraction (40 * 0.61 is 24): onnx's reference evaluator takes the fraction, ONNX Runtime does
not. `docs/reference/semantics.md` lists such differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The coordinate transformations, of an axis that is resized as a whole, and of part of an axis.
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "tf_half_pixel_for_nn",
)
CROPPING = "tf_crop_and_resize"

#: How a position becomes an index. "opset_10" is the way of Resize before it had an attribute for
#: this, as ONNX Runtime computes it: up along axes that shrink, else down.
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "opset_10")

#: Most elements of a resized axis.
MOST_OUTPUTS = 2**16

#: Positions this close to the middle between two elements count as the middle, which float32 often
#: misses.
_TIE = np.float32(1e-6)


@dataclass(frozen=True)
class ResizedAxis:
    """An axis of `size` elements that becomes one of `out`.

    `scale` is the model's, a float32; 0 if the model gives sizes. `region` is the part of the input
    that is resized, 0 to 1; only CROPPING has one.
    """

    coordinate: str
    size: int
    out: int
    scale: float = 0.0
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def rounded_scale(self) -> np.float32:
        """Output over input."""
        ratio: np.float32 = np.float32(self.out) / np.float32(self.size)
        return np.float32(self.scale) if self.scale else ratio

    @property
    def stays(self) -> bool:
        """Whether each element stays where it is, whatever the formula says."""
        return self.size == self.out and self.rounded_scale == 1 and self.region == (0.0, 1.0)

    def exact(self) -> list[Fraction]:
        """The position of each output index; the scale may stand for the ratio that it rounds."""
        ratio = Fraction(self.out, self.size)
        given = self.scale and np.float32(float(ratio)) != np.float32(self.scale)
        indices = np.array([Fraction(o) for o in range(self.out)], object)
        scale = Fraction(self.scale) if given else ratio
        return list(self._positions(indices, Fraction, scale))

    def rounded(self) -> NDArray[np.float32]:
        """The same, rounded where and as ONNX Runtime rounds it."""
        indices = np.arange(self.out, dtype=np.float32)
        found = self._positions(indices, np.float32, self.rounded_scale)
        return np.asarray(found, np.float32)

    def _positions(self, o: Any, number: Callable[[float], Any], scale: Any) -> Any:
        """Formula by formula, for any type of number; the order is ONNX Runtime's."""
        size, out, one, half = number(self.size), number(self.out), number(1), number(0.5)
        single = ("align_corners", "pytorch_half_pixel")
        if self.stays or (self.out == 1 and self.coordinate in single):
            return o
        if self.coordinate == "align_corners":
            return o * (size - one) / (out - one)
        if self.coordinate == CROPPING:
            start, end = map(number, self.region)
            if self.out == 1:
                return o + half * (start + end) * (size - one)
            return start * (size - one) + o * (end - start) * (size - one) / (out - one)
        if self.coordinate == "asymmetric":
            return o / scale
        if self.coordinate == "tf_half_pixel_for_nn":
            return (o + half) / scale
        if self.coordinate == "half_pixel_symmetric":
            offset = size / number(2) * (one - out / (scale * size))
            if number is np.float32:  # from here on in double
                o, scale, offset, half = (np.float64(v) for v in (o, scale, offset, half))
            return offset + (o + half) / scale - half
        return (o + half) / scale - half

    def nearest(self, rounding: str) -> NDArray[np.int32]:
        """The element that each output index takes; positions outside take the outermost
        element.
        """
        x = np.clip(self.rounded(), -1, self.size)  # positions further outside could overflow
        if rounding == "opset_10":
            rounding = "ceil" if self.rounded_scale < 1 else "floor"
        if rounding == "floor":
            found = np.floor(x)
        elif rounding == "ceil":
            found = np.ceil(x)
        else:
            after = x - np.floor(x)  # exact in float32
            tie = np.abs(after - np.float32(0.5)) <= _TIE
            up = (after > 0.5) & ~tie if rounding == "round_prefer_floor" else (after > 0.5) | tie
            found = np.floor(x) + up
        return np.clip(found, 0, self.size - 1).astype(np.int32)

    def inside(self) -> NDArray[np.bool_]:
        """Whether each output index lies within the input; only CROPPING leaves it."""
        if self.coordinate != CROPPING:
            return np.ones(self.out, np.bool_)
        x = self.rounded()
        return (x >= 0) & (x <= self.size - 1)
