"""The part of a processor's state that decides where loops end: integers and comparisons.

What is not known (read from memory, computed from floats) is absent; it spreads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

#: Where the stack begins, and how far below and above it stores are remembered.
STACK = 0x7000_0000
STACK_ROOM, ABOVE_STACK = 0x100_0000, 0x1000


class Test(Enum):
    """How two numbers are compared by a conditional instruction."""

    EQ = "=="
    NE = "!="
    LT = "<"
    GE = ">="
    LE = "<="
    GT = ">"

    def holds(self, difference: int) -> bool:
        """Whether it does, of the left number minus the right one."""
        return _HOLDS[self](difference)


_HOLDS: dict[Test, Callable[[int], bool]] = {
    Test.EQ: lambda d: d == 0, Test.NE: lambda d: d != 0, Test.LT: lambda d: d < 0,
    Test.GE: lambda d: d >= 0, Test.LE: lambda d: d <= 0, Test.GT: lambda d: d > 0,
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Two numbers, and the least and the largest that they can be."""

    left: int
    right: int
    least: int
    most: int


#: A test, and whether the numbers are taken without sign.
Condition = tuple[Test, bool]


@dataclass
class State:
    """Registers by name and stack slots by address; `compared` are the numbers of the flags.

    `constants` tells what a program's file has at an address, in so many bytes.
    """

    bits: int
    constants: Callable[[int, int], int | None] = field(default=lambda _address, _bytes: None)
    values: dict[str | int, int] = field(default_factory=dict)
    compared: tuple[int, int, int] | None = None

    def get(self, name: str, bits: int) -> int | None:
        """The low bits of a register, without sign."""
        value = self.values.get(name)
        return None if value is None else value & ((1 << bits) - 1)

    def put(self, name: str, value: int | None) -> None:
        """Set a whole register, or forget it."""
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value & ((1 << self.bits) - 1)

    def load(self, address: int | None, bits: int) -> int | None:
        """What was stored there, without sign."""
        if address is None:
            return None
        value = self.values.get(address)
        if value is None:
            value = self.constants(address, bits // 8)
        return None if value is None else value & ((1 << bits) - 1)

    def store(self, address: int | None, value: int | None) -> None:
        """Remember what goes to the stack. A store to no known place is one to no stack slot."""
        if address is None or not STACK - STACK_ROOM <= address < STACK + ABOVE_STACK:
            return
        if value is None:
            self.values.pop(address, None)
        else:
            self.values[address] = value

    def compare(self, left: int | None, right: int | None, bits: int) -> None:
        """Set the flags as a subtraction of numbers of so many bits does."""
        self.compared = None if left is None or right is None else (left, right, bits)

    def comparison(self, condition: Condition) -> Comparison | None:
        """What the test of a condition looks at; None if it is not known."""
        if self.compared is None:
            return None
        left, right, bits = self.compared
        if condition[1]:
            mask = (1 << bits) - 1
            return Comparison(left & mask, right & mask, 0, mask)
        half = 1 << (bits - 1)
        return Comparison(signed(left, bits), signed(right, bits), -half, half - 1)

    def holds(self, condition: Condition) -> bool | None:
        """Whether a condition holds; None if that is not known."""
        found = self.comparison(condition)
        return None if found is None else condition[0].holds(found.left - found.right)


#: What an instruction does to the state.
Action = Callable[[State], None]
#: Reads a number from the state; None if it is not known.
Reader = Callable[[State], "int | None"]
#: Writes one to where an operand says.
Writer = Callable[[State, "int | None"], None]


def signed(value: int, bits: int) -> int:
    """The number that these bits mean in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _shift(operate: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: operate(a, b & 63)


#: Operations on numbers with sign; the first is shifted by the second.
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "rsub": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "clear": lambda a, b: a & ~b,
    "left": _shift(lambda a, b: a << b),
    "right": _shift(lambda a, b: a >> b),
}


def combine(operation: str, left: int | None, right: int | None) -> int | None:
    """The result of a binary operation; unknown if an operand is."""
    return None if left is None or right is None else BINARY[operation](left, right)
