"""Types of the values that flow through a graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from cannery.errors import ModelError

#: No tensor may have more elements: every index in generated C fits into int32_t.
MAX_ELEMENTS = 2**31 - 1

#: No tensor may have more dimensions, as in numpy.
MAX_RANK = 32


class DType(str, Enum):
    """Element types, with numpy's names.

    HALF, numpy's other name for float16, is for values between layers that compute in half
    precision: models do not have it, and in C it is the uint16_t of its bits.
    """

    FLOAT32 = "float32"
    UINT8 = "uint8"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    HALF = "half"

    @property
    def bytes(self) -> int:
        return int(np.dtype(self.value).itemsize)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        return np.dtype(self.value)

    @property
    def c_name(self) -> str:
        """The C type of one element."""
        named = {"float32": "float", "bool": "uint8_t", "half": "uint16_t"}
        return named.get(self.value, f"{self.value}_t")

    @property
    def is_float(self) -> bool:
        """Whether kernels compute with it as with float32."""
        return self in (DType.FLOAT32, DType.HALF)


#: Those that models have.
MODEL_DTYPES = tuple(dtype for dtype in DType if dtype is not DType.HALF)


@dataclass(frozen=True)
class TensorType:
    """Shape (batch included, channels last) and element type of a value.

    Raises ModelError for a negative dimension or more than MAX_ELEMENTS elements.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32

    def __post_init__(self) -> None:
        if any(d < 0 for d in self.shape):
            raise ModelError(f"shape {self.shape} has a negative dimension")
        if self.rank > MAX_RANK:
            raise ModelError(f"a tensor with {self.rank} dimensions; {MAX_RANK} are supported")
        if max((self.elements, *self.shape)) > MAX_ELEMENTS:
            raise ModelError(f"shape {self.shape} has more than 2^31-1 elements")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype.value}[{'x'.join(map(str, self.shape))}]"
