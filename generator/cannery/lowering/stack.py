"""Stacks: steps that compute several images at once, to load their weights only once.

A matrix product with constant weights treats each row separately, so rows of several images can be
stacked along the first axis; a tile of rows then loads its weights once. The rest of the network
runs image by image, with unchanged code. Results keep their bits: schedules offer only parameters
that ensure it (`Schedule.stacked`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cannery.ir.graph import Graph
from cannery.ir.tensor import MAX_ELEMENTS, TensorType
from cannery.ops.matmul.product import dense_weights
from cannery.schedule.program import Choice, PlannedStep, Program, Step
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Stack:
    """How steps compute `images` images at once; choices by the output of the step."""

    images: int
    choices: Mapping[str, Choice] = field(default_factory=dict)


def why_not(graph: Graph, step: Step) -> str:
    """Why a step cannot be stacked; empty if it can."""
    reason = dense_weights(graph, step)
    if reason:
        return reason
    if getattr(step.anchor.op, "transpose_a", False):
        return "rows are not along the first axis"
    values = [graph.types[v].shape for v in (*step.inputs, *step.outputs)]
    rows = values[-1][:1]
    if any(len(shape) < 2 or shape[:1] != rows for shape in values):
        return "its values do not begin with the same axis"
    rank = len(values[-1])
    constants = [v for node in step.epilogue for v in node.inputs if v in graph.constants]
    shapes = [graph.types[v].shape for v in constants]
    if any(len(shape) == rank and shape[0] != 1 for shape in shapes):
        return "its constants differ along the first axis"
    return ""


def stacked_graph(graph: Graph, step: Step, images: int) -> Graph:
    """The step alone, with `images` images along the first axis of its activations."""
    types: dict[str, TensorType] = {}
    constants = {}
    for value in {v for n in step.nodes for v in (*n.inputs, *n.outputs) if v}:
        type_ = graph.types[value]
        if value in graph.constants:
            constants[value] = graph.constants[value]
            types[value] = type_
        else:
            types[value] = replace(type_, shape=(images * type_.shape[0], *type_.shape[1:]))
    name = f"{step.name} x {images}"
    vary = graph.weights_vary
    return Graph(
        name, step.nodes, step.inputs, step.outputs, types, constants, weights_vary=vary,
        quantization=graph.quantization if vary else None,
        halves=graph.halves & constants.keys(),
    )  # fmt: skip


def fits(graph: Graph, step: Step, images: int) -> bool:
    """Whether the indices of this many images stay within 32 bits."""
    values = (*step.inputs, *step.outputs)
    return all(images * graph.types[v].elements <= MAX_ELEMENTS for v in values)


def stacked_choices(
    graph: Graph, step: Step, choice: Choice, images: int, isa: Isa
) -> list[Choice]:
    """The ways to stack a step that give the same bits as `choice`; empty: none, or useless."""
    if why_not(graph, step) or not fits(graph, step, images):
        return []
    many = stacked_graph(graph, step, images)
    found = choice.schedule.stacked(many, step, choice.params, isa)
    return [Choice(schedule, params) for schedule, params in found]


@dataclass(frozen=True)
class StackPhase:
    """Steps (by index in the program) that run one after the other.

    Either a loop over the images that runs all of them, or, if `stacked`, one step for all images.
    """

    steps: tuple[int, ...]
    stacked: bool


def phases(program: Program, stack: Stack) -> tuple[StackPhase, ...]:
    """The steps of a program in order, cut where stacked ones are."""
    found: list[StackPhase] = []
    for index, planned in enumerate(program.steps):
        if is_stacked(program, planned, stack):
            found.append(StackPhase((index,), stacked=True))
        elif found and not found[-1].stacked:
            found[-1] = StackPhase((*found[-1].steps, index), stacked=False)
        else:
            found.append(StackPhase((index,), stacked=False))
    return tuple(found)


def is_stacked(program: Program, planned: PlannedStep, stack: Stack) -> bool:
    """Whether the stack computes a planned step (which may be a reorder) for all images at once.

    The images that it touches must follow each other without a gap, and without a halo, which would
    have to be cleared.
    """
    step = planned.step
    if step.inputs == step.outputs or step.outputs[0] not in stack.choices:
        return False
    touched = [program.buffers[name] for name in (*planned.reads, *planned.writes)]
    roots = [program.buffers[buffer.root].layout for buffer in touched]
    return all(
        buffer.layout.elements == root.elements and not root.halo
        for buffer, root in zip(touched, roots, strict=True)
    )


def spread_roots(program: Program, parts: Sequence[StackPhase]) -> dict[str, tuple[int, int]]:
    """Roots of the workspace that need memory for every image: first and last phase of each.

    Those are the roots that stacked steps touch, and those that live from one phase to another.
    """
    seen: dict[str, list[int]] = {}
    stacked: set[str] = set()
    for number, phase in enumerate(parts):
        for index in phase.steps:
            planned = program.steps[index]
            for name in (*planned.reads, *planned.writes):
                root = program.buffers[name].root
                if program.buffers[root].storage == "arena":
                    seen.setdefault(root, []).append(number)
                    stacked |= {root} if phase.stacked else set()
    return {
        root: (min(numbers), max(numbers))
        for root, numbers in seen.items()
        if root in stacked or len(set(numbers)) > 1
    }
