"""Adds overlapping blocks up to an image."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body
from cannery.ops.window import Pads, output_sizes


@register
@dataclass(frozen=True)
class Col2Im(ScalarOp):
    """x[N,C,K,L] -> y[N,C,*image]: tap k of block l is added where it was read; taps outside are
    dropped.

    K counts the taps of `kernel`, L the places of the window on the padded image, both row-major.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def _places(self) -> tuple[int, ...]:
        return output_sizes(self, self.image, self.kernel, self.strides, self.pads, self.dilations)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of the image; raises ModelError for blocks that do not fit it."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        expected = (prod(self.kernel), prod(self._places()))
        require(x.rank == 4 and x.shape[2:] == expected, self, f"{x.shape}, expected {expected}")
        return (TensorType((*x.shape[:2], *self.image)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap on the padded image, which is then cropped."""
        (x_in,), _ = operands(self, inputs, 1)
        places = self._places()
        x = f64(x_in).reshape(*x_in.shape[:3], *places)
        padded = [b + d + e for d, (b, e) in zip(self.image, self.pads, strict=True)]
        y = np.zeros((*x.shape[:2], *padded))
        for index, tap in enumerate(product(*map(range, self.kernel))):
            at = tuple(
                slice(k * d, k * d + (o - 1) * s + 1, s)
                for k, d, o, s in zip(tap, self.dilations, places, self.strides, strict=True)
            )
            places_of_tap = (slice(None), slice(None), *at)
            y[places_of_tap] += x[:, :, index]
        inner = (slice(b, b + d) for d, (b, _) in zip(self.image, self.pads, strict=True))
        cut = (slice(None), slice(None), *inner)
        return (y[cut],)

    def write(self, c: Body) -> None:
        """Pixel by pixel: the taps that lie on it."""
        x, places = c.input(0), self._places()
        with c.nest("i", c.output.shape) as i:
            c("float sum = 0.0f;")
            with c.nest("k", self.kernel) as k:
                inside, columns, tap = [], "0", "0"
                for axis, size in enumerate(places):
                    s, d, b = self.strides[axis], self.dilations[axis], self.pads[axis][0]
                    c(f"const int t{axis} = {i[axis + 2]} + {b} - {k[axis]} * {d};")
                    inside += [f"t{axis} >= 0", f"t{axis} < {size * s}", f"t{axis} % {s} == 0"]
                    columns = f"({columns}) * {size} + t{axis} / {s}"
                    tap = f"({tap}) * {self.kernel[axis]} + {k[axis]}"
                with c.block(f"if ({' && '.join(inside)})"):
                    place = f"(({tap}) * {x.shape[3]} + {columns})"
                    image = f"({i[0]} * {x.shape[1]} + {i[1]}) * {x.shape[2] * x.shape[3]}"
                    c(f"sum += {x.name}[{image} + {place}];")
            c(f"{c.output.at(*i)} = sum;")
