"""Constant arrays: small ones as C text, large models' weights as one binary blob."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.contents import Content, ContentWriter, array_digest, array_pieces, pieces
from cannery.ctext.environment import c_comment
from cannery.ctext.literals import c_floats, c_integer
from cannery.schedule.ahead import IN_ORDER_BYTES
from cannery.schedule.schedule import ConstArray, Kernel

#: Models with more constant bytes than this keep their large arrays in a blob.
BLOB_FROM_BYTES = IN_ORDER_BYTES
#: Arrays below this stay C text even then.
BLOB_ARRAY_BYTES = 4096
ALIGNMENT = 64

_C_TYPES = {
    "float32": "float", "int32": "int32_t", "uint32": "uint32_t", "int16": "int16_t",
    "int8": "int8_t", "uint8": "uint8_t", "uint16": "uint16_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "uint16_t",
}  # fmt: skip


@dataclass(frozen=True)
class WeightBlob:
    """The bytes of `<name>_weights.bin`; of each array in them the name, type and offset."""

    symbol: str
    data: Content
    offsets: tuple[tuple[str, str, int], ...]

    def followed_by(self, arrays: Iterable[ConstArray]) -> WeightBlob:
        """The same bytes and those of more arrays; the offsets are of these alone."""
        writer = _BlobWriter()
        for piece in pieces(self.data):
            writer.data.write(piece)
        for array in arrays:
            writer.put(array)
        return writer.blob(self.symbol)


def array_type(array: NDArray[np.generic]) -> str:
    """The C type of an array's elements; bools are bytes, float16 the bits of it."""
    return _C_TYPES["uint8" if array.dtype.kind == "b" else array.dtype.name]


def format_array(constant: ConstArray) -> str:
    """`static const float name[n] CANNERY_ALIGN(64) = {...};`, eight elements a line."""
    values = constant.values.reshape(-1)
    values = values.astype(np.uint8) if values.dtype.kind == "b" else values
    values = values.view(np.uint16) if values.dtype == np.float16 else values
    floats = values.dtype.kind == "f"
    text = c_floats(values) if floats else list(map(c_integer, values.tolist()))
    lines = ["    " + ", ".join(text[k : k + 8]) for k in range(0, len(text), 8)]
    comment = f"/* {c_comment(constant.comment)} */\n" if constant.comment else ""
    head = f"static const {array_type(values)} {constant.name}[{max(len(text), 1)}]"
    body = ",\n".join(lines) or "    0"
    return f"{comment}{head} CANNERY_ALIGN({ALIGNMENT}) = {{\n{body}\n}};\n"


def split_constants(name: str, kernels: Iterable[Kernel]) -> tuple[list[Kernel], WeightBlob]:
    """Move large arrays of a large model into a blob; equal arrays are stored once.

    Once a model turns out to be large, a kernel's arrays are released before the next is made.
    """
    total = moved = 0
    kept: list[Kernel] = []
    blob = _BlobWriter()
    for kernel in kernels:
        kept.append(kernel)
        total += sum(c.values.nbytes for c in kernel.constants)
        if total >= BLOB_FROM_BYTES:
            kept[moved:] = [blob.take(each) for each in kept[moved:]]
            moved = len(kept)
    return kept, blob.blob(f"{name}_weights")


class _BlobWriter:
    """A blob that grows."""

    def __init__(self) -> None:
        self.data = ContentWriter()
        self.offsets: list[tuple[str, str, int]] = []
        self._known: dict[bytes, int] = {}

    def put(self, constant: ConstArray) -> None:
        """Add an array, aligned."""
        place = self._write(constant.values)
        self.offsets.append((constant.name, array_type(constant.values), place))

    def blob(self, symbol: str) -> WeightBlob:
        """What was written."""
        return WeightBlob(symbol, self.data.content(), tuple(self.offsets))

    def _write(self, values: NDArray[np.generic]) -> int:
        place = self.data.size
        for piece in array_pieces(values):
            self.data.write(piece)
        self.data.write(bytes(-values.nbytes % ALIGNMENT))
        return place

    def take(self, kernel: Kernel) -> Kernel:
        """The kernel without its large arrays."""
        for constant in filter(is_large, kernel.constants):
            digest = array_digest(constant.values)
            if digest not in self._known:
                self._known[digest] = self._write(constant.values)
            place = self._known[digest]
            self.offsets.append((constant.name, array_type(constant.values), place))
        kept = tuple(c for c in kernel.constants if not is_large(c))
        moved = kernel.constant_bytes - sum(int(c.values.nbytes) for c in kept)
        return replace(kernel, constants=kept, moved_bytes=moved)


def all_apart(name: str, kernels: Iterable[Kernel]) -> tuple[list[Kernel], WeightBlob]:
    """Move all arrays into a blob. Where they lie depends on their sizes only, not on numbers."""
    kept, blob = [], _BlobWriter()
    for kernel in kernels:
        for constant in kernel.constants:
            blob.put(constant)
        kept.append(replace(kernel, constants=(), moved_bytes=kernel.constant_bytes))
    return kept, blob.blob(f"{name}_weights")


def is_large(constant: ConstArray) -> bool:
    """Whether an array of a large model belongs in the blob."""
    return constant.values.nbytes >= BLOB_ARRAY_BYTES
