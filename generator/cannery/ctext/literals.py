"""C literals that denote exactly the value they are made from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def c_float(value: float) -> str:
    """`value`, rounded to float32, as a C literal that reads back to the same bits.

    It is the shortest decimal that round-trips in both C99 and C++11: C++ has hexadecimal floats
    only since C++17. A value without a literal becomes a constant expression of literals, so that
    no header is needed; it works in static initialisers too. The sign of a NaN is lost.
    """
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        return "(0.0f / 0.0f)"
    if np.isinf(single):
        return "(1.0f / 0.0f)" if single > 0 else "(-1.0f / 0.0f)"
    return f"{single!s}f"


def c_floats(values: NDArray[np.generic]) -> list[str]:
    """`c_float` of all elements of a flat array."""
    with np.errstate(over="ignore"):
        singles = values.astype(np.float32)
    if np.isfinite(singles).all():
        return [f"{single!s}f" for single in singles]
    return [c_float(single) for single in singles.tolist()]


def c_integer(value: int) -> str:
    """`value` as a C constant expression; C has no literal for the least number of a type."""
    if value in (-(2**31), -(2**63)):
        return f"({value + 1} - 1)"
    return f"{value}u" if 2**31 <= value < 2**32 or value >= 2**63 else str(value)
