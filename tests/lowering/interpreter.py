"""Runs a Program on labels instead of numbers: which element of which value lies in each byte.

Nothing is computed and no C is made. Every step reads its inputs where its layouts say, which must
hold just these elements, and zeros in the halo that its schedule asks for; then it writes its
outputs over whatever lies there. What it does to memory is what `Want` and `Schedule` promise:

- scratch memory, and what a schedule may overwrite around an output, is garbage afterwards;
- outputs may be written before the last input is read, except where an input lies at the same
  addresses and the schedule says that it works in place;
- nothing is touched outside the memory of a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout, Want, image_dims, planar
from cannery.lowering.assign import interface_order
from cannery.lowering.lifetimes import Workspace, buffer_bytes
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.movement.view import MovementView
from cannery.schedule.program import VIEW, Buffer, PlannedStep, Program
from cannery.target.isa import Isa

Labels = NDArray[np.int64]

#: What a byte holds that belongs to no element.
ZERO, GARBAGE = 0, -1

#: A label is value, sample, element and byte, in this many bits (the last three).
_SAMPLE, _ELEMENT, _BYTE = 8, 32, 4

#: Bytes between regions of the caller's memory, where nothing may be read or written.
GAP = 256


class FaultError(AssertionError):
    """A step reads something else than it should, or works where it must not."""


@lru_cache(maxsize=4096)
def _indices(layout: Layout, images: int, halo: Halo) -> Labels:
    """Index (n, y, x, c) -> element of the buffer's memory, `halo` included."""
    h, w, c = layout.shape
    y = np.arange(-halo.top, h + halo.bottom)[:, None, None]
    x = np.arange(-halo.left, w + halo.right)[None, :, None]
    # layout.at is arithmetic alone, so it takes whole arrays.
    one = layout.at(y, x, np.arange(c)[None, None, :])  # type: ignore[arg-type]
    n = np.arange(images)[:, None, None, None] * layout.elements
    return np.asarray(one + n, np.int64)


@lru_cache(maxsize=4096)
def _border(layout: Layout, images: int, halo: Halo) -> Labels:
    """Elements of the buffer's memory that are in the halo, not in the image."""
    inside = np.zeros(_indices(layout, images, halo).shape, bool)
    h, w, _ = layout.shape
    inside[:, halo.top : halo.top + h, halo.left : halo.left + w] = True
    return _indices(layout, images, halo)[~inside]


@dataclass(frozen=True)
class Contents:
    """What values consist of: reshapes, slices, concatenations hold elements of other values."""

    graph: Graph
    numbers: Mapping[str, int]
    known: dict[tuple[str, int], Labels] = field(default_factory=dict)

    def of(self, value: str, sample: int) -> Labels:
        """The labels (of byte 0) of all elements, as an image (n, h, w, c)."""
        if (value, sample) not in self.known:
            self.known[value, sample] = self._make(value, sample)
        return self.known[value, sample]

    def _make(self, value: str, sample: int) -> Labels:
        dims = image_dims(self.graph.types[value])
        node = self.graph.producer(value)
        if node is not None and isinstance(node.op, Reshape):
            return self.of(node.inputs[0], sample).reshape(dims)
        if node is not None and isinstance(node.op, Concat):
            types = [self.graph.types[v].shape for v in node.inputs]
            parts = [
                self.of(v, sample).reshape(shape)
                for v, shape in zip(node.inputs, types, strict=True)
            ]
            return np.concatenate(parts, node.op.axis).reshape(dims)
        if node is not None and isinstance(node.op, Slice):
            whole = self.of(node.inputs[0], sample).reshape(self.graph.types[node.inputs[0]].shape)
            bounds = zip(node.op.starts, node.op.ends, node.op.steps, strict=True)
            taken = whole[tuple(slice(a, None if b < 0 else b, n) for a, b, n in bounds)]
            return taken.reshape(dims)
        first = ((self.numbers[value] << _SAMPLE) + sample) << (_ELEMENT + _BYTE)
        return first + (np.arange(prod(dims), dtype=np.int64).reshape(dims) << _BYTE)

    def describe(self, label: int) -> str:
        """What a label says, for people."""
        if label in (ZERO, GARBAGE):
            return "a zero" if label == ZERO else "garbage"
        number = label >> (_SAMPLE + _ELEMENT + _BYTE)
        name = next(v for v, k in self.numbers.items() if k == number)
        element = label >> _BYTE & (1 << _ELEMENT) - 1
        sample = label >> (_ELEMENT + _BYTE) & (1 << _SAMPLE) - 1
        return f"byte {label & 15} of element {element} of {name!r} of run {sample}"


def make_contents(graph: Graph) -> Contents:
    """The contents of all values of a graph; equal ones are one."""
    return Contents(graph, {value: k + 1 for k, value in enumerate(graph.types)})


@dataclass
class Machine:
    """Memory and what lies in it: `cells` has a label per byte.

    `places` are the addresses of the roots, those of the network's ports included; `scratch`
    (address, bytes) by step.
    """

    program: Program
    isa: Isa
    places: Mapping[str, int]
    scratch: Mapping[int, tuple[int, int]]
    cells: Labels
    contents: Contents

    def run(self, clears: Mapping[int, Sequence[str]], sample: int) -> None:
        """All steps in order for one sample, from what `inputs` left to `outputs`."""
        self.inputs(sample)
        for index in range(len(self.program.steps)):
            for root in clears.get(index, ()):
                self.clear(root)
            self.step(index, [(sample, self.places)])
        self.outputs(sample)

    def inputs(self, sample: int) -> None:
        """Put a sample's inputs where the caller has them, outputs are garbage."""
        for root, order in self._ports():
            buffer = self.program.buffers[root]
            start = self.places[root]
            self.cells[start : start + buffer_bytes(self.program, root)] = GARBAGE
            if buffer.storage in ("input", VIEW):
                labels = _as_in_memory(self.contents.of(buffer.value, sample), order)
                self._fill(start, labels.reshape(-1), buffer)

    def outputs(self, sample: int) -> None:
        """Raise FaultError unless outputs, and inputs still, lie in the caller's memory."""
        there = {b.storage for b in self.program.buffers.values()}
        for number, value in enumerate(self.program.graph.outputs):
            if f"output{number}" not in there:
                raise FaultError(f"output {value!r} is written nowhere")
        for root, order in self._ports():
            value = self._port_value(root)
            labels = _as_in_memory(self.contents.of(value, sample), order).reshape(-1)
            cells = self._bytes(root, self.program.buffers[root], np.arange(labels.size))
            self._expect(cells, labels, f"after the run, {value!r}")

    def _ports(self) -> Iterator[tuple[str, str]]:
        """Roots in the caller's memory, and the order in which the caller has them."""
        program = self.program
        for root in port_roots(program):
            yield root, interface_order(program.graph, self._port_value(root), program.io_order)

    def _port_value(self, root: str) -> str:
        """The input or output of the network that a root in the caller's memory is."""
        buffer = self.program.buffers[root]
        if buffer.storage in ("input", VIEW):
            return buffer.value
        return self.program.graph.outputs[int(buffer.storage.removeprefix("output"))]

    def clear(self, root: str, places: Mapping[str, int] | None = None) -> None:
        """Zero everything of a root except its pixels."""
        buffer = self.program.buffers[root]
        images = image_dims(buffer.type)[0]
        gaps = np.ones(images * buffer.layout.elements, bool)
        gaps[_indices(buffer.layout, images, Halo()).reshape(-1)] = False
        self.cells[self._bytes(root, buffer, np.flatnonzero(gaps), places)] = ZERO

    def step(self, index: int, runs: Sequence[tuple[int, Mapping[str, int]]]) -> None:
        """One step for each (sample, addresses of roots) of `runs`, in one call."""
        planned = self.program.steps[index]
        self._smear(index)
        later = []
        for sample, places in runs:
            for number in range(len(planned.reads)):
                if self._in_place(planned, number, places):
                    self._read(planned, number, sample, places)
                else:
                    later.append((number, sample, places))
        for _, places in runs:
            for name in planned.writes:
                buffer = self.program.buffers[name]
                self.cells[self._image(buffer, places)] = GARBAGE
        for number, sample, places in later:
            self._read(planned, number, sample, places)
        for sample, places in runs:
            self._write(planned, sample, places)
        self._smear(index)

    def _smear(self, index: int) -> None:
        at, size = self.scratch.get(index, (0, 0))
        self.cells[at : at + size] = GARBAGE

    def _in_place(self, planned: PlannedStep, number: int, places: Mapping[str, int]) -> bool:
        """Whether a step may overwrite this input element by element as it reads it."""
        if number > 0 or not planned.choice.schedule.in_place(planned.step):
            return False
        source, target = (
            self.program.buffers[n] for n in (planned.reads[number], planned.writes[0])
        )
        if source.layout.shape != target.layout.shape:
            return False
        return np.array_equal(self._image(source, places), self._image(target, places))

    def _read(
        self, planned: PlannedStep, number: int, sample: int, places: Mapping[str, int]
    ) -> None:
        """Check an input: its place, its elements, its halo and its slack."""
        buffer = self.program.buffers[planned.reads[number]]
        want = planned.choice.schedule.reads(
            self.program.graph, planned.step, planned.choice.params, self.isa
        )[number]
        what = f"{planned.step.name!r} ({planned.choice}) reads {planned.step.inputs[number]!r}"
        if isinstance(planned.choice.schedule, MovementView) != (buffer.storage == VIEW):
            raise FaultError(f"{what} from a view, or as one, which it is not")
        labels = self.contents.of(planned.step.inputs[number], sample)
        self._check_form(buffer, want, labels, what)
        self._expect(self._image(buffer, places), labels.reshape(-1), what)
        images = labels.shape[0]
        halo = self._bytes(buffer.name, buffer, _border(buffer.layout, images, want.halo), places)
        if not np.all(self.cells[halo] == ZERO):
            found = self.contents.describe(int(self.cells[halo][self.cells[halo] != ZERO][0]))
            raise FaultError(f"{what}: its halo holds {found}")
        if want.slack:
            end = _indices(buffer.layout, images, want.halo).max() + want.slack
            self._bytes(buffer.name, buffer, np.array([end]), places)

    def _check_form(self, buffer: Buffer, want: Want, labels: Labels, what: str) -> None:
        if buffer.layout.order != want.order:
            raise FaultError(f"{what} as {want.order}, which is {buffer.layout.order}")
        if labels.shape[1:] != buffer.layout.shape:
            raise FaultError(f"{what} of shape {labels.shape[1:]} as {buffer.layout.shape}")
        flat = _indices(buffer.layout, labels.shape[0], Halo()).reshape(-1)
        if want.dense and not np.array_equal(flat, np.arange(flat.size)):
            raise FaultError(f"{what} as dense, which has gaps")

    def _write(self, planned: PlannedStep, sample: int, places: Mapping[str, int]) -> None:
        """Write the outputs, and garbage where the schedule may overwrite what is around them."""
        wants = planned.choice.schedule.writes(
            self.program.graph, planned.step, planned.choice.params, self.isa
        )
        for value, name, want in zip(planned.step.outputs, planned.writes, wants, strict=True):
            buffer = self.program.buffers[name]
            root = self.program.buffers[buffer.root]
            what = f"{planned.step.name!r} ({planned.choice}) writes {value!r}"
            if root.storage in ("input", VIEW):
                raise FaultError(f"{what} into the caller's input")
            labels = self.contents.of(value, sample)
            self._check_form(buffer, want, labels, what)
            self._overwrite_around(buffer, want, labels.shape[0], places)
            self._fill_cells(self._image(buffer, places), labels.reshape(-1), buffer)

    def _overwrite_around(
        self, buffer: Buffer, want: Want, images: int, places: Mapping[str, int]
    ) -> None:
        """Zeros in the halo stay zeros; cells outside the halo become garbage."""
        layout = buffer.layout
        halo = want.halo
        if want.shared_pitch:
            halo = halo.union(Halo(left=layout.halo.left, right=layout.halo.right))
        cells = self._bytes(buffer.name, buffer, _border(layout, images, halo), places)
        self.cells[cells] = np.where(self.cells[cells] == ZERO, ZERO, GARBAGE)
        if want.slack:
            inner = _indices(layout, images, Halo())
            axes = (1, 2) if layout.order == planar.ORDER else (1, 2, 3)
            ends = inner.max(axis=axes).reshape(-1)
            slack = (ends[:, None] + np.arange(1, want.slack + 1)).reshape(-1)
            self.cells[self._bytes(buffer.name, buffer, slack, places)] = GARBAGE

    def _image(self, buffer: Buffer, places: Mapping[str, int]) -> Labels:
        images = image_dims(buffer.type)[0]
        flat = _indices(buffer.layout, images, Halo()).reshape(-1)
        return self._bytes(buffer.name, buffer, flat, places)

    def _bytes(
        self, name: str, buffer: Buffer, indices: Labels, places: Mapping[str, int] | None = None
    ) -> Labels:
        """Addresses of all bytes of elements; raises FaultError where they lie outside the root."""
        root = self.program.buffers[name].root
        size = buffer.layout.dtype.bytes
        limit = buffer_bytes(self.program, root)
        if indices.size and (indices.min() < 0 or (indices.max() + 1) * size > limit):
            raise FaultError(f"{buffer.name!r} reaches beyond the memory of {root!r}")
        start = (self.places if places is None else places)[root]
        return np.asarray((start + indices * size)[:, None] + np.arange(size), np.int64)

    def _fill(self, start: int, labels: Labels, buffer: Buffer) -> None:
        size = buffer.layout.dtype.bytes
        cells = start + np.arange(labels.size)[:, None] * size + np.arange(size)
        self._fill_cells(cells, labels, buffer)

    def _fill_cells(self, cells: Labels, labels: Labels, buffer: Buffer) -> None:
        self.cells[cells] = labels[:, None] + np.arange(buffer.layout.dtype.bytes)

    def _expect(self, cells: Labels, labels: Labels, what: str) -> None:
        wanted = labels[:, None] + np.arange(cells.shape[1])
        wrong = np.flatnonzero(self.cells[cells].reshape(-1) != wanted.reshape(-1))
        if wrong.size:
            at = cells.reshape(-1)[wrong[0]]
            wish = self.contents.describe(int(wanted.reshape(-1)[wrong[0]]))
            found = self.contents.describe(int(self.cells[at]))
            raise FaultError(f"{what}: address {at} should hold {wish}, and holds {found}")


def _as_in_memory(labels: Labels, order: str) -> Labels:
    return labels.transpose(0, 3, 1, 2) if order == planar.ORDER else labels


def port_roots(program: Program) -> list[str]:
    """The roots that lie in the caller's memory."""
    return [n for n, b in program.buffers.items() if b.root == n and b.storage != "arena"]


def place_ports(program: Program, after: int, samples: int = 1) -> dict[str, int]:
    """Addresses of the caller's tensors, `samples` of each, apart from each other."""
    found, at = {}, after + GAP
    for root in port_roots(program):
        found[root] = at
        at += samples * buffer_bytes(program, root) + GAP
    return found


def clears_of(workspace: Workspace) -> dict[int, list[str]]:
    """Which roots every run has to clear before a step."""
    found: dict[int, list[str]] = {}
    for root, first in workspace.zeroed.items():
        found.setdefault(first, []).append(root)
    return found


def check_program(
    program: Program, isa: Isa, workspace: Workspace, scratch_bytes: Sequence[int]
) -> None:
    """Run a program twice in one workspace; raises FaultError for what is wrong."""
    ports = place_ports(program, workspace.bytes)
    end = max((at + buffer_bytes(program, root) for root, at in ports.items()), default=0)
    cells = np.full(max(end, workspace.bytes) + GAP, GARBAGE, np.int64)
    cells[: workspace.bytes] = ZERO
    scratch = {k: (at, scratch_bytes[k]) for k, at in workspace.scratch.items()}
    places = {**workspace.offsets, **ports}
    machine = Machine(program, isa, places, scratch, cells, make_contents(program.graph))
    for sample in range(2):
        machine.run(clears_of(workspace), sample)
