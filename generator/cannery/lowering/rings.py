"""States that are the past of a value: kept where they are, in a ring that is read in place.

A network for a call reads `window`, the rows of the past followed by those of the call, and returns
its last rows as the next past. In a ring the window moves instead. The memory has twice `back`
rows; a call whose window's new rows begin at `at + back` copies these to `at`, so that the rows
before any window are in order, and goes on `count` rows further, after `back` rows from 0.

Where a call brings more rows than the past has, the window stays, and its last rows are moved to
its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph, State
from cannery.layouts import Layout, image_dims
from cannery.ops.concat.past import PastWindow, past_window
from cannery.schedule.program import Program


@dataclass(frozen=True)
class Ring:
    """The past of the state `state`, of `reach` rows, each `pitch` elements after the last one.

    A call brings `count` rows. `window` is the root buffer of past and new rows; the steps `spared`
    only copy the past into it and out of it, by way of `values`, the state's included.
    """

    state: int
    window: str
    reach: int
    count: int
    pitch: int
    layout: Layout
    spared: frozenset[int]
    values: frozenset[str]

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
    def moves(self) -> bool:
        """Whether the window moves, rather than its rows."""
        return self.reach > self.count

    @property
    def back(self) -> int:
        """Rows that the window moves through before it begins anew."""
        return -(-self.reach // self.count) * self.count if self.moves else 0

    @property
    def first(self) -> int:
        """The row where the window begins at first."""
        return self.back - self.reach if self.moves else 0

    @property
    def bytes(self) -> int:
        """Memory of the ring: up to the end of the last window."""
        last = self.first + max(0, self.back - self.count)
        return (last * self.pitch + self.layout.elements) * self.layout.dtype.bytes


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
    images, h, w, _c = image_dims(graph.types[value])
    dense_before = all(size == 1 for size in shape[:axis])
    if layout.order != "nhwc" or images != 1 or not dense_before or axis == len(shape) - 1:
        return 0
    if layout.halo.top or layout.halo.bottom:
        return 0
    if h == shape[axis]:
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
