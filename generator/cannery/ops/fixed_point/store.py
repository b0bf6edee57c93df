"""Integers times factors of at most 1, and statements that store them as narrower ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import Factor
from cannery.ops.shared.lanes import Vec

#: The words of vec_fixed.h that store integers.
_WORDS = {DType.INT8: "store_i8", DType.UINT8: "store_u8", DType.INT16: "store_s16"}


def small_product(t: str, value: str, factor: Factor, zero: int = 0) -> str:
    """C expression of a value times a factor of at most 1, plus a zero point."""
    high = f"{t}_high({value}, {t}_set1({factor.multiplier}))"
    if not factor.shift:
        return f"{t}_add({high}, {t}_set1({zero}))" if zero else high
    right = -factor.shift
    half = (1 << (right - 1)) + zero * (1 << right)
    return f"{t}_shifted({high}, {t}_set1({half}), {t}_set1({right}))"


def store_held(v: Vec, dtype: DType, held: tuple[int, int], pointer: str) -> list[str]:
    """Statements that clamp the integers `v` of a vector to bounds and store them."""
    t, (low, high) = f"i32x{v.lanes}", held
    if v.lanes == 1:
        return [f"*({pointer}) = ({dtype.c_name})cannery_held(v, {low}, {high});"]
    word, rest = _WORDS[dtype], "" if v.full else f", {v.valid}"
    return [*_clamped(t, "v", dtype, held), f"{t}_{word}{rest and '_n'}({pointer}, v{rest});"]


def store_held_together(
    t: str, names: Sequence[str], dtype: DType, held: tuple[int, int], pointer: str
) -> list[str]:
    """The same for neighbouring full vectors of type `t`, as many as `most_together` says."""
    word = _WORDS[dtype].replace("store", f"store{len(names)}")
    clamped = [line for name in names for line in _clamped(t, name, dtype, held)]
    return [*clamped, f"{t}_{word}({pointer}, {', '.join(names)});"]


def most_together(dtype: DType) -> tuple[int, ...]:
    """How many vectors words store at once, the most first."""
    return (2,) if dtype is DType.INT16 else (4, 2)


def _clamped(t: str, name: str, dtype: DType, held: tuple[int, int]) -> list[str]:
    """Statements that clamp a vector to bounds that the type has not anyway."""
    info, (low, high) = np.iinfo(dtype.value), held
    found = [f"{name} = {t}_max({name}, {t}_set1({low}));"] if low > info.min else []
    return found + ([f"{name} = {t}_min({name}, {t}_set1({high}));"] if high < info.max else [])
