"""What the templates of the output files read, and the text of the main one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from cannery import __version__
from cannery.contents import array_pieces
from cannery.ctext.arrays import WeightBlob, format_array
from cannery.ctext.base_pointer import VARIABLE
from cannery.ctext.environment import render
from cannery.ctext.tidy import tidy
from cannery.emit.body import make_body
from cannery.emit.halo import clear_lines
from cannery.emit.hooks import hooks_text
from cannery.emit.interface import Tensor, joined, parameters, timed_tensors
from cannery.emit.many import Many, StackedStep, chunk_lines
from cannery.emit.parallel import Parallel, parallel_text
from cannery.emit.split import step_files
from cannery.emit.states import States, counts_calls
from cannery.emit.steps import Call, call_text
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from cannery.lowering.lifetimes import Workspace
from cannery.lowering.memory_plan import align
from cannery.lowering.periods import step_periods
from cannery.schedule.program import Program
from cannery.schedule.schedule import Kernel
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
    `blocks` are the same network for calls of further sizes, whose code and constants lie with
    these, and whose memory begins `base` bytes after that of the workspace. `least_step` is what
    other instruction sets of the library need for a step.
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
    blocks: tuple[Source, ...] = ()
    base: int = 0
    least_step: int = 0

    @property
    def turns(self) -> bool:
        """Whether kernels of a step read weights in an order that alternates from call to call."""
        return self.states.turns and any(call.kernel.turns for call in self.calls)

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
        return self.states.next_at(self._end_of_steps)

    @property
    def _end(self) -> int:
        return self.base + max(self.workspace.bytes, self.fast_bytes + 64)

    @property
    def _end_of_steps(self) -> int:
        return self.base + max(self.workspace.of_steps, self.fast_bytes + 64)

    @property
    def step_workspace(self) -> int:
        """Memory for a step of this size, without the fast region."""
        own = self.states.workspace_bytes(self._end_of_steps) - self.fast_bytes
        return max(own, self.least_step)

    @property
    def steps_workspace(self) -> int:
        """Memory for steps of any size."""
        return max(source.step_workspace for source in (self, *self.blocks))

    @property
    def stepping_bytes(self) -> int:
        """The same for all that works on a state: steps of any size, and those of `prewarm`."""
        return max(self.steps_workspace, self._prewarm_end - self.fast_bytes)

    @property
    def _prewarm_end(self) -> int:
        return self.prewarm_at + (self.step_bytes if self.graph.calls else 0)

    @property
    def beside_bytes(self) -> int:
        """What single steps need in the workspace beside the network's buffers, at most."""
        return self._prewarm_end - self._end_of_steps

    @property
    def fast_bytes(self) -> int:
        """Those of the fast region, with which the offsets begin; 0 without one."""
        return self.workspace.fast_bytes

    @property
    def memory_parameters(self) -> str:
        """Those of functions that work in the caller's memory: the workspace, the fast region."""
        return "void *workspace, void *fast" if self.fast_bytes else "void *workspace"

    @property
    def memory_arguments(self) -> str:
        """The names of these."""
        return "workspace, fast" if self.fast_bytes else "workspace"

    @property
    def one_memory(self) -> str:
        """The same arguments of a function whose caller gives both regions as one workspace."""
        cut = f"(char *)workspace + {self.fast_bytes}, workspace"
        return cut if self.fast_bytes else "workspace"

    @property
    def slow_bytes(self) -> int:
        """Memory for one run, or one step of any size, without the fast region."""
        return self.single_bytes - self.fast_bytes

    @property
    def own_bytes(self) -> int:
        """Memory for one run or one step, without that of other blocks after it."""
        return max(self._end, self._prewarm_end)

    @property
    def prewarm_at(self) -> int:
        """Where the inputs and outputs of steps without a caller are in the workspace."""
        end = self.states.workspace_bytes(self._end_of_steps)
        return align(end) if self.graph.calls else end

    @property
    def single_bytes(self) -> int:
        """Memory for one run, or one step of any size."""
        return max(source.own_bytes for source in (self, *self.blocks))

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
    def prewarm_calls(self) -> int:
        """Calls after which silence changes nothing, see the graph's."""
        return self.graph.prewarm_calls

    @staticmethod
    def aligned(size: int) -> int:
        """Bytes that a tensor of this size takes in the workspace."""
        return align(size)

    @property
    def step_bytes(self) -> int:
        """Memory for the inputs and outputs of a step, each aligned."""
        return sum(align(t.type.bytes) for t in (*self.step_inputs, *self.step_outputs))

    @property
    def step_type(self) -> str:
        """What `step` returns: whether there are outputs, if not in each call."""
        return "int32_t" if self.graph.calls and self.graph.calls.every > 1 else "void"

    @property
    def step_parameters(self) -> str:
        """Those of `step` for its tensors, with their types; a comma before each."""
        return self.step_parameters_as("")

    @property
    def step_arguments(self) -> str:
        """The names of these parameters; a comma before each."""
        return self.step_arguments_as("")

    def step_parameters_as(self, end: str) -> str:
        """The same parameters, with `end` after their names."""
        found = parameters(self.step_inputs, self.step_outputs)
        text = joined([(type_, f"{name}{end}") for type_, name in found])
        return f", {text}" if text else ""

    def step_arguments_as(self, end: str) -> str:
        """The names of these."""
        found = parameters(self.step_inputs, self.step_outputs)
        return "".join(f", {name}{end}" for _, name in found)

    @property
    def by_size(self) -> list[Source]:
        """The network for calls of each size, largest first."""
        sizes = {b.graph.steps_of_call: b for b in (self, *self.blocks)}
        return [sizes[size] for size in sorted(sizes, reverse=True)]

    @property
    def advances(self) -> frozenset[str]:
        """The tensors whose steps follow each other in memory, and whose pointer a loop over calls
        moves on; none if there is no such loop, as where not all calls have outputs.
        """
        if counts_calls(self.graph):
            return frozenset()
        return timed_tensors([(*b.step_inputs, *b.step_outputs) for b in self.by_size])

    @property
    def advances_text(self) -> str:
        """Their names in C."""
        tensors = (*self.step_inputs, *self.step_outputs)
        return ", ".join(t.name for t in tensors if t.source in self.advances)

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
    def more_steps(self) -> list[StackedStep | Call]:
        """Steps besides the `calls`, some of whose constants are among theirs."""
        return [*self.many.steps, *(call for block in self.blocks for call in block.calls)]

    @property
    def _kernels(self) -> list[Kernel]:
        return [step.kernel for step in (*self.calls, *self.more_steps)]

    @property
    def macs(self) -> int:
        return sum(call.planned.step.macs(self.graph) for call in self.calls)

    @property
    def round_macs(self) -> tuple[int, ...]:
        """Those of each of the `calls`, in as many calls of the network as make all of them run."""
        periods, all_calls = step_periods(self.program), self.states.round
        return tuple(
            call.planned.step.macs(self.graph) * (all_calls // periods[call.number])
            for call in self.calls
        )

    @property
    def needs_math(self) -> bool:
        return any(kernel.needs_math for kernel in self._kernels)

    @property
    def needs_half(self) -> bool:
        return any(kernel.needs_half for kernel in self._kernels)

    @property
    def needs_bfloat(self) -> bool:
        return any(kernel.needs_bfloat for kernel in self._kernels)

    @property
    def needs_table(self) -> bool:
        return any(kernel.needs_table for kernel in self._kernels)

    @property
    def needs_fixed(self) -> bool:
        return any(kernel.needs_fixed for kernel in self._kernels)

    @property
    def scalar_math(self) -> bool:
        return any(kernel.scalar_math for kernel in self._kernels)


def model_hash(graph: Graph) -> str:
    """Sixteen hex digits that change with the graph or any weight."""
    digest = hashlib.sha256(format_graph(graph).encode())
    for name in sorted(graph.constants):
        digest.update(name.encode())
        for piece in array_pieces(graph.constants[name]):
            digest.update(piece)
    return digest.hexdigest()[:16]


#: Stands in generated text for the hash of all of it, where weights are apart.
LAYOUT_HASH = "<layout-of-code>"


def render_model(source: Source, command: str, *, lap: str = "") -> str:
    """The text of `<name>.c`. With `lap`, a C function, it calls that with each step's number."""
    body = make_body(source, lap)
    text = render(
        "emit/model.c.j2", s=source, body=body, command=command,
        hook_functions=hooks_text(source), block_bodies=[make_body(b) for b in source.blocks],
        format_array=format_array, call_text=call_text, clear_lines=clear_lines, lap=lap,
        no_states=States(), files=step_files(source), calls=source.calls, stacked=source.more_steps,
        code=lambda step: step.kernel.code,
        chunks=[chunk_lines(source, chunk) for chunk in source.many.chunks],
        parallel=parallel_text(source) if source.parallel else "",
    )  # fmt: skip
    return tidy(text)
