"""The state of a network that runs step by step: the place of each part in the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.arrays import format_array
from cannery.emit.interface import Tensor
from cannery.ir.graph import Graph
from cannery.schedule.schedule import ConstArray

#: Alignment in bytes of a state and its parts: that of the widest elements.
STATE_ALIGN = 8

_NEXT_ALIGN = 64


@dataclass(frozen=True)
class Slot:
    """An input that the next step takes from an output, and its place; `initial`: a C array."""

    input: Tensor
    output: Tensor
    offset: int
    initial: str
    initial_text: str
    constant: ConstArray | None = None


@dataclass(frozen=True)
class States:
    """All of them, in the order of the last inputs. A step writes the next ones into the workspace,
    after the `before` bytes of the network, because outputs must not overlap inputs.
    """

    slots: tuple[Slot, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that the caller keeps from step to step; copying them saves a state."""
        last = max(self.slots, key=lambda slot: slot.offset, default=None)
        return _up(last.offset + last.input.type.bytes, STATE_ALIGN) if last else 0

    def next_at(self, before: int) -> int:
        """Offset of the next states in a workspace of which the network uses `before` bytes."""
        return _up(before, _NEXT_ALIGN)

    def workspace_bytes(self, before: int) -> int:
        """Size of such a workspace."""
        return self.next_at(before) + _up(self.bytes, _NEXT_ALIGN) if self.slots else before


def _up(size: int, align: int) -> int:
    return -(-size // align) * align


def make_states(graph: Graph, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> States:
    """The states of a graph, one after the other."""
    found, at = [], 0
    count = len(graph.states)
    pairs = zip(graph.states, inputs[len(inputs) - count :], outputs[len(outputs) - count :],
                strict=True)  # fmt: skip
    for k, (state, input_, output) in enumerate(pairs):
        name, text, constant = "", "", None
        if state.initial:
            name = f"initial_{k}"
            values = np.array(state.initial, input_.type.dtype.numpy)
            constant = ConstArray(name, values, f"{input_.name} after a reset")
            text = "" if graph.weights_vary else format_array(constant)
        found.append(Slot(input_, output, at, name, text, constant))
        at = _up(at + input_.type.bytes, STATE_ALIGN)
    return States(tuple(found))
