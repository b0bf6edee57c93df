"""From a Program to C text: kernels in order, constants, the run function, the interface."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery import __version__
from cannery.emit.arrays import WeightBlob, as_bytes, format_array, split_constants
from cannery.emit.environment import render
from cannery.emit.halo import clear_lines
from cannery.emit.tidy import tidy
from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from cannery.ir.tensor import TensorType
from cannery.layouts import image_dims, nhwc, planar
from cannery.memory.lifetimes import Workspace, plan_workspace
from cannery.names import make_identifier
from cannery.ops.registry import RefArray
from cannery.schedule.assign import interface_order
from cannery.schedule.program import Buffer, PlannedStep, Program
from cannery.schedule.schedule import Job, Kernel
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Tensor:
    """An input or output at the C interface; `name` is its C identifier."""

    name: str
    source: str
    type: TensorType
    order: str = nhwc.ORDER

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions as they lie in the caller's memory, the last varying fastest."""
        shape = self.type.shape
        if self.order == planar.ORDER:
            return (shape[0], shape[3], shape[1], shape[2])
        return shape

    def to_graph(self, array: RefArray) -> RefArray:
        """What the graph sees of an array that lies as the interface says."""
        return np.moveaxis(array, 1, -1) if self.order == planar.ORDER else array

    def from_graph(self, array: RefArray) -> RefArray:
        """The inverse of `to_graph`."""
        return np.moveaxis(array, -1, 1) if self.order == planar.ORDER else array

    @property
    def text(self) -> str:
        """`float32[1x3x60x80] (NCHW)`."""
        note = {4: " (NCHW)" if self.order == planar.ORDER else " (NHWC)"}.get(len(self.dims), "")
        return f"{self.type.dtype.value}[{'x'.join(map(str, self.dims))}]{note}"

    @property
    def macro(self) -> str:
        return self.name.upper()


@dataclass(frozen=True)
class Call:
    """One step as the run function sees it."""

    planned: PlannedStep
    symbol: str
    kernel: Kernel
    arguments: tuple[str, ...]
    images: int
    clears: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """Everything that the templates of the output files read.

    `max_error` is the bound of max|y - ref| / max|ref| that the network was made for.
    """

    name: str
    graph: Graph
    isa: Isa
    program: Program
    workspace: Workspace
    calls: tuple[Call, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    hash: str
    blob: WeightBlob
    version: str = __version__
    target: str = ""
    max_error: float = 1e-4

    @property
    def macs(self) -> int:
        return sum(call.planned.step.macs(self.graph) for call in self.calls)

    @property
    def needs_math(self) -> bool:
        return any(call.kernel.needs_math for call in self.calls)


def model_hash(graph: Graph) -> str:
    """Sixteen hex digits that change with the graph or any weight."""
    digest = hashlib.sha256(format_graph(graph).encode())
    for name in sorted(graph.constants):
        digest.update(name.encode())
        digest.update(as_bytes(graph.constants[name]))
    return digest.hexdigest()[:16]


#: What generated functions call their other parameters and variables.
_PARAMETERS = ("workspace", "state", "pool", "length", "n")


def interface(
    graph: Graph, rename: Mapping[str, str], io_order: str
) -> tuple[tuple[Tensor, ...], ...]:
    """(inputs, outputs) with unique C identifiers made from the tensor names.

    Raises OptionError where `rename` names no tensor, or takes a name that is another's.
    """
    taken = {*_PARAMETERS}

    def tensor(value: str) -> Tensor:
        name = rename.get(value) or _own_name(graph, value)
        unique, k = name, 1
        while unique in taken:
            k += 1
            unique = f"{name}_{k}"
        taken.add(unique)
        return Tensor(unique, value, graph.types[value], interface_order(graph, value, io_order))

    unknown = sorted(set(rename) - {*graph.inputs, *graph.outputs})
    if unknown:
        known = ", ".join((*graph.inputs, *graph.outputs))
        raise OptionError(
            f"there is no tensor {unknown[0]!r} to rename",
            where="--rename",
            cure=f"one of: {known}",
        )
    _check_renames(graph, rename)
    return tuple(map(tensor, graph.inputs)), tuple(map(tensor, graph.outputs))


def _own_name(graph: Graph, value: str) -> str:
    """What an input or output is called in C, unless that is taken."""
    short = value.rsplit("/", 1)[0] if value in graph.outputs else value
    return make_identifier(short.split(":")[0]).lower()


def _check_renames(graph: Graph, rename: Mapping[str, str]) -> None:
    """Raise OptionError where a new name is taken; names that differ in case share a macro."""
    owners = dict.fromkeys(_PARAMETERS, "a parameter of the generated functions")
    for value in (*graph.inputs, *graph.outputs):
        if value not in rename:
            owners.setdefault(_own_name(graph, value), f"tensor {value!r}")
    for value, name in rename.items():
        if name.lower() in owners:
            raise OptionError(
                f"{value!r} cannot be called {name!r}, as {owners[name.lower()]} is called so",
                where="--rename",
                cure="take another name, or rename both",
            )
        owners[name.lower()] = f"tensor {value!r}"


def step_symbol(model: str, number: int, step: PlannedStep) -> str:
    """`ball_L03_conv_direct_oc`."""
    schedule = step.choice.schedule.id.replace(".", "_")
    return f"{model}_L{number:02d}_{schedule}"


def make_job(program: Program, planned: PlannedStep, isa: Isa, symbol: str) -> Job:
    """What the schedule of a planned step is asked to generate."""
    buffers = program.buffers
    reads = [buffers[name] for name in planned.reads]
    writes = [buffers[name] for name in planned.writes]
    roots = {w.root for w in writes}
    return Job(
        program.graph,
        planned.step,
        isa,
        planned.choice.params,
        symbol,
        tuple(b.layout for b in reads),
        tuple(b.layout for b in writes),
        frozenset(k for k, b in enumerate(reads) if b.root in roots),
    )


def make_source(program: Program, isa: Isa, name: str, rename: Mapping[str, str]) -> Source:
    """Generate all kernels and lay out the workspace."""
    symbols = [step_symbol(name, k, p) for k, p in enumerate(program.steps)]
    made = (
        p.choice.schedule.kernel(make_job(program, p, isa, s))
        for p, s in zip(program.steps, symbols, strict=True)
    )
    kernels, blob = split_constants(name, made)
    workspace = plan_workspace(program, [k.scratch_bytes for k in kernels])
    inputs, outputs = interface(program.graph, rename, program.io_order)
    variables = root_variables(program)
    calls = []
    for k, (planned, symbol, kernel) in enumerate(
        zip(program.steps, symbols, kernels, strict=True)
    ):
        clears = tuple(n for n, first in workspace.zeroed.items() if first == k)
        arguments = _arguments(program, planned, kernel, workspace, k, variables)
        images = 1 if kernel.whole else image_dims(program.buffers[planned.writes[0]].type)[0]
        kernel = replace(kernel, code=tidy(kernel.code))
        calls.append(Call(planned, symbol, kernel, arguments, images, clears))
    return Source(
        name, program.graph, isa, program, workspace, tuple(calls), inputs, outputs,
        model_hash(program.graph), blob,
    )  # fmt: skip


def pointer_name(buffer: Buffer) -> str:
    """The C variable that points to a root buffer's memory."""
    clean = re.sub(r"[^A-Za-z0-9]+", "_", buffer.name).strip("_")
    return f"b_{clean}"


def _arguments(
    program: Program, planned: PlannedStep, kernel: Kernel, workspace: Workspace, index: int,
    variables: Mapping[str, str],
) -> tuple[str, ...]:  # fmt: skip
    arguments = []
    batched = not kernel.whole and image_dims(program.buffers[planned.writes[0]].type)[0] > 1
    for name in (*planned.reads, *planned.writes):
        buffer = program.buffers[name]
        pointer = variables[buffer.root]
        arguments.append(f"{pointer} + n * {buffer.layout.elements}" if batched else pointer)
    if kernel.scratch_bytes:
        arguments.append(f"(float *)(void *)(ws + {workspace.scratch[index]})")
    if kernel.band:
        arguments += ["0", str(program.buffers[planned.writes[0]].layout.shape[0])]
    return tuple(arguments)


def root_variables(program: Program) -> dict[str, str]:
    """C variable of every root buffer, unique."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name, buffer in program.buffers.items():
        if buffer.root != name:
            continue
        plain = unique = pointer_name(buffer)
        k = 1
        while unique in taken:
            k += 1
            unique = f"{plain}_{k}"
        taken.add(unique)
        names[name] = unique
    return names


def unused_roots(program: Program) -> set[str]:
    """Roots that no step touches."""
    used = {program.buffers[n].root for s in program.steps for n in (*s.reads, *s.writes)}
    return {n for n, b in program.buffers.items() if b.root == n and n not in used}


def render_model(source: Source, command: str) -> str:
    """The text of `<name>.c`."""
    program = source.program
    variables = root_variables(program)
    ports: dict[str, str] = {}
    for tensor in source.inputs:
        ports[tensor.source] = tensor.name
    for number, tensor in enumerate(source.outputs):
        ports[f"output{number}"] = tensor.name
    roots = []
    skip = unused_roots(program)
    for root, variable in variables.items():
        buffer = program.buffers[root]
        if root in skip:
            continue
        port = ports[buffer.value] if buffer.storage == "input" else ports.get(buffer.storage, "")
        roots.append((variable, buffer, port, source.workspace.offsets.get(root, 0)))
    used = {b.value for n, b in program.buffers.items() if b.storage == "input" and n not in skip}
    text = render(
        "emit/model.c.j2", s=source, roots=roots, command=command, variables=variables,
        used_inputs=used, format_array=format_array, call_text=call_text, clear_lines=clear_lines,
    )  # fmt: skip
    return tidy(text)


def call_text(call: Call) -> Sequence[str]:
    """The statements that run a step."""
    text = f"{call.symbol}({', '.join(call.arguments)});"
    if call.images > 1:
        return [f"for (int n = 0; n < {call.images}; ++n) {{", text, "}"]
    return [text]
