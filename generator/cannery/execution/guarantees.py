"""What is certain about a network's compiled code: stack, memory, calls, what runs, numbers.

The stack is computed from the machine code of a whole program, over all paths, and compared with
what a run under an emulator writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cannery.analysis.disassembly import disassemble, machine_of
from cannery.analysis.stack import StackUse
from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.source import Source
from cannery.errors import ToolchainError
from cannery.execution.flow import Flow, flow_of
from cannery.execution.numbers import UNIT_BOX, Numbers, box_samples, numbers_of
from cannery.execution.program import NetworkProgram, network_program
from cannery.execution.sizes import library_sections, read_stack_usage
from cannery.measure.elf import SectionSizes
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain

#: Functions of the C library that generated code may call.
ALLOWED = frozenset({"memcpy", "memset"})

#: Functions that take memory from a heap, or give it back.
_HEAP = re.compile(
    r"_?(m|c|re|aligned_)alloc(_r)?|_?free(_r)?|_?sbrk(_r)?|posix_memalign|_Zn[wa]\w+"
)

#: What a compiler calls for arithmetic that the processor does not have, by its names.
_ARITHMETIC = re.compile(r"__\w+")

#: What `cannery_model` calls, by the names of its members and of the functions behind them.
_MEMBERS = {"run": "run_any", "run_many": "run_many_any", "reset": "", "step": "step_any"}

#: Inputs that the code is run on.
SAMPLES = 3

#: Bytes painted beyond what the code is computed to need: whether more is written shows there.
_MARGIN = 4096


@dataclass(frozen=True)
class StackBound:
    """The most stack that a call of a function takes below its caller, over all paths.

    `path` are the functions that need it; the lowest `padding` bytes no instruction names.
    `painted` are the bytes down to the lowest that a run under the emulator wrote (None: it was not
    run).
    """

    function: str
    bytes: int
    path: tuple[str, ...]
    padding: int = 0
    painted: int | None = None

    @property
    def remark(self) -> str:
        """Why the run wrote less, or that the bound does not hold; empty if both are equal."""
        if self.painted is None or self.painted == self.bytes:
            return ""
        if self.painted > self.bytes:
            return "the run needed more: the bound is wrong"
        missing = self.bytes - self.painted
        if missing == self.padding:
            return f"the lowest {missing} are padding"
        return f"the run did not write the lowest {missing}: it took other paths"


@dataclass(frozen=True)
class Calls:
    """What the code may call besides its own functions, and what would make its stack unbounded.

    `library` are functions of the C library, `arithmetic` those of the compiler for what the
    processor lacks, `heap` those that allocate. `recursive` functions may call themselves,
    `indirect` ones call through a pointer, `unknown` ones move the stack pointer in a way that is
    not understood: for those the compiler's figure counts.
    """

    library: tuple[str, ...]
    arithmetic: tuple[str, ...]
    heap: tuple[str, ...]
    recursive: tuple[str, ...]
    indirect: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def unexpected(self) -> tuple[str, ...]:
        """Functions of the C library that generated code should not call."""
        return tuple(name for name in self.library if name not in ALLOWED)


@dataclass(frozen=True)
class Memory:
    """Bytes of the library: sections, and the memory that its caller provides.

    `fast` is a region of fast memory beside the `workspace`, `many_workspace` the memory of
    `<name>_run_many`. A static workspace of the size of `workspace`, and of `fast`, is in a program
    only if it calls `<name>_run`.
    """

    sections: SectionSizes
    workspace: int
    fast: int
    many_workspace: int
    state: int

    @property
    def flash(self) -> int:
        """Code, constants and initial values of variables."""
        return self.sections.code + self.sections.constants + self.sections.data

    @property
    def variables(self) -> int:
        """Variables of the library itself, outside of the workspace."""
        return self.sections.data + self.sections.zeros


@dataclass(frozen=True)
class Guarantees:
    """All of it, for one compiler and target."""

    stack: tuple[StackBound, ...]
    calls: Calls
    memory: Memory
    flow: Flow
    numbers: Numbers

    @property
    def broken(self) -> tuple[str, ...]:
        """What contradicts a bound, as text; empty if nothing does."""
        stack = (
            f"{bound.function} wrote {bound.painted} bytes of stack, the bound is {bound.bytes}"
            for bound in self.stack if (bound.painted or 0) > bound.bytes
        )  # fmt: skip
        return (*stack, *self.flow.broken, *self.numbers.broken)


def guarantees(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain, runner: Runner,
    count: int, box: tuple[float, float] = UNIT_BOX,
) -> Guarantees:  # fmt: skip
    """Compile a network as a library and as a program, and run that with `count` random inputs.

    Errors of floats are bounded for inputs between the two numbers of `box`.

    Raises ToolchainError, also for processors whose stack is not understood.
    """
    with temporary_folder() as folder:
        sections, _ = library_sections(folder, source, files, toolchain)
    memory = Memory(
        sections, source.slow_bytes, source.fast_bytes, source.many_bytes - source.fast_bytes,
        source.states.bytes,
    )  # fmt: skip
    told = replace(toolchain, cflags=(*toolchain.cflags, "-fstack-usage"))
    samples = box_samples(source.graph, count, box)
    with network_program(source, files, told, samples) as program:
        use = _stack_use(program, toolchain)
        own = _public(source, files, use)
        painted = _painted(program, runner, use, own)
        flow = flow_of(program, files, use, runner, toolchain.target.name)
        numbers = numbers_of(program, runner, samples, box)
    return Guarantees(painted, _calls(use, own), memory, flow, numbers)


def _stack_use(program: NetworkProgram, toolchain: Toolchain) -> StackUse:
    """The functions of a program, whose objects were compiled with -fstack-usage."""
    if machine_of(program.executable).is_x86:
        raise ToolchainError(
            "the stack of x86 code is not followed", where=f"target {toolchain.target.name}",
            cure="name a microcontroller: --target cortex-m4",
        )  # fmt: skip
    machine, functions = disassemble(program.executable, toolchain.compiler)
    folder, name = program.executable.parent, program.source.name
    return StackUse(machine, functions, read_stack_usage(sorted(folder.glob(f"{name}*.su"))))


def _public(source: Source, files: Mapping[str, Content], use: StackUse) -> list[str]:
    """The functions that the network's header declares, in its order, as far as they exist."""
    header = files[f"{source.name}.h"][:].decode()
    named = re.findall(rf"^[^/*#\n]*\b({re.escape(source.name)}_\w+)\(", header, re.M)
    return [name for name in dict.fromkeys(named) if use.has(name)]


def _painted(
    program: NetworkProgram, runner: Runner, use: StackUse, public: Sequence[str]
) -> tuple[StackBound, ...]:
    """The bounds of all functions, and of those that `cannery_model` has what a run writes."""
    bounds = [_bound(use, name) for name in public]
    name = program.source.name
    members = {key: behind or f"{name}_{key}" for key, behind in _MEMBERS.items()}
    room = max(bound.bytes for bound in bounds) + _MARGIN
    for key, below in program.stacks(runner, room).items():
        bound = _bound(use, members[key])
        bounds.append(replace(bound, function=f"{name}_model.{key}", painted=below))
    return tuple(bounds)


def _bound(use: StackUse, name: str) -> StackBound:
    found = use.depth(name)
    return StackBound(name, found.bytes, found.path, found.padding)


def _calls(use: StackUse, public: Sequence[str]) -> Calls:
    """What the public functions may reach."""
    others = [name for name in use.reached(public) if not use.is_own(name)]
    heap = [name for name in others if _HEAP.fullmatch(name)]
    arithmetic = [n for n in others if _ARITHMETIC.fullmatch(n) and n not in heap]
    library = [name for name in others if name not in (*heap, *arithmetic)]
    return Calls(
        tuple(library), tuple(arithmetic), tuple(heap), use.recursive(public),
        use.indirect(public), use.inexact(public),
    )  # fmt: skip
