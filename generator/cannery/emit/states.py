"""The state of a network that runs step by step: the place of each part in the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.arrays import format_array
from cannery.emit.interface import Tensor
from cannery.ir.graph import Graph, State
from cannery.lowering.rings import Ring
from cannery.ops.random.op import NextDraw
from cannery.ops.recurrent.base import Recurrent, exceeds_cache
from cannery.schedule.schedule import ConstArray

#: Alignment in bytes of a state and its parts: that of the widest elements.
STATE_ALIGN = 8

#: Where rings begin in a state: if that is aligned as well, their rows cross no lines of caches.
RING_ALIGN = 64

#: Large rings move by pages, so rows that are read together would share a set of the cache: after
#: each one some cache lines are left out, a number that runs through all sets.
_PAGE, _APART = 4096, 7 * 64

_NEXT_ALIGN = 64


@dataclass(frozen=True)
class Slot:
    """An input that the next step takes from an output, and its place; `initial`: a C array.

    `next` is where in the workspace a step writes the next one; a `ring` has none. Its position,
    the elements that its window has moved, lies at `at`. It changes once in `period` calls.
    `is_noise`: it is the generator of random numbers.
    """

    input: Tensor
    output: Tensor
    offset: int
    initial: str
    initial_text: str
    constant: ConstArray | None = None
    next: int = 0
    ring: Ring | None = None
    at: int = 0
    period: int = 1
    is_noise: bool = False

    @property
    def bytes(self) -> int:
        """Memory within the state."""
        return self.ring.bytes if self.ring else self.input.type.bytes

    @property
    def window_at(self) -> int:
        """Where the window of a ring that has not moved begins."""
        assert self.ring is not None
        return self.offset + self.ring.first * self.ring.pitch_bytes

    @property
    def begins(self) -> int:
        """Where the initial values lie."""
        if self.ring is None:
            return self.offset
        return self.window_at + self.ring.layout.origin * self.input.type.dtype.bytes


@dataclass(frozen=True)
class States:
    """All of them, in the order of the last inputs. A step writes the next ones into the workspace,
    after the `before` bytes of the network, because outputs must not overlap inputs. Not all calls
    are alike if `round` is more than 1: then so many are, and their number lies at `counter`. With
    `turns`, calls read weights in alternating order, and which one is next lies at `turn_at`.
    """

    slots: tuple[Slot, ...] = ()
    round: int = 1
    counter: int = 0
    turns: bool = False
    turn_at: int = 0

    @property
    def rings(self) -> tuple[Slot, ...]:
        """Those that are kept in place."""
        return tuple(slot for slot in self.slots if slot.ring)

    @property
    def plain(self) -> tuple[Slot, ...]:
        """Those that each step replaces."""
        return tuple(slot for slot in self.slots if not slot.ring)

    @property
    def noise(self) -> Slot | None:
        """The generator of random numbers, if there is one."""
        return next((slot for slot in self.slots if slot.is_noise), None)

    @property
    def bytes(self) -> int:
        """Bytes that the caller keeps from step to step; copying them saves a state."""
        if self.turns:
            return _up(self.turn_at + 4, STATE_ALIGN)
        return _up(max((s.offset + s.bytes for s in self.slots), default=0), STATE_ALIGN)

    @property
    def kept(self) -> frozenset[str]:
        """The values that a step with rings neither reads nor returns."""
        return frozenset().union(*(slot.ring.values for slot in self.slots if slot.ring))

    def window(self, root: str) -> Slot | None:
        """The ring whose window is this root buffer."""
        return next((s for s in self.rings if s.ring and s.ring.window == root), None)

    @property
    def spared(self) -> frozenset[int]:
        """The steps of the network that a step with rings does without."""
        return frozenset().union(*(slot.ring.spared for slot in self.slots if slot.ring))

    def next_at(self, before: int) -> int:
        """Offset of the next states in a workspace of which the network uses `before` bytes."""
        return _up(before, _NEXT_ALIGN)

    def workspace_bytes(self, before: int) -> int:
        """Size of such a workspace."""
        if not self.slots:
            return before
        return self.next_at(before) + _up(sum(_up(s.bytes, 8) for s in self.plain), _NEXT_ALIGN)


def _up(size: int, align: int) -> int:
    return -(-size // align) * align


def _is_noise(graph: Graph, state: State) -> bool:
    """Whether a state is the generator of random numbers."""
    producer = graph.producer(state.output)
    return producer is not None and isinstance(producer.op, NextDraw)


def counts_calls(graph: Graph) -> bool:
    """Whether calls of a network are not all alike."""
    return graph.calls is not None and graph.calls.round > 1


def make_states(
    graph: Graph, inputs: Sequence[Tensor], outputs: Sequence[Tensor], rings: Sequence[Ring] = (),
    *, counted: bool = False,
) -> States:  # fmt: skip
    """The states of a graph one after the other; before them the positions of rings that move, and
    the number of the call where these are `counted`, or not all alike.
    """
    by_state = {ring.state: ring for ring in rings}
    moving = [ring for ring in rings if ring.moves]
    positions = {ring.state: 4 * k for k, ring in enumerate(moving)}
    periods, round_ = (graph.calls.periods, graph.calls.round) if graph.calls else ({}, 1)
    counter = 4 * len(moving)
    found, at, next_ = [], _up(counter + (4 if counted or round_ > 1 else 0), STATE_ALIGN), 0
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
        ring = by_state.get(k)
        at = _up(at, RING_ALIGN if ring else STATE_ALIGN)
        slot = Slot(
            input_, output, at, name, text, constant, next_, ring, positions.get(k, 0),
            periods.get(state.output, 1), _is_noise(graph, state),
        )  # fmt: skip
        found.append(slot)
        at += slot.bytes + (_APART if ring and ring.bytes >= _PAGE else 0)
        next_ += 0 if ring else _up(slot.bytes, STATE_ALIGN)
    return States(tuple(found), round_, counter, _turns(graph), _up(at, STATE_ALIGN))


def _turns(graph: Graph) -> bool:
    """Whether weights may be read in alternating order; the same with all instruction sets and for
    blocks of all sizes, which share states.
    """
    ops = (node.op for node in graph.nodes if graph.states)
    return any(isinstance(op, Recurrent) and exceeds_cache(op) for op in ops)
