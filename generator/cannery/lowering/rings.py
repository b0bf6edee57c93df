"""States that are the past of a value: kept where they are, in a ring that is read in place.

A network for a call reads `window`, the rows of the past followed by those of the call, and returns
its last rows as the next past. In a ring the window moves instead. The memory has twice `back`
rows; a call whose window's new rows begin at `at + back` copies these to `at`, so that the rows
before any window are in order, and goes on `count` rows further, after `back` rows from 0.

A call that brings at least as many rows as the past has moves its window's last rows to where the
first window was, and the next window is there.

Programs for calls of several sizes share a ring, as do programs for several instruction sets: those
that agree on what a row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from cannery.ir.graph import Graph, State
from cannery.layouts import Layout, image_dims
from cannery.ops.concat.past import PastWindow, past_window
from cannery.schedule.program import Program


@dataclass(frozen=True)
class Ring:
    """The past of the state `state`, of `reach` rows, each `pitch` elements after the last one.

    A call brings `count` rows; calls of programs that share the ring bring as many as `counts`
    lists. `window` is the root buffer of past and new rows; the steps `spared` only copy the past
    into it and out of it, by way of `values`, the state's included. `room` is the elements of the
    largest window, what a kernel may read after it included.
    """

    state: int
    window: str
    reach: int
    count: int
    pitch: int
    layout: Layout
    spared: frozenset[int]
    values: frozenset[str]
    counts: tuple[int, ...] = ()
    room: int = 0

    @property
    def pitch_bytes(self) -> int:
        return self.pitch * self.layout.dtype.bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row without what lies between rows."""
        h, w, c = self.layout.shape
        return (w * c if h > 1 else c) * self.layout.dtype.bytes

    @property
    def gaps(self) -> bool:
        """Whether something lies between rows."""
        return self.row_bytes != self.pitch_bytes

    @property
    def _moving(self) -> list[int]:
        """The rows of calls after which the window moves."""
        return [count for count in self.counts or (self.count,) if count < self.reach]

    @property
    def moves(self) -> bool:
        """Whether the window moves, after this program's calls or others."""
        return bool(self._moving)

    @property
    def alone(self) -> bool:
        """Whether all calls that move the window are of the same size."""
        return len(self._moving) == 1

    @property
    def begins_anew(self) -> bool:
        """Whether after a call of this program the window is where it was at first."""
        return self.count >= self.reach

    @property
    def back(self) -> int:
        """Rows that the window moves through before it begins anew.

        A call that crosses their end leaves the next window up to max(moving) - grain rows after
        the beginning. The rows before these were copied in the round before: not needed again.
        """
        if not self.moves:
            return 0
        grain = gcd(*self._moving)
        return -(-(self.reach + max(self._moving) - grain) // grain) * grain

    @property
    def first(self) -> int:
        """The row where the window begins at first."""
        return self.back - self.reach if self.moves else 0

    @property
    def bytes(self) -> int:
        """Memory of the ring: up to the end of the last window."""
        last = self.first + (self.back - gcd(*self._moving) if self.moves else 0)
        elements = last * self.pitch + max(self.room, self.layout.elements)
        return elements * self.layout.dtype.bytes

    @property
    def alike(self) -> tuple[object, ...]:
        """What programs must agree on to share the ring."""
        h, w, _ = self.layout.shape
        across = (w, self.layout.col, self.layout.halo) if h > 1 else (self.layout.halo,)
        return (self.reach, self.pitch, self.row_bytes, self.layout.origin, self.layout.dtype,
                across)  # fmt: skip


def share_rings(programs: Sequence[Program]) -> list[tuple[Ring, ...]]:
    """For each program the states that can be rings in all of them, in the order of the states.

    The states of all programs are the same ones, in the same order.
    """
    found = [{ring.state: ring for ring in find_rings(program)} for program in programs]
    shared = [k for k in found[0] if _agree(rings.get(k) for rings in found)]
    result = []
    for rings in found:
        result.append(tuple(_shared(rings[k], [others[k] for others in found]) for k in shared))
    return result


def _agree(rings: Iterable[Ring | None]) -> bool:
    known = {ring.alike if ring else None for ring in rings}
    return None not in known and len(known) == 1


def _shared(ring: Ring, others: Sequence[Ring]) -> Ring:
    counts = tuple(sorted({other.count for other in others}))
    return replace(ring, counts=counts, room=max(other.layout.elements for other in others))


def find_rings(program: Program) -> tuple[Ring, ...]:
    """The states that can be rings, in the order of the states."""
    found = (_ring(program, k, state) for k, state in enumerate(program.graph.states))
    return tuple(ring for ring in found if ring)


def _ring(program: Program, number: int, state: State) -> Ring | None:
    graph = program.graph
    past = past_window(graph, state)
    buffer = program.buffers.get(past.value) if past else None
    if past is None or buffer is None or buffer.root != past.value or buffer.storage != "arena":
        return None
    pitch = _pitch(graph, past.value, past.axis, buffer.layout)
    spared = _spared(program, past)
    if not pitch or spared is None:
        return None
    new = buffer.layout.origin + past.reach * pitch
    for k, step in enumerate(program.steps):
        for name in step.writes:
            written = program.buffers[name]
            if written.root == past.value and k not in spared and written.layout.origin < new:
                return None  # the window is computed anew, or its memory is taken over
    values = past.before | past.after
    return Ring(number, past.value, past.reach, past.count, pitch, buffer.layout, spared, values)


def _pitch(graph: Graph, value: str, axis: int, layout: Layout) -> int:
    """From one row of a window to the next, if rows lie one after the other; else 0."""
    shape = graph.types[value].shape
    images, h, w, c = image_dims(graph.types[value])
    dense_before = all(size == 1 for size in shape[:axis])
    if layout.order != "nhwc" or images != 1 or not dense_before or axis == len(shape) - 1:
        return 0
    if layout.halo.top or layout.halo.bottom:
        return 0
    if h == shape[axis] and (layout.col == c or w == 1):
        return layout.row
    if h == 1 and w == shape[axis] and not (layout.halo.left or layout.halo.right):
        return layout.col
    return 0


def _spared(program: Program, past: PastWindow) -> frozenset[int] | None:
    """The steps that copy the past into the window and the next past out of it, if no more."""
    buffers, found = program.buffers, set()
    for k, step in enumerate(program.steps):
        reads = {buffers[name].value for name in step.reads}
        writes = {buffers[name].value for name in step.writes}
        if reads & past.before or writes & past.before:
            if not (reads | writes) <= past.before:
                return None
            found.add(k)
        elif writes & past.after:
            if not writes <= past.after or not reads <= {past.value, *past.after}:
                return None
            found.add(k)
    return frozenset(found)
