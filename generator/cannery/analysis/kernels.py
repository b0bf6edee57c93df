"""The code that a compiler makes of each step of a network, and its most important loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cannery.analysis.disassembly import Function, Machine, disassemble
from cannery.analysis.loops import find_regions, split_blocks
from cannery.analysis.mix import Piece, count_mix, framed_effects
from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.source import Source
from cannery.emit.steps import Call
from cannery.errors import ToolchainError
from cannery.target.toolchain import Toolchain

#: How often a loop is assumed to run each time it is reached, as the true number is unknown.
TRIPS = 8


@dataclass(frozen=True)
class StepCode:
    """A step's machine code: its pieces, hottest first; none if it computes nothing."""

    name: str
    schedule: str
    macs: int
    pieces: tuple[Piece, ...]

    @property
    def hot(self) -> Piece | None:
        """The piece where the step presumably spends most of its time."""
        return self.pieces[0] if self.pieces else None


def function_pieces(function: Function, machine: Machine) -> Iterator[Piece]:
    """The loops of a function, and the code in none, without empty ones."""
    blocks = split_blocks(function, machine)
    effects = framed_effects(blocks, machine)
    for region in find_regions(blocks):
        code = tuple(i for k in region.blocks for i in blocks[k].instructions)
        mix = count_mix(chain.from_iterable(effects[k] for k in region.blocks))
        if code:
            yield Piece(function.name, region.depth, region.innermost, code, mix)


def hotness(piece: Piece) -> tuple[int, int, int]:
    """What to sort by: elements multiplied, then arithmetic, then instructions, times the trips.

    A multiplication needs one addition or, fused, none. If there are many more, as in Winograd's
    transforms, multiplying is not the purpose of the code. Of loops with equal products, the one
    with the fewest instructions is the kernel; the others treat remainders.
    """
    trips = TRIPS**piece.depth
    mix = piece.mix
    sums = max(min(mix.multiplies, 2 * mix.multiplies - mix.adds), 0)
    if products := mix.lanes * sums // max(mix.multiplies, 1):
        return (products * trips, -mix.instructions, 0)
    return (0, (mix.multiplies + mix.adds) * trips, mix.instructions * trips)


def step_codes(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain
) -> tuple[Machine, tuple[StepCode, ...]]:
    """Compile a network and take its steps apart. Raises ToolchainError.

    Every kernel stays a separate function; in a library, compilers may merge several.
    """
    with temporary_folder() as folder:
        machine, functions = disassemble(
            compile_apart(folder, source, files, toolchain), toolchain.compiler
        )
    return machine, tuple(_step_code(source, call, functions, machine) for call in source.calls)


def compile_apart(
    folder: Path, source: Source, files: Mapping[str, Content], toolchain: Toolchain
) -> Path:
    """The object file of a network in which every kernel is a function. Raises ToolchainError."""
    for name, data in apart(source, files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    main = folder / f"{source.name}.c"
    flags = [*toolchain.cflags, *apart_flags(toolchain), *object_flags(toolchain), "-w"]
    toolchain.compiler.compile(main, main.with_suffix(".o"), flags, [folder])
    return main.with_suffix(".o")


def apart_flags(toolchain: Toolchain) -> tuple[str, ...]:
    """Flags that keep equal kernels separate functions too; clang never merges them."""
    return ("-fno-ipa-icf",) if toolchain.compiler.kind == "gcc" else ()


def object_flags(toolchain: Toolchain) -> tuple[str, ...]:
    """Flags that make an object file, not only the linked program, say where its branches go."""
    return ("-mno-relax",) if toolchain.target.triple.startswith("riscv") else ()


def apart(source: Source, files: Mapping[str, Content]) -> dict[str, Content]:
    """Generated files with kernels that are not inlined into their caller."""
    main = f"{source.name}.c"
    text = files[main][:].decode()
    for call in source.calls:
        head = f"static void {call.symbol}("
        text = text.replace(head, f"__attribute__((noinline)) {head}")
    return {**files, main: text.encode()}


def _step_code(
    source: Source, call: Call, functions: Sequence[Function], machine: Machine
) -> StepCode:
    step = call.planned.step
    own = step_functions(source, call, functions)
    pieces = sorted((p for f in own for p in function_pieces(f, machine)), key=hotness)
    macs = step.macs(source.graph)
    return StepCode(step.name, str(call.planned.choice), macs, tuple(reversed(pieces)))


def step_functions(source: Source, call: Call, functions: Sequence[Function]) -> list[Function]:
    """The functions of a step begin with its number; so do its helpers' and the compiler's clones.

    Raises ToolchainError if a kernel has no separate function.
    """
    prefix = step_prefix(source, call)
    own = [f for f in functions if f.name.startswith(prefix)]
    if call.kernel.code.strip() and not own:
        raise ToolchainError(
            f"no function {call.symbol} in the object file",
            where=f"step {call.planned.step.name!r}",
            cure="leave out --cflags that merge functions, such as -flto",
        )
    return own


def step_prefix(source: Source, call: Call) -> str:
    """The prefix of a step's functions: `ball_L03_`."""
    prefix = re.match(rf"{re.escape(source.name)}_L\d+_", call.symbol)
    assert prefix
    return prefix[0]
