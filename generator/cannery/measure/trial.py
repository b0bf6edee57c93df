"""One candidate of one step, to be generated alone, with layouts, inputs and expected outputs.

The tuner uses it with the plainest layouts, the kernel tests also with larger buffers around each
value and in-place buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from cannery.ir.evaluate import evaluate_all, widen
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ir.tensor import TensorType
from cannery.layouts import Halo, Layout, Want, image_dims, nhwc, phase_split, planar
from cannery.lowering.assign import make_layout
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Job, Params, Schedule
from cannery.target.isa import Isa


class Placing(Enum):
    """Where the values of a trial are placed.

    PLAIN: separate buffers with only what is required. WIDE: the middle channels of larger images
    with wider halos. WINDOW: boxes inside larger images, like parts of a concatenation. IN_PLACE:
    like PLAIN, but the output takes the memory of an input.
    """

    PLAIN = "plain"
    WIDE = "wide"
    WINDOW = "window"
    IN_PLACE = "in place"


@dataclass(frozen=True)
class Data:
    """The inputs of a step and its expected outputs, each in the value's own type."""

    inputs: tuple[RefArray, ...]
    outputs: tuple[RefArray, ...]


@dataclass(frozen=True)
class BufferPlace:
    """A layout, and what the schedule may rely on in it: zero halo, and slack.

    Halo cells of an output are those that it may overwrite with zeros.
    """

    layout: Layout
    halo: Halo
    slack: int


@dataclass(frozen=True)
class Trial:
    """A candidate with everything around it. `place_inputs` and `place_outputs` follow the step.

    `in_place` is the input that shares memory with the first output, or -1.
    """

    label: str
    graph: Graph
    step: Step
    choice: Choice
    isa: Isa
    inputs: tuple[BufferPlace, ...]
    outputs: tuple[BufferPlace, ...]
    data: Data
    in_place: int = -1

    def job(self, symbol: str) -> Job:
        """What the schedule must generate."""
        shared = frozenset({self.in_place} if self.in_place >= 0 else ())
        return Job(
            self.graph, self.step, self.isa, self.choice.params, symbol,
            tuple(p.layout for p in self.inputs), tuple(p.layout for p in self.outputs), shared,
        )  # fmt: skip

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of inputs and outputs: only candidates with equal ones are rivals."""
        return tuple(p.layout.order for p in (*self.inputs, *self.outputs))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the direct form, all images."""
        return self.step.macs(self.graph)


def make_trial(
    graph: Graph,
    step: Step,
    schedule: Schedule,
    params: Params,
    isa: Isa,
    data: Data,
    *,
    placing: Placing = Placing.PLAIN,
    label: str = "",
) -> Trial | None:
    """A trial with the layouts that the schedule requires; None if it cannot be placed that way."""
    reads = schedule.reads(graph, step, params, isa)
    writes = schedule.writes(graph, step, params, isa)
    types = [graph.types[v] for v in (*step.inputs, *step.outputs)]
    places = _places(types, [*reads, *writes], placing)
    if places is None:
        return None
    inputs, outputs = places[: len(reads)], places[len(reads) :]
    outputs = [
        replace(place, halo=place.layout.halo) if want.shared_pitch else place
        for place, want in zip(outputs, writes, strict=True)
    ]
    in_place = -1
    if placing is Placing.IN_PLACE:
        if not schedule.in_place(step) or inputs[0].layout != outputs[0].layout:
            return None
        in_place = 0
    choice = Choice(schedule, params)
    text = label or str(choice)
    return Trial(text, graph, step, choice, isa, tuple(inputs), tuple(outputs), data, in_place)


def _places(
    types: Sequence[TensorType], wants: Sequence[Want], placing: Placing
) -> list[BufferPlace] | None:
    """A place for each value; None if this placing makes no difference or is impossible."""
    shared = Halo()
    for want in wants:
        shared = shared.union(want.halo) if want.shared_pitch else shared
    found = []
    for number, (type_, want) in enumerate(zip(types, wants, strict=True)):
        asked = replace(want, halo=shared) if want.shared_pitch else want
        extra = 1 + (0 if want.shared_pitch else number % 3)
        layout = _layout(type_, asked, placing, extra)
        found.append(BufferPlace(layout, want.halo, want.slack))
    plain = placing in (Placing.PLAIN, Placing.IN_PLACE)
    if not plain and all(
        place.layout == _layout(type_, want, Placing.PLAIN, 0)
        for place, type_, want in zip(found, types, wants, strict=True)
    ):
        return None
    return found


def _layout(type_: TensorType, want: Want, placing: Placing, extra: int) -> Layout:
    if want.dense or placing in (Placing.PLAIN, Placing.IN_PLACE):
        return make_layout(type_, want)
    _, h, w, c = image_dims(type_)
    if want.order == phase_split.ORDER:
        return phase_split.make((h, w, c), slack=want.slack + 4 * extra, dtype=type_.dtype)
    make = planar.make if want.order == planar.ORDER else nhwc.make
    if placing is Placing.WINDOW and not want.halo and not want.slack:
        whole = make((h + 2, w + 1 + extra, c + extra), dtype=type_.dtype)
        return whole.part((1, extra, 1), (h, w, c))
    wide = Halo(
        want.halo.top + 1, want.halo.bottom + extra, want.halo.left + 1, want.halo.right + 2
    )
    if want.slack:
        return make((h, w, c), wide, slack=want.slack + extra, dtype=type_.dtype)
    whole = make((h, w, c + 2 * extra), wide, dtype=type_.dtype)
    return replace(whole.part((0, 0, extra), (h, w, c)), halo=wide)


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, RefArray]:
    """Inputs for a graph by name: standard normal floats, integers of the whole range."""
    rng = np.random.default_rng(seed)
    found: dict[str, RefArray] = {}
    for name in graph.inputs:
        type_ = graph.types[name]
        if type_.dtype.numpy.kind == "f":
            found[name] = rng.standard_normal(type_.shape).astype(np.float32)
        elif type_.dtype.numpy.kind == "b":
            found[name] = rng.integers(0, 2, type_.shape).astype(np.bool_)
        else:
            info = np.iinfo(type_.dtype.value)
            found[name] = rng.integers(
                info.min, info.max, type_.shape, dtype=type_.dtype.value, endpoint=True
            )
    return found


def step_data(graph: Graph, step: Step, values: Mapping[str, RefArray]) -> Data:
    """Inputs of a step, rounded to their types, and the references' results for exactly those.

    `values` holds every value of the graph, as `evaluate_all` returns them.
    """
    inputs = tuple(_rounded(graph, v, values[v]) for v in step.inputs)
    known: dict[str, RefArray] = dict(zip(step.inputs, map(widen, inputs), strict=True))
    for node in step.nodes:
        for name in node.inputs:
            if name in graph.constants:
                known[name] = widen(graph.constants[name])
        with np.errstate(all="ignore"):
            results = node.op.reference(*(known[i] if i else None for i in node.inputs))
        known.update(zip(node.outputs, results, strict=True))
    return Data(inputs, tuple(_rounded(graph, v, known[v]) for v in step.outputs))


def _rounded(graph: Graph, value: str, array: RefArray) -> RefArray:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array, dtype=graph.types[value].dtype.numpy)


def all_data(graph: Graph, steps: Sequence[Step], inputs: Mapping[str, RefArray]) -> list[Data]:
    """The data of every step: each gets what the references computed for its inputs."""
    with np.errstate(all="ignore"):
        values = evaluate_all(graph, inputs)
    return [step_data(graph, step, values) for step in steps]
