"""Weights of few levels, stored as codes of 4 or 2 bits each by microcontrollers.

A code is the index of a weight in a table of 16 or 4 levels (a palette, which holds 0 to fill up
with), or the weight itself in two's complement, if all weights of a layer fit that. Eight bits hold
two or four codes, the first in the lowest bits. Kernels decode them as they multiply; other
processors, whose memory is large, store the same weights as bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ops.quantized.matmul import BYTE, QuantizedProduct
from cannery.schedule.schedule import ConstArray
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Codes:
    """The weight of each code of `bits` bits. `plain`: the codes are weights in two's complement.

    `symbol` is that of the step whose code reads them.
    """

    bits: int
    levels: tuple[int, ...]
    plain: bool
    symbol: str = ""

    @classmethod
    def of(cls, w: NDArray[Any], bits: int, symbol: str = "") -> Codes:
        """Those of a layer's weights w; at most 2^bits of them differ, 0 included."""
        half = 2 ** (bits - 1)
        if -half <= w.min(initial=0) and w.max(initial=0) < half:
            return cls(bits, (*range(half), *range(-half, 0)), True, symbol)
        levels = np.union1d(w, [0]).tolist()
        if len(levels) > 2**bits:
            raise AssertionError(f"{len(levels)} levels of {bits} bits")
        return cls(bits, (*levels, *(0,) * (2**bits - len(levels))), False, symbol)

    @property
    def name(self) -> str:
        """The name of the table in C."""
        return f"{self.symbol}_levels"

    @property
    def per_byte(self) -> int:
        """Codes of a byte."""
        return BYTE // self.bits

    @property
    def mask(self) -> int:
        """The largest code."""
        return (1 << self.bits) - 1

    def encoded(self, w: NDArray[Any]) -> NDArray[np.uint8]:
        """The code of each weight."""
        code_of = np.zeros(256, np.uint8)
        for code, level in reversed(list(enumerate(self.levels))):
            code_of[level & 255] = code
        return np.asarray(code_of[w.astype(np.int64) & 255])

    def packed(self, w: NDArray[Any]) -> NDArray[np.uint8]:
        """Neighbouring weights in bytes; the last byte is filled with code 0."""
        codes = self.encoded(w).ravel()
        whole = np.pad(codes, (0, -codes.size % self.per_byte)).reshape(-1, self.per_byte)
        return self.joined(list(whole.T))

    def joined(self, parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Bytes of which each holds a code of each part, the first one's in the lowest bits."""
        found = np.zeros_like(parts[0])
        for k, part in enumerate(parts):
            found |= part << np.uint8(self.bits * k)
        return found

    def weight(self, pointer: str, index: int) -> str:
        """C expression of weight number `index` from `pointer` on, a const uint8_t *."""
        byte, k = f"{pointer}[{index // self.per_byte}]", index % self.per_byte
        if self.plain:
            return f"cannery_code{self.bits}({byte}, {self.bits * k})"
        shifted = f"{byte} >> {self.bits * k}" if k else byte
        return f"{self.name}[{shifted}{f' & {self.mask}' if k < self.per_byte - 1 else ''}]"

    @property
    def table(self) -> ConstArray:
        """The levels as an array."""
        return ConstArray(self.name, np.asarray(self.levels, np.int8), "weights by code")


def codes_of(graph: Graph, node: Node, isa: Isa, symbol: str = "") -> Codes | None:
    """The codes of a layer's weights on such a processor; None: they are stored as bytes."""
    op = node.op
    if not isinstance(op, QuantizedProduct) or op.weight_bits == BYTE:
        return None
    if graph.weights_vary or not isa.is_microcontroller:
        return None
    return Codes.of(graph.constants[node.inputs[1]], op.weight_bits, symbol)


def why_not_codes(graph: Graph, node: Node, isa: Isa) -> str:
    """Why a kernel that reads bytes does not fit a layer; empty if it does."""
    return "its weights are codes" if codes_of(graph, node, isa) else ""


def packed_weights(codes: Codes | None, weights: ConstArray) -> tuple[ConstArray, ...]:
    """What a kernel that decodes weights itself stores: the codes, and their table if it is read;
    without codes the weights.
    """
    if codes is None:
        return (weights,)
    what = f"codes of {codes.bits} bits: {weights.comment}"
    packed = ConstArray(weights.name, codes.packed(weights.values), what)
    return (packed,) if codes.plain else (packed, codes.table)


@dataclass(frozen=True)
class Decoded:
    """Weights that a kernel finds as bytes: a constant array, or one that it decodes in `scratch`
    when it begins, from byte `offset` on.

    `name` is what points to them, `before` the C line that makes it, `scratch_bytes` their memory.
    """

    name: str
    constants: tuple[ConstArray, ...]
    before: str = ""
    scratch_bytes: int = 0

    @classmethod
    def of(cls, codes: Codes | None, weights: ConstArray, offset: int = 0) -> Decoded:
        """Those in the order of `weights`."""
        if codes is None:
            return cls(weights.name, (weights,))
        packed, *_ = packed_weights(codes, weights)
        size = packed.values.size * codes.per_byte
        how = f"{weights.name}, {packed.values.size}, {codes.bits}, {codes.name}"
        to = f"(int8_t *)(void *)scratch{f' + {offset}' if offset else ''}"
        before = f"const int8_t *const decoded = cannery_decode({how}, {to});"
        return cls("decoded", (packed, codes.table), before, size)


def stored_bytes(graph: Graph) -> int:
    """The bytes of all constants, those of weights with codes as a microcontroller stores them."""
    sizes = {name: int(array.nbytes) for name, array in graph.constants.items()}
    for node in graph.nodes:
        op = node.op
        if isinstance(op, QuantizedProduct) and op.weight_bits < BYTE:
            name = node.inputs[1]
            codes = Codes.of(graph.constants[name], op.weight_bits)
            packed = -(-graph.constants[name].size // codes.per_byte)
            sizes[name] = packed + (0 if codes.plain else len(codes.levels))
    return sum(sizes.values())
