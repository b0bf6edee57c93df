"""Several elementwise operators on one value, as one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.words import Words
from cannery.ir.numeric import Numeric, f32, f64
from cannery.ir.registry import Elementwise, register
from cannery.ops.checks import require
from cannery.ops.elementwise.base import Binary, Unary


@dataclass(frozen=True)
class Member:
    """An operator and its operands: 0 is x, k is the k-th member before it, -k is the k-th
    number.
    """

    op: Elementwise
    reads: tuple[int, ...]


@register
@dataclass(frozen=True)
class Composite(Unary):
    """x -> the last of `members`, where x and results are read any number of times.

    x * sigmoid(1.5 * x) has the number 1.5 and the members Mul of (-1, 0), Sigmoid of (1,), and Mul
    of (0, 2).
    """

    members: tuple[Member, ...]
    numbers: tuple[float, ...] = ()

    needs_math: ClassVar[bool] = True

    def check_attributes(self) -> None:
        """Raises ModelError if a member reads one that does not exist yet, or is not
        elementwise.
        """
        require(bool(self.members), self, "needs members")
        self.require_finite(**{f"number {k}": number for k, number in enumerate(self.numbers)})
        for k, member in enumerate(self.members):
            fits = isinstance(member.op, Unary | Binary) and len(member.reads) == arity(member.op)
            require(fits, self, f"member {k} is not elementwise, or reads too much or too little")
            there = all(-len(self.numbers) <= r <= k for r in member.reads)
            require(there, self, f"member {k} reads a missing value")

    def value(self, x: Numeric) -> Numeric:
        """Term by member."""
        numbers = [np.asarray(f32(number)) for number in self.numbers]
        values: list[Numeric] = [f64(x)]
        for member in self.members:
            assert isinstance(member.op, Unary | Binary)
            reads = [values[r] if r >= 0 else numbers[-r - 1] for r in member.reads]
            values.append(member.op.value(*reads))
        return values[-1]

    def expression(self, w: Words, x: str, form: str) -> str:
        """The members nested in each other: compilers compute repeated expressions once."""
        numbers = [w.vector(number) for number in self.numbers]
        texts = [x]
        for member in self.members:
            reads = [texts[r] if r >= 0 else numbers[-r - 1] for r in member.reads]
            texts.append(member.op.c(w.vec, *reads))
        return texts[-1]


def arity(op: Elementwise) -> int:
    """How many inputs an operator has."""
    return 2 if isinstance(op, Binary) else 1
