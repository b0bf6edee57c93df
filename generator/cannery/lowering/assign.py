"""Gives every value its buffers: which layouts exist, who shares whose memory, what is copied.

From steps and choices to a Program. A value has one buffer in the order its producer writes, with
the halo that its readers need; a reader that needs something else gets a reorder before it.
Concatenating, reshaping and taking channels become views where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from cannery.ir.graph import Graph, Node
from cannery.ir.half import halves_at
from cannery.ir.tensor import TensorType
from cannery.layouts import (
    Halo,
    Layout,
    Want,
    image_dims,
    nhwc,
    phase_split,
    plainest,
    planar,
    reinterpret,
)
from cannery.ops.concat.view import ConcatView, concat_axis
from cannery.ops.movement.op import Identity
from cannery.ops.movement.part import MovementPart, first_channel
from cannery.ops.movement.reshape import MovementReshape
from cannery.ops.movement.strided import MovementStrided
from cannery.ops.movement.view import MovementView
from cannery.schedule.program import VIEW, Buffer, Choice, PlannedStep, Program, Step
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import Isa

#: A value of `io_order`: images are in the model file's order, see `Graph.channels_first`.
MODEL_ORDER = "model"


def make_layout(type_: TensorType, want: Want) -> Layout:
    """The plainest layout of a value that meets `want`."""
    _, h, w, c = image_dims(type_)
    return plainest((h, w, c), want, type_.dtype)


@dataclass
class _Assigner:
    """State of one assignment; `out` collects what must run, in order."""

    graph: Graph
    steps: Sequence[Step]
    choices: Sequence[Choice]
    isa: Isa
    io_order: str = nhwc.ORDER
    views: Collection[str] = ()
    wants: dict[str, list[Want]] = field(default_factory=dict)
    gives: dict[str, Want] = field(default_factory=dict)
    parents: dict[str, tuple[str, tuple[int, int, int]]] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    of_value: dict[str, list[str]] = field(default_factory=dict)
    out: list[PlannedStep] = field(default_factory=list)

    def run(self) -> Program:
        for value in self.graph.inputs:
            storage = VIEW if value in self.views else "input"
            self.add(value, value, self.port_layout(value), value, storage)
        self.collect()
        for step, choice in zip(self.steps, self.choices, strict=True):
            if isinstance(choice.schedule, MovementReshape):
                self.reshape(step)
            elif isinstance(choice.schedule, MovementPart):
                self.take(step)
            elif isinstance(choice.schedule, ConcatView):
                self.concat(step)
            else:
                self.compute(step, choice)
        for number, value in enumerate(self.graph.outputs):
            self.export(value, number)
        return Program(self.graph, tuple(self.out), self.buffers, self.io_order)

    def collect(self) -> None:
        """Record what every reader wants, what every producer writes, and which values are parts of
        a concat.
        """
        for step, choice in zip(self.steps, self.choices, strict=True):
            wants = choice.schedule.reads(self.graph, step, choice.params, self.isa)
            gives = choice.schedule.writes(self.graph, step, choice.params, self.isa)
            for value, want in zip(step.inputs, wants, strict=True):
                self.wants.setdefault(value, []).append(want)
            self.gives.update(zip(step.outputs, gives, strict=True))
        self.share_pitches()
        views = {
            value
            for step, choice in zip(self.steps, self.choices, strict=True)
            if isinstance(choice.schedule, MovementReshape | MovementPart)
            for value in step.outputs
        }
        for step, choice in zip(self.steps, self.choices, strict=True):
            if isinstance(choice.schedule, ConcatView):
                self.note_parts(step, views)

    def share_pitches(self) -> None:
        """Equal pad columns for values of the same height and width, if their steps ask for it."""
        noted = [(v, w) for v, wants in self.wants.items() for w in wants] + [*self.gives.items()]
        columns: dict[tuple[int, int], Halo] = {}
        for value, want in noted:
            if want.shared_pitch:
                size = image_dims(self.graph.types[value])[1:3]
                pads = Halo(left=want.halo.left, right=want.halo.right)
                columns[size] = columns.get(size, Halo()).union(pads)

        def widen(value: str, want: Want) -> Want:
            pads = columns.get(image_dims(self.graph.types[value])[1:3], Halo())
            return replace(want, halo=want.halo.union(pads)) if want.shared_pitch else want

        self.wants = {v: [widen(v, w) for w in wants] for v, wants in self.wants.items()}
        self.gives = {v: widen(v, want) for v, want in self.gives.items()}

    def note_parts(self, step: Step, views: Collection[str]) -> None:
        """The parts of a concatenation that their producers can write in place.

        Excludes `views`, which are inside other values.
        """
        order = self.gives[step.output].order
        times = Counter(step.anchor.inputs)
        at = 0
        axis = concat_axis(self.graph, step)
        for value in step.anchor.inputs:
            start = [0, 0, 0]
            start[axis] = at
            at += image_dims(self.graph.types[value])[1 + axis]
            gives = self.gives.get(value)
            fits = gives and gives.order == order and not gives.slack and not gives.dense
            if value in views or not fits:
                continue
            if value not in self.parents and times[value] == 1:
                self.parents[value] = (step.output, (start[0], start[1], start[2]))
                self.children.setdefault(step.output, []).append(value)

    def add(
        self, name: str, value: str, layout: Layout, root: str, storage: str = "arena"
    ) -> Buffer:
        buffer = Buffer(name, value, self.graph.types[value], layout, root, storage)
        self.buffers[name] = buffer
        self.of_value.setdefault(value, []).append(name)
        return buffer

    def place(self, value: str) -> Buffer:
        """The buffer that the producer of a value writes, maybe inside its concatenation."""
        wholes = [value]
        while wholes[-1] not in self.of_value and wholes[-1] in self.parents:
            wholes.append(self.parents[wholes[-1]][0])
        found = self._placed_alone(wholes.pop())
        for part in reversed(wholes):
            found = self.place_part(part, part, *self.parents[part])
        return found

    def _placed_alone(self, value: str) -> Buffer:
        """The buffer of a value that is already placed, or is not part of another one."""
        if value in self.of_value:
            return self.buffers[self.of_value[value][0]]
        gives = self.gives[value]
        parts = self.parts(value)
        readers = [w for v in (value, *parts) for w in self.wants.get(v, [])]
        writers = [self.gives[v] for v in (value, *parts) if self.gives[v].shared_pitch]
        merged = merge_wants([*readers, *writers], gives.order)
        slack = max(merged.slack, gives.slack)
        want = gives if gives.dense else replace(merged, slack=slack)
        return self.add(value, value, make_layout(self.graph.types[value], want), value)

    def parts(self, whole: str) -> list[str]:
        """The values inside a concatenation, including those in its parts."""
        found = [whole]
        for value in found:
            found += self.children.get(value, ())
        return found[1:]

    def place_part(self, name: str, value: str, whole: str, start: tuple[int, int, int]) -> Buffer:
        """A buffer for a value that is a box of a larger one."""
        parent = self.place(whole)
        _, h, w, c = image_dims(self.graph.types[value])
        layout = parent.layout.part(start, (h, w, c))
        if (h, w) == parent.layout.shape[:2]:
            layout = replace(layout, halo=parent.layout.halo, slack=0)
        return self.add(name, value, layout, parent.root)

    def find(self, value: str, want: Want) -> str:
        """A buffer of the value that meets `want`, made by a reorder if there is none yet."""
        there = [n for n in self.of_value[value] if self.buffers[n].storage != VIEW]
        if not there and want.order == phase_split.ORDER:
            there = [self.find(value, Want())]  # only affine layouts are written from a view
        for name in there:
            if want.met_by(self.buffers[name].layout):
                return name
        for name in there:
            buffer = self.buffers[name]
            layout = reinterpret(buffer.layout, want.order)
            if layout is not None and want.met_by(layout):
                alias = f"{value}@{len(self.of_value[value])}"
                return self.add(alias, value, layout, buffer.root).name
        readers = [want, *self.wants.get(value, [])]
        merged = want if want.dense else merge_wants(readers, want.order)
        layout = make_layout(self.graph.types[value], merged)
        name = f"{value}@{len(self.of_value[value])}"
        self.add(name, value, layout, name)
        self.copy((*there, self.of_value[value][0])[0], name)
        return name

    def copy(self, source: str, target: str) -> None:
        """Append a reorder from one buffer to another of the same value."""
        a, b = self.buffers[source], self.buffers[target]
        node = Node(Identity(), f"{a.value}/reorder", (a.value,), (a.value,))
        step = Step((node,), (), (a.value,), (a.value,))
        choice = reorder_choice(self.graph, step, a.layout, b.layout, self.isa)
        if a.storage == VIEW:
            choice = Choice(MovementView(), {"from": nhwc.ORDER, "to": b.layout.order})
        self.out.append(PlannedStep(step, choice, (source,), (target,)))

    def compute(self, step: Step, choice: Choice) -> None:
        wants = choice.schedule.reads(self.graph, step, choice.params, self.isa)
        if self.reads_view(step, choice):
            # The step's elementwise work is done while the view is read.
            choice = replace(choice, schedule=MovementView())
            reads: tuple[str, ...] = (self.of_value[step.inputs[0]][0],)
        else:
            reads = tuple(self.find(v, w) for v, w in zip(step.inputs, wants, strict=True))
        writes = tuple(self.place(v).name for v in step.outputs)
        self.out.append(PlannedStep(step, choice, reads, writes))

    def reads_view(self, step: Step, choice: Choice) -> bool:
        """Whether a step is only a pass over a view."""
        elementwise = isinstance(choice.schedule, MovementStrided)
        return elementwise and len(step.inputs) == 1 and step.inputs[0] in self.views

    def reshape(self, step: Step) -> None:
        """A reshape is another view of the dense buffer of its input."""
        source = self.buffers[self.find(step.inputs[0], Want(dense=True))]
        layout = make_layout(self.graph.types[step.output], Want())
        self.add(step.output, step.output, layout, source.root)

    def take(self, step: Step) -> None:
        """Some channels of an image are a box in a buffer of it.

        The box gets no halo of its own: readers of the whole would have to step over it.
        """
        source = self.buffers[self.find(step.inputs[0], self.gives[step.output])]
        _, h, w, c = image_dims(self.graph.types[step.output])
        layout = source.layout.part((0, 0, first_channel(self.graph, step)), (h, w, c))
        self.add(step.output, step.output, replace(layout, halo=source.layout.halo), source.root)

    def concat(self, step: Step) -> None:
        """Copies those parts of a concatenation that were not written in place."""
        axis = concat_axis(self.graph, step)
        whole = self.place(step.output)
        at = 0
        for k, value in enumerate(step.anchor.inputs):
            start = [0, 0, 0]
            start[axis] = at
            at += image_dims(self.graph.types[value])[1 + axis]
            if self.parents.get(value, ("",))[0] == step.output:
                continue
            name = f"{step.output}@part{k}"
            self.place_part(name, value, whole.value, (start[0], start[1], start[2]))
            self.of_value[value].remove(name)
            self.copy(self.of_value[value][0], name)

    def port_layout(self, value: str) -> Layout:
        """The layout of an input or output in the caller's memory: no gaps."""
        return make_layout(
            self.graph.types[value], Want(interface_order(self.graph, value, self.io_order))
        )

    def export(self, value: str, number: int) -> None:
        """Let an output live in the caller's memory, or copy it there."""
        storage = f"output{number}"
        port = self.port_layout(value)
        for name in self.of_value[value]:
            root = self.buffers[self.buffers[name].root]
            layout = self.buffers[name].layout
            whole = root.layout.elements == layout.elements and root.layout.compact
            if layout == port and whole and root.storage == "arena":
                self.buffers[root.name] = replace(root, storage=storage)
                return
        name = f"{value}@{storage}"
        self.add(name, value, port, name, storage)
        self.copy(self.of_value[value][0], name)


def reorder_choice(graph: Graph, step: Step, source: Layout, target: Layout, isa: Isa) -> Choice:
    """The schedule that moves a value between two layouts; `step` is its Identity."""
    orders = {source.order, target.order}
    id_ = "movement.phase" if phase_split.ORDER in orders else "movement.strided"
    transpose = all_schedules()["movement.transpose"]
    if orders == {nhwc.ORDER, planar.ORDER} and not transpose.why_not(graph, step, isa):
        id_ = transpose.id
    if halves_at(graph, step.nodes):
        id_ = f"half.{id_}"
    return Choice(all_schedules()[id_], {"from": source.order, "to": target.order})


def merge_wants(wants: Sequence[Want], order: str) -> Want:
    """One want that serves all wants of an order that accept gaps; dense if there is none."""
    halo = Halo()
    matching = [w for w in wants if w.order == order and not w.dense]
    for want in matching:
        halo = halo.union(want.halo)
    slack = max((w.slack for w in matching), default=0)
    copied = not halo and any(w.dense for w in wants)  # dense readers would need one
    return Want(order, halo, slack, apart=not copied and any(w.apart for w in matching))


def interface_order(graph: Graph, value: str, io_order: str) -> str:
    """The order of an input or output: `io_order` for images, row-major for everything else."""
    if io_order == MODEL_ORDER:
        return planar.ORDER if value in graph.channels_first else nhwc.ORDER
    return io_order if graph.types[value].rank == 4 else nhwc.ORDER


def assign(
    graph: Graph,
    steps: Sequence[Step],
    choices: Sequence[Choice],
    isa: Isa,
    io_order: str = nhwc.ORDER,
    views: Collection[str] = (),
) -> Program:
    """The program: layouts, views and reorders, for the chosen schedules.

    `io_order` is the order of images in the caller's memory: nhwc, planar (NCHW) or MODEL_ORDER.
    `views` are the inputs that are regions of larger images.
    """
    return share_in_place(_Assigner(graph, steps, choices, isa, io_order, views).run())


def share_in_place(program: Program) -> Program:
    """Let outputs reuse the memory of inputs that nothing reads later, where legal."""
    buffers = dict(program.buffers)
    last = {
        buffers[name].root: k
        for k, step in enumerate(program.steps)
        for name in (*step.reads, *step.writes)
    }
    members: dict[str, list[str]] = {}
    for name, buffer in buffers.items():
        members.setdefault(buffer.root, []).append(name)
    for k, step in enumerate(program.steps):
        if not step.choice.schedule.in_place(step.step):
            continue
        source, target = buffers[step.reads[0]], buffers[step.writes[0]]
        free = source.root == source.name and last[source.root] == k
        whole = target.root == target.name and target.storage == source.storage == "arena"
        if free and whole and source.layout == target.layout and source.root != target.root:
            last[source.root] = last[target.root]
            moved = members.pop(target.name)
            buffers.update({n: replace(buffers[n], root=source.name) for n in moved})
            members[source.name] += moved
    return replace(program, buffers=buffers)
