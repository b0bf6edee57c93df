"""Constant arrays: small ones as C text, large models' weights as one binary blob."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.emit.literals import c_float
from cannery.schedule.schedule import ConstArray, Kernel

#: Models with more constant bytes than this keep their large arrays in a blob.
BLOB_FROM_BYTES = 512 * 1024
#: Arrays below this stay C text even then.
BLOB_ARRAY_BYTES = 4096
ALIGNMENT = 64

_C_TYPES = {
    "float32": "float", "int32": "int32_t", "uint32": "uint32_t", "int16": "int16_t",
    "int8": "int8_t", "uint8": "uint8_t", "uint16": "uint16_t", "int64": "int64_t",
}  # fmt: skip


@dataclass(frozen=True)
class WeightBlob:
    """The bytes of `<name>_weights.bin`, and where each array lies in them."""

    symbol: str
    data: bytes
    offsets: tuple[tuple[str, str, int], ...]


def array_type(array: NDArray[np.generic]) -> str:
    """The C type of an array's elements."""
    return _C_TYPES[array.dtype.name]


def format_array(constant: ConstArray) -> str:
    """`static const float name[n] CANNERY_ALIGN(64) = {...};`, eight elements a line."""
    values = constant.values.reshape(-1)
    values = values.astype(np.uint8) if values.dtype.kind == "b" else values
    text = (
        [c_float(float(v)) for v in values] if values.dtype.kind == "f" else list(map(str, values))
    )
    lines = ["    " + ", ".join(text[k : k + 8]) for k in range(0, len(text), 8)]
    comment = f"/* {constant.comment} */\n" if constant.comment else ""
    head = f"static const {array_type(values)} {constant.name}[{max(len(text), 1)}]"
    body = ",\n".join(lines) or "    0"
    return f"{comment}{head} CANNERY_ALIGN({ALIGNMENT}) = {{\n{body}\n}};\n"


def split_constants(name: str, kernels: Sequence[Kernel]) -> tuple[list[Kernel], WeightBlob]:
    """Move large arrays of a large model into a blob; equal arrays are stored once."""
    total = sum(c.values.nbytes for k in kernels for c in k.constants)
    symbol = f"{name}_weights"
    if total < BLOB_FROM_BYTES:
        return list(kernels), WeightBlob(symbol, b"", ())
    chunks: list[bytes] = []
    known: dict[bytes, int] = {}
    offsets: list[tuple[str, str, int]] = []
    size = 0
    result = []
    for kernel in kernels:
        kept = []
        for constant in kernel.constants:
            if constant.values.nbytes < BLOB_ARRAY_BYTES:
                kept.append(constant)
                continue
            data = np.ascontiguousarray(constant.values).tobytes()
            if data not in known:
                known[data] = size
                data_padded = data + bytes(-len(data) % ALIGNMENT)
                chunks.append(data_padded)
                size += len(data_padded)
            offsets.append((constant.name, array_type(constant.values), known[data]))
        result.append(replace(kernel, constants=tuple(kept)))
    return result, WeightBlob(symbol, b"".join(chunks), tuple(offsets))
