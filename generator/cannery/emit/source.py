"""From a Program to C text: kernels in order, constants, the run function, the interface."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from cannery import __version__
from cannery.ctext.apart import pull_apart
from cannery.ctext.arrays import WeightBlob, all_apart, as_bytes, format_array, split_constants
from cannery.ctext.base_pointer import VARIABLE, with_base_pointer
from cannery.ctext.environment import render
from cannery.ctext.tidy import tidy
from cannery.emit.halo import clear_lines
from cannery.emit.hooks import Hooks, hooks_text
from cannery.emit.interface import Tensor, interface, joined, parameters
from cannery.emit.many import Many, ManyMaker, chunk_lines
from cannery.emit.parallel import Parallel, make_parallel, parallel_text
from cannery.emit.split import step_files
from cannery.emit.states import States, make_states
from cannery.emit.steps import (
    Call,
    call_text,
    make_job,
    root_variables,
    step_symbol,
    unused_roots,
)
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from cannery.layouts import image_dims
from cannery.lowering.cores import Cores
from cannery.lowering.lifetimes import Workspace, plan_workspace
from cannery.lowering.memory_plan import align
from cannery.lowering.rings import find_rings
from cannery.lowering.stack import Stack
from cannery.ops.shared.function import kernel_of_nothing
from cannery.options import MAX_LINES
from cannery.schedule.ahead import weights_ahead
from cannery.schedule.program import VIEW, PlannedStep, Program
from cannery.schedule.schedule import Job, Kernel, Schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Source:
    """Everything that the templates of the output files read.

    `max_error` is the bound of max|y - ref| / max|ref| that the network was made for. With `dump`
    the library can show the values of a run, with `trace` it counts the time of its steps, with
    `compiled_nn` it has CompiledNN's interface. `metadata` and `class_names` are texts that it
    returns. A `part` is one instruction set of several.
    `test`, of a network whose weights are apart, is all of them with what the self-test reads;
    `options` are the words of the command line that make the same code again.
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
    many: Many = field(default_factory=Many)
    parallel: Parallel | None = None
    states: States = field(default_factory=States)
    split: int = 1
    shared: bool = False
    dump: bool = False
    trace: bool = False
    compiled_nn: bool = False
    metadata: bool = False
    class_names: tuple[str, ...] = ()
    part: bool = False
    test: WeightBlob | None = None
    options: tuple[str, ...] = ()

    @property
    def apart(self) -> bool:
        """Whether programs give the weights, and no constant is in the code."""
        return self.graph.weights_vary

    @property
    def weights_variable(self) -> str:
        """What begins the names of constants that are apart."""
        return VARIABLE

    @property
    def weights_bytes(self) -> int:
        """Those that the program gives, without their head."""
        return len((self.test or self.blob).data)

    @property
    def next_states_at(self) -> int:
        """Where a step writes the next states in the workspace."""
        return self.states.next_at(max(self.workspace.bytes, 64))

    @property
    def single_bytes(self) -> int:
        """Memory for one run or one step."""
        return self.states.workspace_bytes(max(self.workspace.bytes, 64))

    @property
    def many_bytes(self) -> int:
        """Memory for `run_many`."""
        return self.single_bytes + self.many.bytes

    @property
    def step_inputs(self) -> tuple[Tensor, ...]:
        """The inputs without the states."""
        return self.inputs[: len(self.inputs) - len(self.states.slots)]

    @property
    def step_outputs(self) -> tuple[Tensor, ...]:
        """The outputs without the next states."""
        return self.outputs[: len(self.outputs) - len(self.states.slots)]

    @property
    def step_parameters(self) -> str:
        """Those of `step` for its tensors, with their types; a comma before each."""
        text = joined(parameters(self.step_inputs, self.step_outputs))
        return f", {text}" if text else ""

    @property
    def step_arguments(self) -> str:
        """The names of these parameters; a comma before each."""
        tensors = (*self.step_inputs, *self.step_outputs)
        return "".join(f", {name}" for t in tensors for name in (t.name, *t.strides))

    @property
    def parallel_base_bytes(self) -> int:
        """Memory for `run_parallel`, without that of further threads."""
        return align(self.single_bytes)

    @property
    def thread_bytes(self) -> int:
        """Memory of each thread of `run_parallel` except the first."""
        return self.parallel.thread_bytes if self.parallel else 0

    @property
    def many_thread_bytes(self) -> int:
        """Memory of each thread of `run_many_parallel`."""
        return align(self.many_bytes)

    def own_parameters(self, *, many: bool) -> list[tuple[str, str]]:
        """Types and names of those of `run`, or `run_many`, for its tensors."""
        return parameters(self.inputs, self.outputs, many=many, length=self.max_length > 0)

    @property
    def parameters(self) -> str:
        """Those of `run` for its tensors, with their types."""
        return joined(self.own_parameters(many=False))

    @property
    def many_parameters(self) -> str:
        """Those of `run_many` for its tensors; a view is n pointers."""
        return joined(self.own_parameters(many=True))

    @property
    def arguments(self) -> str:
        """The names of the parameters."""
        return ", ".join(name for _, name in self.own_parameters(many=False))

    @property
    def many_arguments(self) -> str:
        """The names of those of `run_many`."""
        return ", ".join(name for _, name in self.own_parameters(many=True))

    @property
    def max_length(self) -> int:
        """The most steps of sequences, if they may have fewer; else 0."""
        return self.graph.length.steps if self.graph.length else 0

    @property
    def time_axes(self) -> dict[str, int]:
        """The time axis of each input and output that has one, by C name."""
        times = self.graph.length.times if self.graph.length else {}
        tensors = (*self.inputs, *self.outputs)
        return {t.name: t.axis(times[t.source]) for t in tensors if t.source in times}

    @property
    def ports(self) -> dict[str, Tensor]:
        """The roots in the caller's memory."""
        tensors = {t.source: t for t in self.inputs}
        outputs = {f"output{k}": t for k, t in enumerate(self.outputs)}
        found = {}
        for name, buffer in self.program.buffers.items():
            if buffer.root == name and buffer.storage in outputs:
                found[name] = outputs[buffer.storage]
            elif buffer.root == name and buffer.storage != "arena":
                found[name] = tensors[buffer.value]
        return found

    @property
    def macs(self) -> int:
        return sum(call.planned.step.macs(self.graph) for call in self.calls)

    @property
    def needs_math(self) -> bool:
        kernels = (*(c.kernel for c in self.calls), *self.many.kernels)
        return any(kernel.needs_math for kernel in kernels)

    @property
    def needs_table(self) -> bool:
        kernels = (*(c.kernel for c in self.calls), *self.many.kernels)
        return any(kernel.needs_table for kernel in kernels)

    @property
    def scalar_math(self) -> bool:
        return any(c.kernel.scalar_math for c in self.calls)


def model_hash(graph: Graph) -> str:
    """Sixteen hex digits that change with the graph or any weight."""
    digest = hashlib.sha256(format_graph(graph).encode())
    for name in sorted(graph.constants):
        digest.update(name.encode())
        digest.update(as_bytes(graph.constants[name]))
    return digest.hexdigest()[:16]


#: Stands in generated text for the hash of all of it, where weights are apart.
LAYOUT_HASH = "<layout-of-code>"


def _reading(code: str, name: str, blob: WeightBlob) -> str:
    """Code that reads the arrays of a blob through the pointer that the program sets."""
    names = [array for array, _, _ in blob.offsets]
    return with_base_pointer(code, names, f"CANNERY_WEIGHTS_AT({name}_weights_base)")


def _kernel(schedule: Schedule, job: Job) -> Kernel:
    """The kernel of a step; it does nothing if there is nothing to compute."""
    if not any(job.type(value).elements for value in job.step.outputs):
        return kernel_of_nothing(job)
    return schedule.kernel(job)


def make_source(
    program: Program,
    isa: Isa,
    name: str,
    rename: Mapping[str, str],
    stacks: Sequence[Stack] = (),
    cores: Cores | None = None,
    max_lines: int = MAX_LINES,
    *,
    rings: bool = True,
) -> Source:
    """Generate all kernels, in functions of `max_lines`, and lay out the workspace.

    `stacks` are what `run_many` computes at once, largest first. With `cores`, the network may run
    on several cores. `rings`: whether states may be kept in place.
    """
    symbols = [step_symbol(name, k, p) for k, p in enumerate(program.steps)]
    jobs = (
        make_job(program, p, isa, s, cut=cores is not None, ahead=ahead)
        for p, s, ahead in zip(program.steps, symbols, weights_ahead(program, isa), strict=True)
    )
    made = (_kernel(p.choice.schedule, job) for p, job in zip(program.steps, jobs, strict=True))
    maker = ManyMaker(program, isa, name, stacks)
    apart = program.graph.weights_vary
    all_kernels = chain(maker.noting(made), maker.kernels())
    kernels, blob = (all_apart if apart else split_constants)(name, all_kernels)
    kernels, stacked = kernels[: len(symbols)], kernels[len(symbols) :]
    workspace = plan_workspace(program, [k.scratch_bytes for k in kernels])
    views = [b.value for b in program.buffers.values() if b.storage == VIEW]
    inputs, outputs = interface(program.graph, rename, program.io_order, views)
    variables = root_variables(program)
    ports = {t.source: t for t in inputs}
    calls = []
    for k, (planned, symbol, kernel) in enumerate(
        zip(program.steps, symbols, kernels, strict=True)
    ):
        clears = tuple(n for n, first in workspace.zeroed.items() if first == k)
        pointers = _pointers(program, planned, kernel, variables, ports)
        scratch = f"(float *)(void *)(ws + {workspace.scratch[k]})" if kernel.scratch_bytes else ""
        written = program.buffers[planned.writes[0]]
        images = 1 if kernel.whole else image_dims(written.type)[0]
        code = pull_apart(tidy(kernel.code), symbol, max_lines)
        kernel = replace(kernel, code=_reading(code, name, blob) if apart else code)
        rows = written.layout.shape[0]
        calls.append(Call(planned, symbol, kernel, pointers, scratch, rows, images, clears))
    if apart:
        stacked = [replace(k, code=_reading(k.code, name, blob)) for k in stacked]
    states = make_states(program.graph, inputs, outputs, find_rings(program) if rings else ())
    if apart:
        initial = blob.followed_by(s.constant for s in states.slots if s.constant)
        blob = replace(initial, offsets=(*blob.offsets, *initial.offsets))
    return Source(
        name, program.graph, isa, program, workspace, tuple(calls), inputs, outputs,
        LAYOUT_HASH if apart else model_hash(program.graph), blob, many=maker.finish(stacked),
        parallel=make_parallel(program, isa, calls, cores) if cores else None, states=states,
    )  # fmt: skip


def _pointers(
    program: Program, planned: PlannedStep, kernel: Kernel, variables: Mapping[str, str],
    ports: Mapping[str, Tensor],
) -> tuple[str, ...]:  # fmt: skip
    arguments = []
    batched = not kernel.whole and image_dims(program.buffers[planned.writes[0]].type)[0] > 1
    for name in (*planned.reads, *planned.writes):
        buffer = program.buffers[name]
        pointer = variables[buffer.root]
        arguments.append(f"{pointer} + n * {buffer.layout.elements}" if batched else pointer)
        if buffer.storage == VIEW:
            arguments += ports[buffer.value].strides
    return tuple(arguments)


def render_model(source: Source, command: str, *, lap: str = "") -> str:
    """The text of `<name>.c`. With `lap`, a C function, it calls that with each step's number."""
    program = source.program
    variables = root_variables(program)
    roots = []
    skip = unused_roots(program)
    ports = source.ports
    for root, variable in variables.items():
        if root not in skip:
            port = ports[root].name if root in ports else ""
            at = source.workspace.offsets.get(root, 0)
            roots.append((variable, program.buffers[root], port, at))
    used = {tensor.source for root, tensor in ports.items() if root not in skip}
    text = render(
        "emit/model.c.j2", s=source, roots=roots, command=command, variables=variables, lap=lap,
        hooks=Hooks(source, lap), hook_functions=hooks_text(source),
        used_inputs=used, format_array=format_array, call_text=call_text, clear_lines=clear_lines,
        no_states=States(), numbers={call.symbol: k for k, call in enumerate(source.calls)},
        files=step_files(source), calls=source.calls, stacked=source.many.steps,
        code=lambda step: step.kernel.code,
        chunks=[chunk_lines(source, chunk) for chunk in source.many.chunks],
        parallel=parallel_text(source) if source.parallel else "",
    )  # fmt: skip
    return tidy(text)
