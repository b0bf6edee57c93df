"""The arithmetic of quantised layers in numpy: float32, one rounding per operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.numeric import Numeric
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType
from cannery.target.isa import Isa

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class QuantizedOp(Op):
    """An operator of this package: it is always a separate step, without an epilogue."""


#: An activation: operators applied one after the other; empty: the identity.
Activation = tuple[Elementwise, ...]

#: Element types of quantised values and weights.
NARROW = (DType.INT8, DType.INT16)

#: Those with eight bits; weights are signed.
BYTES = (DType.INT8, DType.UINT8)

#: Those of activations.
STORED = (*BYTES, DType.INT16)

#: The largest sum that int32 holds.
LARGEST_SUM = 2**31 - 1

#: Whole numbers up to here are exact in float32, in which some kernels add.
EXACT_SUM = 2**24


def largest_of(dtype: DType) -> int:
    """The largest magnitude of an activation stored in this type; unsigned bytes use the same
    one.
    """
    return 2**15 if dtype is DType.INT16 else 255


def by_integers(isa: Isa) -> bool:
    """Whether sums of bytes are int32: on small processors, which have no vectors of floats."""
    return isa.is_small


def f32(array: Numeric) -> F32:
    """Rounded to float32."""
    return np.asarray(array, dtype=np.float32)


def integer_product(x: Numeric, w: Numeric) -> NDArray[Any]:
    """x[..., K] @ w[K, N] in int64.

    Sums below 2^53 are exact in float64 in any order, and numpy multiplies it faster.
    """
    product = np.matmul(x.astype(np.float64), w.astype(np.float64))
    return np.asarray(product.astype(np.int64))


def quantised(values: F32, bound: int, dtype: DType) -> Numeric:
    """Rounded to nearest even and clamped to +-bound; NaN becomes 0."""
    whole = np.nan_to_num(np.rint(values), nan=0.0, posinf=bound, neginf=-bound)
    return np.asarray(np.clip(whole, -bound, bound).astype(dtype.numpy))


def largest_sums(w: Numeric, bound: int) -> NDArray[Any]:
    """The largest magnitude of each sum over the columns of w[..., K, N] with inputs up to
    +-bound.
    """
    sums = np.abs(w.astype(np.int64)).sum(axis=-2) * bound
    return np.asarray(sums.astype(np.int64))
