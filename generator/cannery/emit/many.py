"""Functions that run the network on several images at once, for `<name>_run_many`.

A chunk of images runs phase by phase (`cannery.lowering.stack`): loops over the images with the
code of the single network, in its memory, and between them stacked steps with their own code.
Values that pass from one phase to the next have memory for every image, after the single network's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from cannery.ctext.halves import make_kernel
from cannery.ctext.known import KnownConstants
from cannery.ctext.tidy import tidy
from cannery.emit.halo import clear_lines
from cannery.emit.hooks import Hooks
from cannery.emit.interface import ITEM, Tensor
from cannery.emit.steps import call_text, make_job, root_variables, step_symbol
from cannery.layouts import image_dims
from cannery.lowering.lifetimes import buffer_bytes
from cannery.lowering.memory_plan import Allocation, plan_memory
from cannery.lowering.stack import Stack, StackPhase, phases, spread_roots, stacked_graph
from cannery.schedule.program import VIEW, Choice, Program
from cannery.schedule.schedule import Kernel
from cannery.target.isa import Isa

if TYPE_CHECKING:
    from cannery.emit.source import Source


@dataclass(frozen=True)
class StackedStep:
    """The code of a stacked step; `aliases` are constants (name, same as) that already exist."""

    index: int
    symbol: str
    choice: Choice
    kernel: Kernel
    aliases: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Chunk:
    """This many images at once: `steps` by their index in the program, offsets after its memory."""

    images: int
    phases: tuple[StackPhase, ...]
    steps: Mapping[int, StackedStep]
    offsets: Mapping[str, int]
    bytes: int


@dataclass(frozen=True)
class Many:
    """The chunks, largest first; none: image by image. `spare` is memory for other purposes."""

    chunks: tuple[Chunk, ...] = ()
    spare: int = 0

    @property
    def largest(self) -> int:
        """Images of the largest chunk; 0 without."""
        return max((chunk.images for chunk in self.chunks), default=0)

    @property
    def steps(self) -> list[StackedStep]:
        """The stacked steps of all chunks."""
        return [step for chunk in self.chunks for step in chunk.steps.values()]

    @property
    def bytes(self) -> int:
        """Memory in addition to the single network's."""
        return max((chunk.bytes for chunk in self.chunks), default=0) + self.spare

    @property
    def kernels(self) -> list[Kernel]:
        """The code of all stacked steps."""
        return [step.kernel for step in self.steps]

    @property
    def constant_bytes(self) -> int:
        """Weights that are stored again, because they are packed differently."""
        return sum(int(c.values.nbytes) for kernel in self.kernels for c in kernel.constants)


@dataclass
class ManyMaker:
    """Makes the kernels of stacked steps; `known` are the constants that exist already."""

    program: Program
    isa: Isa
    name: str
    stacks: Sequence[Stack]
    known: KnownConstants
    steps: list[StackedStep] = field(default_factory=list)

    def kernels(self) -> Iterator[Kernel]:
        """The kernels of all chunks, without constants that exist already."""
        for stack in self.stacks:
            for phase in phases(self.program, stack):
                if phase.stacked:
                    step = self._step(stack, phase.steps[0])
                    self.steps.append(step)
                    yield step.kernel

    def _step(self, stack: Stack, index: int) -> StackedStep:
        planned = self.program.steps[index]
        choice = stack.choices[planned.step.outputs[0]]
        planned = replace(planned, choice=choice)
        symbol = step_symbol(f"{self.name}_X{stack.images}", index, planned)
        job = make_job(self.program, planned, self.isa, symbol)
        graph = stacked_graph(self.program.graph, planned.step, stack.images)
        kernel = make_kernel(choice.schedule, replace(job, graph=graph))
        if not kernel.whole or kernel.band or kernel.scratch_bytes:
            raise AssertionError(f"{choice.schedule.id} cannot be stacked")
        kernel, aliases = self.known.taken_from(replace(kernel, code=tidy(kernel.code)))
        return StackedStep(index, symbol, choice, kernel, aliases)

    def finish(self, kernels: Sequence[Kernel]) -> Many:
        """The chunks; `kernels` are those that were made, perhaps with fewer constants."""
        made = iter(zip(self.steps, kernels, strict=True))
        chunks = []
        for stack in self.stacks:
            parts = phases(self.program, stack)
            count = sum(phase.stacked for phase in parts)
            steps = [replace(s, kernel=k) for s, k in islice(made, count)]
            offsets, size = _place(self.program, parts, stack.images)
            by_index = {step.index: step for step in steps}
            if count:
                chunks.append(Chunk(stack.images, parts, by_index, offsets, size))
        return Many(tuple(chunks))


def _place(
    program: Program, parts: Sequence[StackPhase], images: int
) -> tuple[dict[str, int], int]:
    """Offsets and total size of the memory that every image has for itself."""
    blocks = [
        Allocation(root, images * buffer_bytes(program, root), first, last)
        for root, (first, last) in spread_roots(program, parts).items()
    ]
    plan = plan_memory(blocks)
    return plan.offsets, plan.bytes


def chunk_lines(source: Source, chunk: Chunk) -> list[str]:
    """The function that runs one chunk."""
    return _ChunkText(source, chunk).lines()


@dataclass(frozen=True)
class _ChunkText:
    source: Source
    chunk: Chunk

    def lines(self) -> list[str]:
        source = self.source
        head = f"static void {source.name}_many{self.chunk.images}"
        lines = [f"{head}(void *workspace, {source.many_parameters})", "{"]
        body = [*self._all_images(), *self._hooks.begin]
        for number, phase in enumerate(self.chunk.phases):
            body += self._stacked(phase) if phase.stacked else self._loop(phase, number)
        works = any("(ws + " in line for line in body)
        lines += ["char *const ws = (char *)workspace;" if works else "(void)workspace;", *body]
        used = {tensor.source for root, tensor in source.ports.items() if root in self._touched}
        for tensor in (*source.inputs, *source.outputs):
            if tensor.source not in used:
                lines += [f"(void){name};" for name in (tensor.name, *tensor.strides)]
        return [*lines, "}"]

    @property
    def _hooks(self) -> Hooks:
        return Hooks(self.source, dump=False)

    @property
    def _variables(self) -> dict[str, str]:
        return root_variables(self.source.program)

    @property
    def _touched(self) -> set[str]:
        program = self.source.program
        return set(program.roots(range(len(program.steps))))

    def _type(self, root: str) -> str:
        """`const float *const`, without the trailing space."""
        buffer = self.source.program.buffers[root]
        const = "const " if buffer.storage in ("input", VIEW) else ""
        return f"{const}{buffer.layout.dtype.c_name} *const"

    def _all_images(self) -> list[str]:
        """Pointers to the memory of each image."""
        stacked = set(self.source.program.roots(self.chunk.steps))
        lines = []
        base = self.source.many_bytes - self.source.many.bytes
        for root, variable in self._variables.items():
            start = f"{self._type(root)} all_{variable} = "
            tensor = self.source.ports.get(root)
            if root in self.chunk.offsets:
                plain = self._type(root).removesuffix("const")
                place = f"ws + {base + self.chunk.offsets[root]}"
                lines.append(f"{start}({plain})(void *)({place});")
            elif tensor is not None and root in stacked:
                lines.append(f"{start}{tensor.name};")
        return lines

    def _stacked(self, phase: StackPhase) -> list[str]:
        (index,) = phase.steps
        planned = self.source.program.steps[index]
        roots = [
            self.source.program.buffers[name].root for name in (*planned.reads, *planned.writes)
        ]
        arguments = ", ".join(f"all_{self._variables[root]}" for root in roots)
        call = f"{self.chunk.steps[index].symbol}({arguments});"
        return [call, *self._hooks.after(index, self.chunk.images)]

    def _loop(self, phase: StackPhase, number: int) -> list[str]:
        """The steps of a phase for one image after the other."""
        source, program = self.source, self.source.program
        lines = [f"for (int {ITEM} = 0; {ITEM} < {self.chunk.images}; ++{ITEM}) {{"]
        lines += [self._one_image(root) for root in program.roots(phase.steps)]
        before = [k for earlier in self.chunk.phases[:number] for k in earlier.steps]
        seen = set(program.roots(before))
        for index in phase.steps:
            call = source.calls[index]
            for root in program.roots([index]):
                buffer = program.buffers[root]
                spread = root in self.chunk.offsets and bool(buffer.layout.halo)
                if root in call.clears or (spread and root not in seen):
                    lines += clear_lines(self._variables[root], buffer)
                seen.add(root)
            lines += [*call_text(call), *self._hooks.after(index)]
        return [*lines, "}"]

    def _one_image(self, root: str) -> str:
        """The declaration of a root's pointer in a loop over images."""
        variable, buffer = self._variables[root], self.source.program.buffers[root]
        tensor: Tensor | None = self.source.ports.get(root)
        start = f"{self._type(root)} {variable} = "
        if root in self.chunk.offsets:
            stride = image_dims(buffer.type)[0] * buffer.layout.elements
            return f"{start}all_{variable} + {ITEM} * {stride};"
        if tensor is not None and tensor.view:
            return f"{start}{tensor.name}[{ITEM}];"
        if tensor is not None:
            return f"{start}{tensor.name} + {ITEM} * {tensor.type.elements};"
        plain = self._type(root).removesuffix("const")
        at = self.source.workspace.offsets[root]
        return f"{start}({plain})(void *)(ws + {at});"
