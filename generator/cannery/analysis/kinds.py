"""What an instruction is, in terms that apply to every processor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The main purpose of an instruction; `MOVE` is a copy between vector registers.

    Reading memory as an operand of arithmetic does not make a LOAD; a broadcast of memory is one.
    ADD covers subtraction, minimum and maximum. OTHER is the rest: integers, addresses, logic.
    """

    MULTIPLY = "multiplies"
    ADD = "adds"
    LOAD = "loads"
    STORE = "stores"
    SHUFFLE = "shuffles"
    MOVE = "moves"
    BRANCH = "branches"
    OTHER = "other"


class Branch(Enum):
    """Where control goes: on, on after a call, maybe or always to the target, or somewhere
    unknown.
    """

    NONE = "none"
    CALL = "call"
    MAYBE = "maybe"
    ALWAYS = "always"
    AWAY = "away"


@dataclass(frozen=True)
class Effect:
    """An instruction in numbers.

    `loads` and `stores` count the registers moved between memory and processor: two for a pair, one
    for an operand in memory, one half for a d register of Arm v7. `base` is the register that holds
    the address ("" : none); `on_vectors`: vector registers take part; `lanes`: how many elements
    are computed at once. `writes` are the registers changed; the first of them becomes the register
    `copies`, perhaps plus a constant.
    """

    kind: Kind
    loads: float = 0
    stores: float = 0
    base: str = ""
    on_vectors: bool = False
    lanes: int = 1
    writes: tuple[str, ...] = ()
    copies: str = ""
