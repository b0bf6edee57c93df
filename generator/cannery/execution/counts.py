"""How many instructions one run of a network takes, step by step: counted under an emulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cannery.analysis.counting import Counting, Piece, by_instruction, counting
from cannery.analysis.disassembly import disassemble
from cannery.analysis.estimate import Counted, estimate
from cannery.analysis.estimator import Estimator
from cannery.analysis.kernels import apart, apart_flags, step_functions
from cannery.analysis.loops import split_blocks
from cannery.analysis.mix import Mix, executed_mix, sum_mixes
from cannery.analysis.models import find_estimator
from cannery.contents import Content
from cannery.emit.sharing import step_with_code
from cannery.emit.source import Source
from cannery.errors import ToolchainError
from cannery.execution.program import NetworkProgram, Sample, network_program
from cannery.measure.elf import function_places
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain


@dataclass(frozen=True)
class StepCount:
    """What ran of a step's functions in one run of the network, and how many cycles a model of a
    pipeline gives it (None: it was not asked, or does not know an instruction).

    Steps that share a function count with the first of them, whose number is `counted_in`.
    """

    name: str
    schedule: str
    macs: int
    mix: Mix
    cycles: float | None = None
    counted_in: int | None = None


@dataclass(frozen=True)
class NetworkCount:
    """The instructions of one run: those of its steps, and those outside of steps (`rest`);
    `estimator` is what gave the steps cycles.

    Of a network with strides that runs step by step, a run is as many calls as make all layers run.
    """

    steps: tuple[StepCount, ...]
    rest: int
    estimator: Estimator | None = None

    @property
    def instructions(self) -> int:
        return self.rest + sum(step.mix.instructions for step in self.steps)

    @property
    def mix(self) -> Mix:
        """What all steps did."""
        return sum_mixes(step.mix for step in self.steps)

    @property
    def cycles(self) -> float | None:
        """What the model says of all steps; None if it does not say it of each."""
        found = [step.cycles for step in self.steps]
        return None if None in found else sum(each for each in found if each is not None)


def count_network(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain, runner: Runner,
    sample: Sample, cpu: str = "",
) -> NetworkCount:  # fmt: skip
    """Build a network as a program, and count one run of it; its cycles by the model of `cpu`.

    Every kernel stays a separate function; in a library, compilers may merge several, which saves
    some calls. Raises ToolchainError.
    """
    toolchain = replace(toolchain, cflags=(*toolchain.cflags, *apart_flags(toolchain)))
    if "-static" not in toolchain.ldflags and not toolchain.target.board:
        # This makes addresses those of the file.
        toolchain = replace(toolchain, ldflags=(*toolchain.ldflags, "-static", "-no-pie"))
    with (
        counting(runner) as counter,
        network_program(source, apart(source, files), toolchain, [sample]) as program,
    ):
        pieces = _one_run(counter, program)
        places = function_places(program.executable)
        own = [p for name, p in places.items() if name.startswith(f"{source.name}_") and p.size]
        if not own:
            raise ToolchainError("holds no function of the network", where=program.executable.name)
        first, last = min(p.address for p in own), max(p.address + p.size for p in own)
        addresses = range(first & ~1, last)
        machine, functions = disassemble(program.executable, toolchain.compiler, addresses)
    runs = by_instruction(pieces, functions)
    own_functions = [step_functions(source, call, functions) for call in source.calls]
    cycles: list[float | None] = [None] * len(own_functions)
    estimator = find_estimator(cpu, machine) if cpu else None
    if estimator:
        counted = [Counted(tuple(each), runs) for each in own_functions]
        cycles = estimate(machine, counted, estimator)
    steps = []
    for k, (call, macs, found, each) in enumerate(
        zip(source.calls, source.round_macs, own_functions, cycles, strict=True)
    ):
        mix = sum_mixes(executed_mix(split_blocks(f, machine), machine, runs) for f in found)
        planned = call.planned
        owner = step_with_code(source.calls, k)
        shared = owner if owner != k else None
        steps.append(StepCount(planned.step.name, str(planned.choice), macs, mix, each, shared))
    total = sum(piece.instructions * times for piece, times in pieces.items())
    rest = total - sum(step.mix.instructions for step in steps)
    return NetworkCount(tuple(steps), rest, estimator)


def _one_run(counter: Counting, program: NetworkProgram) -> Counter[Piece]:
    """What one more run takes, without the start and end of the program."""
    option, least = ("--step", 0) if counter.steps else ("--repeat", 1)
    found = counter.pieces(program.executable, [option, str(least + 1)])
    found.subtract(counter.pieces(program.executable, [option, str(least)]))
    return found
