"""`<name>_run_parallel` and `<name>_run_many_parallel`: the network on the threads of a pool.

A step that is worth it (`cannery.lowering.cores`) is cut into pieces of equal size: bands of rows,
units of its kernel, both, or images. Each piece has its own scratch memory: that of piece 0 is
where `run_in` has it, the others' is after the workspace. Everything else runs in the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cannery.ctext.environment import render
from cannery.emit.halo import clear_lines
from cannery.emit.hooks import Hooks
from cannery.emit.interface import LENGTH
from cannery.emit.pieces import CutStep, piece_calls
from cannery.emit.steps import Call, call_text, root_variables
from cannery.lowering.cores import (
    IMAGES,
    ROWS,
    TILES,
    UNITS,
    Cores,
    Work,
    cut_steps,
    samples_per_piece,
    step_us,
)
from cannery.lowering.memory_plan import align
from cannery.schedule.program import VIEW, Program
from cannery.target.isa import Isa

if TYPE_CHECKING:
    from cannery.emit.source import Source

#: Pieces of this many parts are about even.
ENOUGH_PARTS = 16


@dataclass(frozen=True)
class Parallel:
    """The parts of a network that run on several cores, and the scratch memory of each except the
    first.

    `samples` is how many inputs are worth a thread.
    """

    steps: tuple[CutStep, ...]
    thread_bytes: int
    samples: int
    openmp: bool

    @property
    def by_index(self) -> dict[int, CutStep]:
        return {step.index: step for step in self.steps}


def make_parallel(program: Program, isa: Isa, calls: Sequence[Call], cores: Cores) -> Parallel:
    """Which steps are cut, and how."""
    works = list(_works(program, isa, calls))
    steps = [
        CutStep(index, work.axis, work.parts, count)
        for index, (work, count) in enumerate(zip(works, cut_steps(works, cores), strict=True))
        if count > 1
    ]
    scratch = max((calls[step.index].kernel.scratch_bytes for step in steps), default=0)
    samples = samples_per_piece(program, isa, cores)
    return Parallel(tuple(steps), align(scratch), samples, cores.openmp)


def _works(program: Program, isa: Isa, calls: Sequence[Call]) -> Iterator[Work]:
    """The data for deciding about each step."""
    buffers = program.buffers
    writers: dict[str, int] = {}
    for index, call in enumerate(calls):
        axis, parts = _axis(program, call)
        us = step_us(program.graph, call.planned, isa) * call.images
        reads = [buffers[name] for name in call.planned.reads]
        sizes = tuple((writers.get(b.root, -1), b.type.bytes) for b in reads)
        yield Work(us, axis, parts, sizes)
        writers |= {buffers[name].root: index for name in call.planned.writes}


def _axis(program: Program, call: Call) -> tuple[str, int]:
    """The axis along which to cut a step, and its parts; images of a batch count as rows.

    With bands of rows, each thread reads all weights; with units, all images. It takes the smaller.
    """
    kernel, planned = call.kernel, call.planned
    bands = -(-call.rows // kernel.band) if kernel.band else 1
    rows = call.images * bands
    weights = sum(constant.values.nbytes for constant in kernel.constants)
    images = sum(program.buffers[n].type.bytes for n in (*planned.reads, *planned.writes))
    if kernel.units and rows < ENOUGH_PARTS and kernel.units < ENOUGH_PARTS and call.images == 1:
        return (TILES, bands * kernel.units) if bands > 1 else (UNITS, kernel.units)
    if kernel.units >= ENOUGH_PARTS and (weights > images or rows < ENOUGH_PARTS):
        return UNITS, kernel.units
    return (ROWS if kernel.band else IMAGES), rows


def parallel_text(source: Source) -> str:
    """Pieces, and the functions that hand them to a pool."""
    return render("emit/parallel.c.j2", s=source, t=_Text(source), clear_lines=clear_lines)


@dataclass(frozen=True)
class _Text:
    """The functions that the template calls."""

    source: Source

    @property
    def cuts(self) -> tuple[CutStep, ...]:
        assert self.source.parallel is not None
        return self.source.parallel.steps

    def fields(self, *, many: bool) -> list[str]:
        """Members of a struct for the caller's tensors: the parameters of `run` or `run_many`."""
        return [f"{type_}io_{name};" for type_, name in self.source.own_parameters(many=many)]

    @property
    def share(self) -> str:
        """The arguments of `run_many` for a share of the inputs, after their number."""
        found = []
        for number, tensor in enumerate((*self.source.inputs, *self.source.outputs)):
            if self.source.max_length and number == len(self.source.inputs):
                found.append(f"shared->io_{LENGTH}s + first")
            step = "" if tensor.view else f" * {tensor.type.elements}u"
            found.append(f"shared->io_{tensor.name} + (size_t)first{step}")
            found += [f"shared->io_{stride}" for stride in tensor.strides]
        return ", ".join(found)

    def call(self, cut: CutStep) -> Call:
        """The whole step."""
        return self.source.calls[cut.index]

    def piece_symbol(self, cut: CutStep) -> str:
        """The function that computes one piece."""
        return f"{self.call(cut).symbol}_piece"

    def declarations(self, indices: Sequence[int], port: str) -> list[str]:
        """Pointers to what steps touch; the caller's are called `port` and their name."""
        source, program = self.source, self.source.program
        variables, ports = root_variables(program), source.ports
        lines = []
        for root in program.roots(indices):
            buffer = program.buffers[root]
            c_name = buffer.layout.dtype.c_name
            const = "const " if buffer.storage in ("input", VIEW) else ""
            if root in ports:
                place = port + ports[root].name
            else:
                place = f"({c_name} *)(void *)(ws + {source.workspace.offsets[root]})"
            lines.append(f"{const}{c_name} *const {variables[root]} = {place};")
        return lines

    def strides(self, cut: CutStep) -> list[str]:
        """The strides of views that a step reads."""
        program, ports = self.source.program, self.source.ports
        roots = program.roots([cut.index])
        return [
            name for r in roots if program.buffers[r].storage == VIEW for name in ports[r].strides
        ]

    def piece(self, cut: CutStep) -> list[str]:
        """The body of a function that computes one piece."""
        call = self.call(cut)
        lines = self.declarations([cut.index], "shared->io_")
        numbers = [*self.strides(cut), *([LENGTH] if call.kernel.stops else [])]
        lines += [f"const int32_t {name} = shared->io_{name};" for name in numbers]
        scratch = ""
        if call.kernel.scratch_bytes:
            scratch = "scratch"
            spare = f"shared->spare + (size_t)(index - 1) * {self._thread_bytes}u"
            lines.append(
                f"float *const scratch = (float *)(void *)(index ? {spare} : "
                f"ws + {self.source.workspace.scratch[cut.index]});"
            )
        if any("ws + " in line for line in lines):
            lines.insert(0, "char *const ws = shared->ws;")
        for end, which in (("first", "index"), ("last", "index + 1")):
            of = f"{cut.parts}, {which}, shared->count"
            lines.append(f"const int {end} = (int)cannery_first_part({of});")
        return [*lines, *piece_calls(call, cut, scratch)]

    @property
    def _thread_bytes(self) -> int:
        assert self.source.parallel is not None
        return self.source.parallel.thread_bytes

    def _hand_over(self, cut: CutStep) -> list[str]:
        count, symbol = "shared_pieces.count", self.piece_symbol(cut)
        return [
            f"{count} = pool->threads < {cut.pieces} ? pool->threads : {cut.pieces};",
            f"pool->run(pool->context, {count}, {symbol}, &shared_pieces);",
        ]

    def run(self) -> list[str]:
        """The steps in order: in the calling thread, or handed to the pool."""
        source = self.source
        assert source.parallel is not None
        by_index = source.parallel.by_index
        variables = root_variables(source.program)
        hooks = Hooks(source)
        lines = hooks.begin
        for index, call in enumerate(source.calls):
            for root in call.clears:
                lines += clear_lines(variables[root], source.program.buffers[root])
            cut = by_index.get(index)
            lines += self._hand_over(cut) if cut else call_text(call)
            lines += hooks.after(index)
        single = [k for k in range(len(source.calls)) if k not in by_index]
        cleared = [k for k, call in enumerate(source.calls) if call.clears]
        shown = range(len(source.calls)) if source.dump else ()
        needed = self.declarations([*single, *cleared, *shown], "")
        words = set(re.findall(r"\w+", "\n".join(lines)))
        used = [line for line in needed if _variable(line) in words]
        works = any("(ws + " in line for line in (*used, *lines))
        return [*(["char *const ws = (char *)workspace;"] if works else []), *used, *lines]


def _variable(declaration: str) -> str:
    """The name that a declaration as above declares."""
    return declaration.split(" = ")[0].split()[-1]
