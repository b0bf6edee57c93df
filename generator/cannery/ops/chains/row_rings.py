"""The parts of a depth-first chain, and the rings of rows between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout, Want, image_dims, nhwc, plainest
from cannery.ops.chains.pulling import Stage, kept_rows, readers
from cannery.ops.chains.sliced import Sliced, sliced
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Estimate
from cannery.target.isa import Isa

#: Alignment of rings in scratch memory, in bytes.
_ALIGN = 64


@dataclass(frozen=True)
class Part:
    """A step of the chain and how its rows are computed, `calls` times; `wants` of its inputs."""

    sliced: Sliced
    choice: Choice
    cost: Estimate
    calls: int
    wants: tuple[Want, ...]
    writes: Want

    @property
    def output(self) -> str:
        """The value."""
        return self.sliced.step.output


@dataclass(frozen=True)
class RowRing:
    """Rows of a value, made by the stage of the same number; `at` is its place in scratch memory.

    Rows from -`top` on exist, those outside the image are zeros.
    """

    value: str
    layout: Layout
    height: int
    rows: int
    top: int
    bottom: int
    at: int

    @property
    def row_bytes(self) -> int:
        """Bytes from row to row."""
        return self.layout.row * self.layout.dtype.bytes

    @property
    def moved(self) -> float:
        """Bytes moved in a run, if each new row moves those that stay."""
        return float(self.height * self.row_bytes * max(self.layout.shape[0] - self.rows, 0))


@dataclass(frozen=True)
class Chain:
    """What a depth-first chain consists of.

    Its stages are the values that are `copied` from outside, row by row, then the parts.
    """

    graph: Graph
    step: Step
    parts: tuple[Part, ...]
    copied: tuple[str, ...]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The stage that makes each value."""
        made = (*self.copied, *(part.output for part in self.parts))
        return {value: number for number, value in enumerate(made)}

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """In order."""
        copies = (Stage(image_dims(self.graph.types[v])[1], 1, ()) for v in self.copied)
        return (*copies, *map(self._stage, self.parts))

    def _stage(self, part: Part) -> Stage:
        small = part.sliced
        pairs = zip(small.step.inputs, small.windows, strict=True)
        sources = tuple((self.numbers[v], w) for v, w in pairs if v in self.numbers)
        return Stage(self.graph.types[part.output].shape[1], small.rows, sources)

    def wants(self, value: str) -> list[Want]:
        """What the parts want of a value."""
        return [
            want
            for part in self.parts
            for v, want in zip(part.sliced.step.inputs, part.wants, strict=True)
            if v == value
        ]

    def outside(self, value: str) -> Want:
        """What the chain wants of an input."""
        if value in self.copied:
            return Want()
        wants = self.wants(value)
        return Want(slack=max(w.slack for w in wants), dense=any(w.dense for w in wants))

    @cached_property
    def rings(self) -> tuple[RowRing, ...]:
        """Those of all stages except the last."""
        found: list[RowRing] = []
        at, kept, reading = 0, kept_rows(self.stages), readers(self.stages)
        for value, number in list(self.numbers.items())[:-1]:
            type_, stage, wants = self.graph.types[value], self.stages[number], self.wants(value)
            columns = Halo()
            for want in wants:
                columns = columns.union(Halo(left=want.halo.left, right=want.halo.right))
            want = Want(nhwc.ORDER, columns, max(want.slack for want in wants))
            shape = (kept[number], *image_dims(type_)[2:])
            layout = plainest(shape, want, type_.dtype)
            tops = [window.top for _, window in reading[number]]
            bottoms = [window.bottom for _, window in reading[number]]
            found.append(
                RowRing(value, layout, stage.height, stage.rows, max(tops), max(bottoms), at)
            )
            at += -(-layout.bytes // _ALIGN) * _ALIGN
        return tuple(found)

    @property
    def bytes(self) -> int:
        """Of all rings."""
        last = self.rings[-1]
        return last.at + -(-last.layout.bytes // _ALIGN) * _ALIGN


def make_chain(graph: Graph, step: Step, rows: int, isa: Isa) -> Chain:
    """The chain of a step, whose parts can all work on `rows` rows at a time, or on one."""
    return graph.once(("depth_first", rows), (step, isa), lambda: _make(graph, step, rows, isa))


def _make(graph: Graph, step: Step, rows: int, isa: Isa) -> Chain:
    parts = tuple(_part(graph, part, rows, isa) for part in step.parts)
    copied = []
    for value in step.inputs:
        wants = [
            (want, window)
            for part in parts
            for v, want, window in zip(
                part.sliced.step.inputs, part.wants, part.sliced.windows, strict=True
            )
            if v == value
        ]
        padded = any(want.halo or window.top or window.bottom for want, window in wants)
        if padded or (value in graph.inputs and any(want.slack for want, _ in wants)):
            copied.append(value)
    return Chain(graph, step, parts, tuple(copied))


def _part(graph: Graph, step: Step, rows: int, isa: Isa) -> Part:
    height = graph.types[step.output].shape[1]
    small = sliced(graph, step, rows if height % rows == 0 else 1)
    best = small.best(isa)
    if best is None:
        small = sliced(graph, step, 1)
        best = small.best(isa)
    assert best is not None
    choice, cost = best
    wants = choice.schedule.reads(small.graph, small.step, choice.params, isa)
    (writes,) = choice.schedule.writes(small.graph, small.step, choice.params, isa)
    return Part(small, choice, cost, height // small.rows, wants, writes)
