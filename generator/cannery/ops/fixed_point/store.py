"""Statements that store integers as narrower ones."""

from __future__ import annotations

import numpy as np

from cannery.ir.tensor import DType
from cannery.ops.shared.lanes import Vec

#: The words of vec_fixed.h that store integers.
_WORDS = {DType.INT8: "store_i8", DType.UINT8: "store_u8", DType.INT16: "store_s16"}


def store_held(v: Vec, dtype: DType, held: tuple[int, int], pointer: str) -> list[str]:
    """Statements that clamp the integers `v` of a vector to bounds and store them."""
    t, info, (low, high) = f"i32x{v.lanes}", np.iinfo(dtype.value), held
    if v.lanes == 1:
        return [f"*({pointer}) = ({dtype.c_name})cannery_held(v, {low}, {high});"]
    found = [f"v = {t}_max(v, {t}_set1({low}));"] if low > info.min else []
    found += [f"v = {t}_min(v, {t}_set1({high}));"] if high < info.max else []
    word, rest = _WORDS[dtype], "" if v.full else f", {v.valid}"
    return [*found, f"{t}_{word}{rest and '_n'}({pointer}, v{rest});"]
