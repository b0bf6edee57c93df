"""How much memory a network takes: code, constants and stack, by step and in total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.analysis.kernels import apart, apart_flags, compile_apart, step_prefix
from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.files import OPENMP_SOURCE
from cannery.emit.source import Source
from cannery.errors import ToolchainError
from cannery.measure.elf import SectionSizes, array_sizes, function_places, section_sizes
from cannery.target.toolchain import Toolchain


def code_bytes(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain
) -> tuple[int | None, ...]:
    """Bytes of code by step, None if the object file does not say. Raises ToolchainError.

    Every kernel stays a separate function; in a library, compilers may merge several.
    """
    with temporary_folder() as folder:
        places = function_places(compile_apart(folder, source, files, toolchain))
    if not places:
        return (None,) * len(source.calls)
    prefixes = [step_prefix(source, call) for call in source.calls]
    return tuple(
        sum(place.size for name, place in places.items() if name.startswith(prefix))
        for prefix in prefixes
    )


def constant_bytes(source: Source) -> tuple[int, ...]:
    """Bytes of the constants of each step, including those that large models keep in a file.

    Constants that several steps share count for each.
    """
    lengths = _blob_lengths(source)
    found = []
    for call in source.calls:
        prefix = step_prefix(source, call)
        own = sum(int(c.values.nbytes) for c in call.kernel.constants)
        large = (p for name, _, p in source.blob.offsets if name.startswith(prefix))
        found.append(own + sum(lengths[place] for place in large))
    return tuple(found)


#: Bytes below the stack that x86-64 functions may use without compilers counting them.
RED_ZONE = 128


@dataclass(frozen=True)
class StepSize:
    """Bytes of a step: its code and constants, and the stack of its functions.

    `constants` are those that the compiler keeps as arrays; shared ones count for the first step.
    """

    name: str
    schedule: str
    code: int | None
    constants: int
    stack: int


@dataclass(frozen=True)
class NetworkSize:
    """Bytes of a network as a library, without its self-test and static workspace.

    `stack` is the most that `<name>_run_in` needs, `fast` the region of the workspace in fast
    memory, beside the `workspace`, `many_workspace` the memory of `<name>_run_many`,
    `step_workspace` that of `<name>_step_in`, 0 without a state.
    """

    sections: SectionSizes
    workspace: int
    fast: int
    many_workspace: int
    step_workspace: int
    state: int
    tensors: int
    stack: int
    steps: tuple[StepSize, ...]

    @property
    def flash(self) -> int:
        """What must be stored: code, constants and initial values."""
        return self.sections.code + self.constants

    @property
    def constants(self) -> int:
        """Constants and initial values."""
        return self.sections.constants + self.sections.data

    @property
    def other_constants(self) -> int:
        """Constants outside of steps: descriptions of tensors, numbers in vectors, gaps between
        arrays.
        """
        return self.constants - sum(step.constants for step in self.steps)

    @property
    def other_code(self) -> int | None:
        """What the library has beyond its separate steps; negative if they have more."""
        codes = [step.code for step in self.steps]
        known = [code for code in codes if code is not None]
        return self.sections.code - sum(known) if len(known) == len(codes) else None


def network_size(source: Source, files: Mapping[str, Content], toolchain: Toolchain) -> NetworkSize:
    """The sizes of a network when compiled. Raises ToolchainError."""
    codes = code_bytes(source, files, toolchain)
    with temporary_folder() as folder:
        sections, arrays = library_sections(folder, source, files, toolchain)
    with temporary_folder() as folder:
        frames = _frames(folder, source, apart(source, files), toolchain, apart_flags(toolchain))
    with temporary_folder() as folder:
        joined = _frames(folder, source, files, toolchain)
    prefixes = [step_prefix(source, call) for call in source.calls]
    stacks = _step_stacks(frames, prefixes)
    steps = tuple(
        StepSize(
            call.planned.step.name, str(call.planned.choice), code,
            constants, stack,
        )
        for call, code, constants, stack in zip(
            source.calls, codes, _kept_constants(source, arrays), stacks, strict=True
        )
    )  # fmt: skip
    tensors = sum(t.type.bytes for t in (*source.inputs, *source.outputs))
    kept = sum(s.input.type.bytes + s.output.type.bytes for s in source.states.slots)
    return NetworkSize(
        sections, source.slow_bytes, source.fast_bytes, source.many_bytes - source.fast_bytes,
        source.step_workspace if source.states.slots else 0,
        source.states.bytes, tensors - kept,
        max(_stack(source, found, prefixes) for found in (frames, joined)), steps,
    )  # fmt: skip


def _step_stacks(frames: Mapping[str, int], prefixes: Sequence[str]) -> list[int]:
    """Bytes of stack of all functions of each step."""
    return [sum(n for name, n in frames.items() if name.startswith(p)) for p in prefixes]


def _stack(source: Source, frames: Mapping[str, int], prefixes: Sequence[str]) -> int:
    """The stack frames of the run, of one step with all its functions, and of everything that steps
    call.
    """
    own = f"{source.name}_"
    entry = frames.get(f"{own}run_in", 0)
    helpers = sum(n for name, n in frames.items() if not name.startswith((own, *prefixes)))
    below = RED_ZONE if source.isa.family == "x86" and source.isa.bits == 64 else 0
    return entry + max(_step_stacks(frames, prefixes), default=0) + helpers + below


def _kept_constants(source: Source, arrays: Mapping[str, int]) -> list[int]:
    """Bytes of each step's arrays in the compiled files, and of its part of the large weights."""
    found = []
    met: set[int] = set()
    lengths = _blob_lengths(source)
    for call in source.calls:
        prefix = step_prefix(source, call)
        own = sum(size for name, size in arrays.items() if name.startswith(prefix))
        places = {place for name, _, place in source.blob.offsets if name.startswith(prefix)} - met
        found.append(own + sum(lengths[place] for place in places))
        met |= places
    return found


def _blob_lengths(source: Source) -> dict[int, int]:
    """Bytes of the large arrays, by place, including the gaps after them."""
    places = sorted({place for _, _, place in source.blob.offsets})
    ends = [*places[1:], len(source.blob.data)]
    return {place: end - place for place, end in zip(places, ends, strict=False)}  # or no places


def library_sections(
    folder: Path, source: Source, files: Mapping[str, Content], toolchain: Toolchain
) -> tuple[SectionSizes, dict[str, int]]:
    """The sections and arrays of everything that a program links to run the network, without its
    self-test and static workspace.

    Raises ToolchainError if it does not compile, or not to ELF files.
    """
    unused = {f"{source.name}{end}" for end in ("_static.c", "_selftest.c", OPENMP_SOURCE)}
    _write(folder, files)
    weights = folder / f"{source.name}_weights.bin"
    flags = [*toolchain.cflags, "-w", f'-D{source.name.upper()}_WEIGHTS_FILE="{weights}"']
    total = SectionSizes()
    arrays: dict[str, int] = {}
    for name in sorted(n for n in files if n.endswith(".c") and n not in unused):
        object_file = (folder / name).with_suffix(".o")
        toolchain.compiler.compile(folder / name, object_file, flags, [folder])
        found = section_sizes(object_file)
        if found is None:
            raise ToolchainError(
                "the compiler does not write ELF files", where=toolchain.compiler.version,
                cure="sizes are known only for ELF files",
            )  # fmt: skip
        total += found
        arrays.update(array_sizes(object_file))
    return total, arrays


def _frames(
    folder: Path, source: Source, files: Mapping[str, Content], toolchain: Toolchain,
    more: Sequence[str] = (),
) -> dict[str, int]:  # fmt: skip
    """The stack of each function; those that a compiler puts into others have none of their own."""
    _write(folder, files)
    main = folder / f"{source.name}.c"
    flags = [*toolchain.cflags, *more, "-fstack-usage", "-w"]
    toolchain.compiler.compile(main, main.with_suffix(".o"), flags, [folder])
    return read_stack_usage([main.with_suffix(".su")])


def read_stack_usage(paths: Sequence[Path]) -> dict[str, int]:
    """Bytes of stack by function, as compilers write them with -fstack-usage.

    Raises ToolchainError if there is no such file.
    """
    try:
        lines = [line for path in paths for line in path.read_text().splitlines()]
    except OSError:
        lines = []
    if not lines:
        raise ToolchainError(
            "the compiler does not say how much stack functions need", where="-fstack-usage",
            cure="gcc, or clang 11 and newer, do",
        )  # fmt: skip
    words = (line.split("\t") for line in lines)
    return {place.rpartition(":")[2]: int(size) for place, size, *_ in words}


def _write(folder: Path, files: Mapping[str, Content]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
