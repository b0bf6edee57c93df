"""Choices that a network makes only when it runs: both results are computed, and one is taken.

Branches and bodies have no effects, so what is computed in vain changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.host import Host, NodePlace
from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.operators.values import Computed, Constant, Value

#: The version whose operators this module makes.
_VERSION = 13

#: The number of int64 in ONNX.
_INT64 = 7

#: The cure for what depends on an input.
FIXED = "if that depends on an input that does not change, fix it: --set INPUT=VALUE"


class Choices:
    """Makes the nodes of choices for a node; `prefix` is that of their names."""

    def __init__(self, host: Host, node: OnnxNode, place: NodePlace, prefix: str) -> None:
        self._host = host
        self._node = node
        self._place = place
        self._prefix = prefix
        self._count = 0

    def value(self, name: str) -> Value:
        """A tensor. Raises ModelError for an absent one."""
        found = self._host.value(name, self._place.where)
        if found is None:
            raise ModelError("a value of its body is missing")
        return found

    def _new(self, kind: str, inputs: Sequence[str], target: str = "", **attributes: object) -> str:
        self._count += 1
        name = target or f"{self._prefix}/#{kind.lower()}{self._count}"
        made = OnnxNode(kind, "", "", tuple(inputs), (name,), attributes, _VERSION)
        inner = replace(self._node, outputs=(name,))
        self._host.inline(inner, [made], self._place, [name])
        return name

    def flag(self, name: str) -> str:
        """A condition as a scalar. Raises ModelError unless it is one bool."""
        value = self.value(name)
        dtype = value.dtype.value if isinstance(value, Computed) else value.array.dtype.name
        if dtype != "bool" or any(d != 1 for d in value.shape):
            raise ModelError(f"its condition is {dtype}{list(value.shape)}, not one bool")
        return self._new("Squeeze", [name]) if value.shape else name

    def also(self, first: str, second: str) -> str:
        """Whether two conditions hold; the empty name always does."""
        return self._new("And", [first, second]) if first and second else first or second

    def either(self, first: str, second: str) -> str:
        """Whether one of two conditions holds."""
        return self._new("Or", [first, second])

    def negated(self, condition: str) -> str:
        """Whether a condition does not hold."""
        return self._new("Not", [condition])

    def is_before(self, turn: int, count: str) -> str:
        """Whether there is an iteration `turn`, if a tensor says how many there are."""
        value = self.value(count)
        if any(d != 1 for d in value.shape):
            raise ModelError(f"its number of iterations has the shape {list(value.shape)}")
        name = f"{self._prefix}/#turn{turn}"
        dtype = value.dtype.numpy if isinstance(value, Computed) else value.array.dtype
        self._host.define(name, Constant(np.asarray(turn, dtype), name))
        return self.flag(self._new("Less", [name, count]))

    def how_many(self, conditions: Sequence[str]) -> str:
        """How many conditions hold, as int64; the empty name always does."""
        name = f"{self._prefix}/#certain"
        certain = sum(not condition for condition in conditions)
        self._host.define(name, Constant(np.asarray(certain, np.int64), name))
        numbers = [self._new("Cast", [c], to=_INT64) for c in conditions if c]
        for number in numbers:
            name = self._new("Add", [name, number])
        return name

    def one_of(self, condition: str, first: str, second: str, target: str = "") -> str:
        """The first tensor if a condition holds, else the second.

        Raises UnsupportedError if they differ in shape or element type.
        """
        values = [self.value(name) for name in (first, second)]
        texts = [_type_of(value) for value in values]
        if texts[0] != texts[1]:
            raise UnsupportedError(
                f"what it computes is {texts[0]} or {texts[1]}, which is decided at run time",
                cure=FIXED,
            )
        return self._new("Where", [condition, first, second], target)


def _type_of(value: Value) -> str:
    """The element type and shape of a tensor, as text."""
    dtype = value.dtype.value if isinstance(value, Computed) else value.array.dtype.name
    return f"{dtype}{list(value.shape)}"
