"""The program: the graph cut into Steps, each with a Schedule, and a Layout for every value.

A Step is prologue (views of its input), anchor and epilogue. A Schedule is one way to compute a
kind of Step; its Candidates are the points of its tunable space worth trying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import TensorType
from cannery.layouts import Layout
from cannery.schedule.schedule import Params, Schedule

#: Storage of an input that is a region of a larger image.
VIEW = "view"


@dataclass(frozen=True)
class Step:
    """Nodes that one generated function computes together.

    `inputs` are the activations it reads, the anchors' first, then those of the epilogue in the
    order in which it needs them; `outputs` are those that other steps read. Constants are not
    listed.

    A chain computes several steps row by row, without storing the values between them: `parts` are
    those steps, in order, and `epilogue` is that of the last one. One that is `depth_first` may
    have any number of them, to save memory.
    """

    anchors: tuple[Node, ...]
    epilogue: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parts: tuple[Step, ...] = ()
    depth_first: bool = False

    @property
    def anchor(self) -> Node:
        """The first anchor; the step is named after it."""
        return self.anchors[0]

    @property
    def name(self) -> str:
        return self.anchor.name

    @property
    def output(self) -> str:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the step, in topological order."""
        if self.parts:
            return tuple(node for part in self.parts for node in part.nodes)
        return (*self.anchors, *self.epilogue)

    @property
    def alone(self) -> bool:
        """Whether it computes one node only."""
        return len(self.nodes) == 1

    @property
    def stages(self) -> tuple[Node, ...]:
        """The elementwise nodes: all except an anchor that does something else."""
        return self.nodes if isinstance(self.anchor.op, Elementwise) else self.epilogue

    @property
    def source(self) -> str:
        """The operand of the first of the `stages`: the input, or the anchor's result."""
        return self.inputs[0] if isinstance(self.anchor.op, Elementwise) else self.anchor.output

    @property
    def reads_again(self) -> bool:
        """Whether a later node also reads the first input."""
        if not self.inputs:
            return False
        running = self.source
        for node in self.stages:
            if running != self.inputs[0] and self.inputs[0] in node.inputs:
                return True
            running = node.output
        return False

    @property
    def kind(self) -> str:
        """The anchors' operators joined by +, e.g. `Conv` or `Conv+Conv`."""
        return "+".join(node.op.kind for node in self.anchors)

    def macs(self, graph: Graph) -> int:
        """Multiply-accumulates of the direct form."""
        return sum(
            node.op.macs(
                tuple(graph.types[i] if i else None for i in node.inputs),
                tuple(graph.types[o] for o in node.outputs),
            )
            for node in self.nodes
        )


@dataclass(frozen=True)
class Choice:
    """The schedule and its parameters for one step, and where the choice came from.

    `origin` is one of device, host, estimated, emulated, record; `us` the time it took, if known.
    """

    schedule: Schedule
    params: Params
    origin: str = "estimated"
    us: float | None = None

    @property
    def inexact(self) -> bool:
        """Whether results differ from the direct form by more than rounding."""
        return self.schedule.is_inexact(self.params)

    def __str__(self) -> str:
        return self.schedule.label(self.params)


@dataclass(frozen=True)
class PlannedStep:
    """A Step with its choice and the layouts of everything that it reads and writes.

    `reads` and `writes` name the buffers of the step's inputs and outputs: a value can have
    several buffers (one per layout), and several values can share memory (concatenation).
    """

    step: Step
    choice: Choice
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Buffer:
    """One value in one layout. `root` is the buffer whose memory holds it (usually itself).

    `storage` is input, view, arena or output<k>, and only that of the root counts. A view is an
    input whose strides are known only when the network runs.
    """

    name: str
    value: str
    type: TensorType
    layout: Layout
    root: str
    storage: str


@dataclass(frozen=True)
class Program:
    """Everything that emission needs, except offsets."""

    graph: Graph
    steps: tuple[PlannedStep, ...]
    buffers: Mapping[str, Buffer]
    io_order: str = "nhwc"

    def roots(self, indices: Iterable[int]) -> list[str]:
        """The roots that steps touch, each once."""
        touched = (name for k in indices for name in (*self.steps[k].reads, *self.steps[k].writes))
        return list(dict.fromkeys(self.buffers[name].root for name in touched))
