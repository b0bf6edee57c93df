"""What generating a network reveals before anything is built: layers, memory, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from cannery.emit.interface import Tensor
from cannery.emit.source import Source
from cannery.emit.steps import Call
from cannery.execution.sizes import constant_bytes
from cannery.lowering.lifetimes import buffer_bytes, lifetimes
from cannery.lowering.memory_plan import align
from cannery.schedule.program import VIEW, Program


@dataclass(frozen=True)
class Layer:
    """A step: what it computes, how, and from which layouts to which.

    `read_bytes` and `written_bytes` are those of its values, `weight_bytes` those of its constants.
    `computes`: there is code for it.
    """

    number: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    shapes: tuple[str, ...]
    schedule: str
    origin: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    macs: int
    weight_bytes: int
    read_bytes: int
    written_bytes: int
    scratch_bytes: int
    computes: bool

    @property
    def moved_bytes(self) -> int:
        """Everything that it reads and writes."""
        return self.weight_bytes + self.read_bytes + self.written_bytes

    @property
    def title(self) -> str:
        """`03 conv_1`: unique within the network."""
        return f"{self.number:02d} {self.name}"


@dataclass(frozen=True)
class Block:
    """A piece of the workspace, and from which step to which it is in use, both included.

    `pinned`: it is never shared, because its border must stay zero. `scratch`: it belongs to one
    step.
    """

    name: str
    offset: int
    bytes: int
    first: int
    last: int
    pinned: bool = False
    scratch: bool = False


@dataclass(frozen=True)
class Edge:
    """A value between two layers, by their numbers. None: the network's interface, port `port`."""

    source: int | None
    target: int | None
    port: int = 0


@dataclass(frozen=True)
class Facts:
    """A generated network."""

    name: str
    model_hash: str
    target: str
    isa: str
    bits: int
    version: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    blocks: tuple[Block, ...]
    workspace_bytes: int
    lower_bound: int
    notes: tuple[str, ...]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(layer.macs for layer in self.layers)

    @property
    def weight_bytes(self) -> int:
        """Constants of all layers."""
        return sum(layer.weight_bytes for layer in self.layers)

    @property
    def alive(self) -> list[int]:
        """Bytes of the workspace that are in use at each step."""
        change = [0] * (len(self.layers) + 1)
        for block in self.blocks:
            change[block.first] += align(block.bytes)
            change[min(block.last, len(self.layers) - 1) + 1] -= align(block.bytes)
        return list(accumulate(change[:-1]))


def network_facts(source: Source) -> Facts:
    """The facts in a network's source."""
    return Facts(
        source.name, source.hash, source.target, source.isa.name, source.isa.bits, source.version,
        tuple(map(_port, source.inputs)), tuple(map(_port, source.outputs)),
        tuple(
            _layer(source, k, call, weights)
            for k, (call, weights) in enumerate(
                zip(source.calls, constant_bytes(source), strict=True)
            )
        ),
        _edges(source), _blocks(source),
        source.workspace.bytes, source.workspace.lower_bound, tuple(source.graph.notes),
    )  # fmt: skip


def _port(tensor: Tensor) -> str:
    return f"{tensor.source}: {tensor.text}"


def _layer(source: Source, number: int, call: Call, weights: int) -> Layer:
    planned, graph, buffers = call.planned, source.graph, source.program.buffers
    step = planned.step
    return Layer(
        number, step.name, step.kind, tuple(node.name for node in step.nodes),
        tuple(str(graph.types[value]) for value in step.outputs),
        str(planned.choice), planned.choice.origin,
        tuple(str(buffers[name].layout) for name in planned.reads),
        tuple(str(buffers[name].layout) for name in planned.writes),
        step.macs(graph),
        weights,
        sum(graph.types[value].bytes for value in set(step.inputs)),
        sum(graph.types[value].bytes for value in step.outputs),
        call.kernel.scratch_bytes, bool(call.kernel.code.strip()),
    )  # fmt: skip


def read_buffers(program: Program) -> tuple[tuple[str, ...], ...]:
    """For each step, the buffers that it reads, as they were written, without repeats.

    A buffer in another's memory, or with parts that are, is resolved to those; a root that no step
    wrote is an input.
    """
    written: dict[str, dict[str, None]] = {}
    direct: set[str] = set()
    found = []
    for planned in program.steps:
        read: dict[str, None] = {}
        for name in planned.reads:
            root = program.buffers[name].root
            read |= {name: None} if name in direct else written.get(root, {root: None})
        found.append(tuple(read))
        for name in planned.writes:
            direct.add(name)
            written.setdefault(program.buffers[name].root, {})[name] = None
    return tuple(found)


def output_buffers(program: Program) -> dict[int, tuple[str, ...]]:
    """The buffers whose contents are each output of the network, by number."""
    found: dict[int, tuple[str, ...]] = {}
    for planned in program.steps:
        for name in planned.writes:
            storage = program.buffers[program.buffers[name].root].storage
            if storage.startswith("output"):
                port = int(storage.removeprefix("output"))
                found[port] = (*found.get(port, ()), name)
    return found


def input_ports(program: Program) -> dict[str, int]:
    """The root buffers that are the caller's inputs, by number."""
    numbers = {value: k for k, value in enumerate(program.graph.inputs)}
    return {
        name: numbers[buffer.value]
        for name, buffer in program.buffers.items()
        if buffer.root == name and buffer.storage in ("input", VIEW)
    }


def _edges(source: Source) -> tuple[Edge, ...]:
    """Which step reads which step's results."""
    program, ports = source.program, input_ports(source.program)
    makers = {name: k for k, planned in enumerate(program.steps) for name in planned.writes}
    found: dict[Edge, None] = {}
    for number, names in enumerate(read_buffers(program)):
        for name in names:
            if name in makers:
                found[Edge(makers[name], number)] = None
            elif name in ports:
                found[Edge(None, number, ports[name])] = None
    for port, names in output_buffers(program).items():
        found |= dict.fromkeys(Edge(makers[name], None, port) for name in names)
    return tuple(found)


def _blocks(source: Source) -> tuple[Block, ...]:
    """The pieces of the workspace, lowest first."""
    program, workspace = source.program, source.workspace
    first, last = lifetimes(program)
    end = len(program.steps) - 1
    found = []
    for name in first:
        pinned = name in workspace.pinned
        life = (0, end) if pinned else (first[name], last[name])
        found.append(
            Block(name, workspace.offsets[name], buffer_bytes(program, name), *life, pinned)
        )
    for number, offset in workspace.scratch.items():
        size = source.calls[number].kernel.scratch_bytes
        name = f"scratch of {program.steps[number].step.name}"
        found.append(Block(name, offset, size, number, number, scratch=True))
    return tuple(sorted(found, key=lambda block: (block.offset, block.first)))
