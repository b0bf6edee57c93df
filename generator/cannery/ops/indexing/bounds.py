"""Indices computed at run time: negative ones count from the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.ir.numeric import Numeric
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.scalar.body import Body


def require_indices(op: Op, indices: TensorType) -> None:
    """Raises UnsupportedError unless indices are int32 or int64."""
    if indices.dtype not in (DType.INT32, DType.INT64):
        raise UnsupportedError(f"{op.kind}: indices of {indices.dtype.value}")


def bounded(indices: Numeric, size: int) -> NDArray[np.int64]:
    """Positions within 0..size-1; those outside become the nearest of them."""
    wide = indices.astype(np.int64)
    return np.asarray(np.clip(np.where(wide < 0, wide + size, wide), 0, max(size - 1, 0)))


def write_bounded(c: Body, name: str, index: str, size: int) -> None:
    """Declares int `name`, the position that `index` means, as `bounded` says."""
    with_end = f"{name}_at"
    c(f"int64_t {with_end} = {index};")
    c(f"{with_end} += {with_end} < 0 ? {size} : 0;")
    top = size - 1
    c(f"const int {name} = (int)({with_end} < 0 ? 0 : {with_end} > {top} ? {top} : {with_end});")
    if size == 1:
        c(f"(void){name};")


def write_checked(c: Body, name: str, index: str, size: int) -> None:
    """Declares int `name`, the position that `index` means, -1 if there is none."""
    with_end = f"{name}_at"
    c(f"int64_t {with_end} = {index};")
    c(f"{with_end} += {with_end} < 0 ? {size} : 0;")
    c(f"const int {name} = (int)({with_end} < 0 || {with_end} >= {size} ? -1 : {with_end});")
