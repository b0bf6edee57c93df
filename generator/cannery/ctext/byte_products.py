"""Products of four bytes as the instructions that they are on AArch64, for orders of them.

Without SDOT, `i32x4_dot4_lane<k>(u, w, acc)` multiplies the first two of each four weights by bytes
4k and 4k + 1 of `u`, adds the products with the other two in int16, and adds pairs of these to the
sums (smull, smlal2, sadalp). Products that share `u` and `k` share the vectors that repeat its
bytes (dup). `dot4w` adds both halves of the products apart, as their sums may exceed int16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cannery.ctext.statements import BYTES, INTEGERS, Operation

#: The type of vectors of eight sums of products.
SHORTS = "p16x4"

_PRODUCT = re.compile(r"(dot4w?)_lane(\d)")


def split_products(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, with the instructions of products of bytes in place of these."""
    splitter = _Splitter()
    return [made for operation in operations for made in splitter.parts(operation)]


@dataclass
class _Splitter:
    """The vectors of repeated bytes that there are, by the word that makes them and its operand."""

    repeated: dict[tuple[str, str], str] = field(default_factory=dict)

    def parts(self, operation: Operation) -> Iterator[Operation]:
        """The instructions of one operation."""
        found = _PRODUCT.fullmatch(operation.word)
        if not found:
            yield operation
            return
        inputs, weights, sums = operation.uses
        factors = []
        for word in ("first_two", "second_two"):
            key = (f"{word}{found[2]}", inputs)
            if key not in self.repeated:
                self.repeated[key] = f"{inputs}_{word}{found[2]}"
                yield Operation(key[0], (inputs,), self.repeated[key], type=BYTES)
            factors.append(self.repeated[key])
        name = operation.name
        low, high = (f"{name}_{half}" for half in ("low", "both"))
        yield Operation("mul_low", (factors[0], weights), low, type=SHORTS)
        if found[1] == "dot4":
            yield Operation("mla_high", (factors[1], weights, low), high, type=SHORTS)
        else:
            yield Operation("mul_high", (factors[1], weights), high, type=SHORTS)
            yield Operation("add_pairs", (low, sums), f"{name}_first", type=INTEGERS)
            sums = f"{name}_first"
        yield Operation("add_pairs", (high, sums), name, type=INTEGERS)
