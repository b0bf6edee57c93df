"""Sampling of images at computed positions.

Positions and weights are float32 in the reference too: near a border, or halfway between two
elements, rounding decides which one is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, Tensor

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")

#: How many elements along an axis a sample reads, and the offset of the first from the position.
_TAPS = {"nearest": (1, 0), "linear": (2, 0), "cubic": (4, -1)}

#: Positions further away than this are treated as this far away.
_FAR = 1e9

_F32 = NDArray[np.float32]
_I64 = NDArray[np.int64]


@register
@dataclass(frozen=True)
class GridSample(ScalarOp):
    """x[N,*S,C], grid[N,*O,R] -> y[N,*O,C] with R == len(S); the grid's last number belongs to
    S[0].

    -1 and 1 are the centres of the outermost elements with `align_corners`, else their outer edges.
    `padding` gives the value of each element outside, also for a cubic at a border.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, grid), _ = operands(self, inputs, 2)
        require_float(self, x, grid)
        for value, known in ((self.mode, MODES), (self.padding, PADDINGS)):
            if value not in known:
                raise UnsupportedError(f"GridSample: {value!r} is not one of {', '.join(known)}")
        fits = grid.rank == x.rank >= 3 and x.shape[0] == grid.shape[0]
        require(fits and grid.shape[-1] == x.rank - 2, self, f"{x.shape} at {grid.shape}")
        require(bool(prod(x.shape[1:-1])), self, f"shape {x.shape} has an empty spatial axis")
        return (TensorType((*grid.shape[:-1], x.shape[-1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap."""
        (x_in, grid_in), _ = operands(self, inputs, 2)
        x, grid = f64(x_in), grid_in.astype(np.float32)
        sizes = x.shape[1:-1]
        firsts, weights = [], []
        for axis, size in enumerate(sizes):
            first, found = self._axis(grid[..., len(sizes) - 1 - axis], size)
            firsts.append(first)
            weights.append(found)
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * len(sizes))
        y = np.zeros((*grid.shape[:-1], x.shape[-1]))
        for tap in product(range(_TAPS[self.mode][0]), repeat=len(sizes)):
            weight = np.ones(grid.shape[:-1], np.float32)
            places = []
            for axis, k in enumerate(tap):
                place, inside = self._place(firsts[axis] + k, sizes[axis])
                places.append(place)
                weight = weight * np.where(inside, weights[axis][k], np.float32(0))
            at = (batch, *places)
            y += np.where(weight[..., None] != 0, x[at] * weight[..., None], 0.0)
        return (y,)

    def _axis(self, g: _F32, size: int) -> tuple[_I64, list[_F32]]:
        """The first element read at each position, and the weights of all."""
        one, half = np.float32(1), np.float32(0.5)
        if self.align_corners:
            p = (g + one) * half * np.float32(size - 1)
        else:
            p = ((g + one) * np.float32(size) - one) * half
        if self.mode == "nearest":
            p = np.rint(p)
        p = np.where(p > -_FAR, np.where(p < _FAR, p, np.float32(_FAR)), np.float32(-_FAR))
        whole = np.floor(p)
        t = (p - whole).astype(np.float32)
        first = whole.astype(np.int64) + _TAPS[self.mode][1]
        if self.mode == "nearest":
            return first, [np.ones_like(t)]
        if self.mode == "linear":
            return first, [one - t, t]
        return first, [_far(t + one), _near(t), _near(one - t), _far(np.float32(2) - t)]

    def _place(self, i: _I64, size: int) -> tuple[_I64, NDArray[np.bool_]]:
        """The element that index i refers to, and whether there is one."""
        inside = (i >= 0) & (i < size)
        if self.padding == "reflection":
            period = max(2 * size - 2, 1) if self.align_corners else 2 * size
            turned = i % period
            back = period - turned if self.align_corners else period - 1 - turned
            return np.where(turned < size, turned, back), np.ones_like(inside)
        if self.padding == "border":
            inside = np.ones_like(inside)
        return np.clip(i, 0, size - 1), inside

    def write(self, c: Body) -> None:
        """Position by position: the weights per axis, then all channels, tap by tap."""
        x, grid = c.input(0), c.input(1)
        sizes = x.shape[1:-1]
        taps = _TAPS[self.mode][0]
        with c.nest("i", grid.shape[:-1]) as i:
            for axis, size in enumerate(sizes):
                self._write_axis(c, axis, size, grid.at(*i, str(len(sizes) - 1 - axis)))
            with c.loop("c", x.shape[-1]) as channel:
                c(f"{c.output.at(*i, channel)} = 0.0f;")
            with c.nest("k", [taps] * len(sizes)) as k:
                places = [self._write_place(c, axis, size, k) for axis, size in enumerate(sizes)]
                self._write_tap(c, x, i, k, places)

    def _write_axis(self, c: Body, axis: int, size: int, g: str) -> None:
        name = f"p{axis}"
        if self.align_corners:
            position = f"({g} + 1.0f) * 0.5f * {size - 1}.0f"
        else:
            position = f"(({g} + 1.0f) * {size}.0f - 1.0f) * 0.5f"
        position = f"f32x1_round({position})" if self.mode == "nearest" else position
        c(f"float {name} = {position};")
        c(f"{name} = {name} > -1e9f ? ({name} < 1e9f ? {name} : 1e9f) : -1e9f;")
        c(f"const float q{axis} = f32x1_floor({name});")
        c(f"const int f{axis} = (int)q{axis}{' - 1' if self.mode == 'cubic' else ''};")
        if self.mode != "nearest":
            c(f"const float t{axis} = {name} - q{axis};")
            t = f"t{axis}"
            weights = {
                "linear": f"{{ 1.0f - {t}, {t} }}",
                "cubic": f"{{ cannery_cubic_far({t} + 1.0f), cannery_cubic_near({t}), "
                f"cannery_cubic_near(1.0f - {t}), cannery_cubic_far(2.0f - {t}) }}",
            }
            c(f"const float w{axis}[{_TAPS[self.mode][0]}] = {weights[self.mode]};")

    def _write_place(self, c: Body, axis: int, size: int, k: Sequence[str]) -> str:
        """Declares where a tap reads."""
        index = f"f{axis}" if k[axis] == "0" else f"f{axis} + {k[axis]}"
        how = {
            "zeros": index,
            "border": f"cannery_clamped({index}, {size})",
            "reflection": f"cannery_mirrored({index}, {size}, {int(self.align_corners)})",
        }[self.padding]
        c(f"const int s{axis} = {how};")
        return f"s{axis}"

    def _write_tap(
        self, c: Body, x: Tensor, i: Sequence[str], k: Sequence[str], places: Sequence[str]
    ) -> None:
        factors = [f"w{axis}[{tap}]" for axis, tap in enumerate(k)]
        c(f"const float w = {'1.0f' if self.mode == 'nearest' else ' * '.join(factors)};")
        inside = ["w != 0.0f"]
        if self.padding == "zeros":
            for place, size in zip(places, x.shape[1:-1], strict=True):
                inside += [f"{place} >= 0", f"{place} < {size}"]
        with c.block(f"if ({' && '.join(inside)})"), c.loop("c", x.shape[-1]) as channel:
            c(f"{c.output.at(*i, channel)} += w * {x.at(i[0], *places, channel)};")


def _near(t: _F32) -> _F32:
    """Keys' cubic with a = -0.75 at a distance of at most 1."""
    result: _F32 = (np.float32(1.25) * t - np.float32(2.25)) * t * t + np.float32(1)
    return result


def _far(t: _F32) -> _F32:
    """The same at a distance of 1 to 2."""
    a = np.float32(-0.75)
    result: _F32 = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return result
