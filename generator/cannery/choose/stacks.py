"""Which steps compute several images at once, and how: from the record, or by the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cannery.choose.record import Entry, Record
from cannery.choose.signature import step_signature
from cannery.ir.graph import Graph
from cannery.ir.tensor import MAX_ELEMENTS
from cannery.lowering.stack import Stack, stacked_choices, stacked_graph, why_not
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa

#: The fraction of single steps' time that a stacked one may take. Where the model expects less
#: gain, measurements showed none: values of many images lie farther apart.
WORTH = 0.8

#: Bytes of a whole network's weights that no second-level cache keeps from run to run.
DISPLACED_BYTES = 2 * 1024 * 1024


def chunk_sizes(many: int) -> list[int]:
    """How many images are computed at once: `many`, then the powers of two below it."""
    found = [many] if many > 1 else []
    power = 1 << max(many - 1, 0).bit_length() >> 1
    while power > 1:
        found += [power] if power < many else []
        power >>= 1
    return found


@dataclass(frozen=True)
class Known:
    """What a record says: choices by the output of the step, and the worthwhile chunks."""

    choices: Mapping[str, Choice]
    chunks: Sequence[int]


def choose_stacks(
    graph: Graph,
    steps: Sequence[Step],
    choices: Sequence[Choice],
    isa: Isa,
    many: int,
    known: Known | None = None,
) -> tuple[Stack, ...]:
    """How `run_many` computes up to `many` images at once, largest chunk first.

    Uses what is `known`, else the cost model. Smaller chunks use the choices of the largest, so
    that they share its weights.
    """
    if many < 2 or many * max(t.elements for t in graph.types.values()) > MAX_ELEMENTS:
        return ()
    if known is not None:
        return tuple(Stack(images, known.choices) for images in known.chunks if known.choices)
    stacks: list[Stack] = []
    singles = {s.outputs[0]: (s, c) for s, c in zip(steps, choices, strict=True)}
    found = {
        output: best
        for output, (step, choice) in singles.items()
        if (best := estimated(graph, step, choice, isa, many)) is not None
    }
    for images in chunk_sizes(many):
        kept = {
            output: choice
            for output, choice in found.items()
            if gains(graph, *singles[output], choice, isa, images)
        }
        stacks += [Stack(images, kept)] if kept else []
    return tuple(stacks)


def record_stacks(
    record: Record,
    graph: Graph,
    steps: Sequence[Step],
    choices: Sequence[Choice],
    isa: Isa,
    many: int,
) -> Known | str:
    """What a record says about this many images at once, or why it says nothing."""
    if record.many is None or record.many.images != many:
        return f"it was not tuned for MANY {many}"
    if list(record.many.chunks) != [n for n in chunk_sizes(many) if n in record.many.chunks]:
        return f"{record.many.chunks} are not chunks of {many}"
    singles = {s.outputs[0]: (s, c) for s, c in zip(steps, choices, strict=True)}
    signatures = {
        output: step_signature(stacked_graph(graph, step, many), step)
        for output, (step, _) in singles.items()
        if not why_not(graph, step)
    }
    found: dict[str, Choice] = {}
    for entry in record.many.steps:
        fits = [o for o, text in signatures.items() if text == entry.signature and o not in found]
        if not fits:
            return f"{entry.nodes[0]!r} is no longer such a step"
        # Layers are often renamed when a model is retrained.
        output = min(fits, key=lambda o: [n.name for n in singles[o][0].nodes] != entry.nodes)
        ways = stacked_choices(graph, *singles[output], many, isa)
        way = next((way for way in ways if _is(way, entry)), None)
        if way is None:
            return f"{entry.nodes[0]!r} can no longer be computed that way for many"
        found[output] = replace(way, origin="record", us=entry.us)
    return Known(found, record.many.chunks)


def _is(way: Choice, entry: Entry) -> bool:
    """Whether an entry names this way."""
    named = (entry.schedule, entry.version, entry.params)
    return (way.schedule.id, way.schedule.version, dict(way.params)) == named


def estimated(graph: Graph, step: Step, choice: Choice, isa: Isa, images: int) -> Choice | None:
    """The best way to stack a step by the cost model; None if none gains.

    The largest chunk counts most, but the rest of a frame's patches uses the smaller ones.
    """
    ways = stacked_choices(graph, step, choice, images, isa)

    def cost(way: Choice) -> float:
        sizes = [images, images, *chunk_sizes(images)]
        return sum(_cycles(stacked_graph(graph, step, n), step, way, isa) for n in sizes)

    best = min(ways, key=cost, default=None)
    return best if best and gains(graph, step, choice, best, isa, images) else None


def gains(graph: Graph, step: Step, single: Choice, stacked: Choice, isa: Isa, images: int) -> bool:
    """Whether the cost model expects the stacked step to be faster than single ones."""
    slowest = _reading(graph, step, isa)
    together = _cycles(stacked_graph(graph, step, images), step, stacked, isa)
    alone = _cycles(graph, step, single, isa)
    return max(together, slowest) < WORTH * images * max(alone, slowest)


def _cycles(graph: Graph, step: Step, choice: Choice, isa: Isa) -> float:
    return choice.schedule.cost(graph, step, choice.params, isa).total(isa)


def _reading(graph: Graph, step: Step, isa: Isa) -> float:
    """Cycles of reading the step's weights once, after other steps' weights have evicted them.

    The cost model omits them, because all schedules for a single image pay them equally.
    """
    if sum(array.nbytes for array in graph.constants.values()) <= DISPLACED_BYTES:
        return 0.0
    constants = {v for node in step.nodes for v in node.inputs if v in graph.constants}
    return sum(graph.constants[v].nbytes for v in constants) / isa.core.caches.far_rate
