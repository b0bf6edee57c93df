"""Sums of two quantised bytes in fixed point as one linear form, where all results are the same.

    y = (a p + b q + c) / 2^shift, rounded down, then clamped

TensorFlow Lite rescales both terms and their sum, and rounds each time. Of bytes there are only
65,536 pairs: for given p and q, each pair bounds c from both sides, and any c within all bounds
gives the same results. There may be none, as halves go away from zero on both sides of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ldexp

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import all_numbers
from cannery.ops.fixed_point.pointwise import FixedSum

#: How many bits p and q have at most: these are tried in turn. Sums fit int32 anyway, or with more
#: bits if they are small, and parts of p and q int16.
_BITS = (21, 22, 23)

#: Results times 2^22 fit int32.
_MOST_SHIFT = 22

#: The low bits of p and q, which are multiplied apart from the others.
LOW = 15

#: The numbers tried on both sides of p and q.
_TRIED = sorted(range(-4, 5), key=abs)


@dataclass(frozen=True)
class LinearSum:
    """See the module docstring."""

    p: int
    q: int
    c: int
    shift: int

    def value(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """The results before they are clamped."""
        return np.asarray((a * self.p + b * self.q + self.c) >> self.shift)

    @property
    def low(self) -> tuple[int, int]:
        """The low bits of p and q."""
        return self.p & (1 << LOW) - 1, self.q & (1 << LOW) - 1

    @property
    def high(self) -> tuple[int, int]:
        """The others."""
        return self.p >> LOW, self.q >> LOW


@cache
def linear_sum(op: FixedSum, dtypes: tuple[DType, DType]) -> LinearSum | None:
    """The form that gives the same as `op` for all bytes of these types; None if none was found."""
    last = op.factors[2]
    reals = [ldexp(float(f.multiplier) * last.multiplier, f.shift + last.shift + op.left - 62)
             for f in op.factors[:2]]  # fmt: skip
    largest = max(reals)
    if not 2.0**-8 < largest < 2.0**8:
        return None
    a, b = np.meshgrid(*map(all_numbers, dtypes), indexing="ij")
    wanted = op.value(a, b).astype(np.int64)
    near = sorted(product(_TRIED, _TRIED), key=lambda pair: sum(map(abs, pair)))
    whole = int(np.frexp(largest)[1])
    for shift in dict.fromkeys(min(bits - whole, _MOST_SHIFT) for bits in _BITS):
        p, q = (round(ldexp(real, shift)) for real in reals)
        q = -q if op.subtract else q
        for more, other in near:
            c = _constant(a * (p + more) + b * (q + other), wanted, shift, (op.minimum, op.maximum))
            if c is not None:
                return LinearSum(p + more, q + other, c, shift)
    return None


def _constant(
    sums: NDArray[np.int64], wanted: NDArray[np.int64], shift: int, held: Sequence[int]
) -> int | None:
    """A number that, added to all sums, gives what is wanted; None if there is none."""
    above, below = wanted > held[0], wanted < held[1]
    starts = (wanted << shift) - sums
    least = int(starts[above].max(initial=-(2**31)))
    most = int((starts + (1 << shift) - 1)[below].min(initial=2**31 - 1))
    c = (least + most) // 2
    fits = int(np.abs(sums).max()) + abs(c) < 2**31
    return c if least <= most and fits else None
