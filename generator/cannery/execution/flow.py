"""How a network's compiled code runs: which way it goes and why, how often, in how many cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cannery.analysis import riscv_cycles
from cannery.analysis.control import Condition, Depends, conditions
from cannery.analysis.cortex_m import CORES, CycleBound, bound_cycles
from cannery.analysis.counting import Counting, by_instruction, counting
from cannery.analysis.disassembly import Function, Machine
from cannery.analysis.longest import most_cost
from cannery.analysis.loops import back_edges, split_blocks, without_padding
from cannery.analysis.stack import StackUse
from cannery.contents import Content
from cannery.execution.program import NetworkProgram
from cannery.target.runner import Runner


@dataclass(frozen=True)
class LoopCount:
    """A loop in the machine code: how often its beginning is reached in one call of the network."""

    function: str
    address: int
    times: int


@dataclass(frozen=True)
class Flow:
    """What one call of the network executes, in the code that the compiler made.

    `conditions` counts those in the generated C by what they depend on, `on_data` are those that
    depend on data. `instructions` are the counts of one call for each of several inputs, `varying`
    the functions in which these calls differ. `loops` are those of the call with the most
    instructions.

    `most` instructions and `cycles` (None for a processor without a table) are those of the longest
    way through each loop's body. They bound every call if loops run equally often in all, so if no
    statement of the C code has a condition on data; of functions of libraries they are what was
    counted: `unbounded` are those that differed.
    """

    conditions: Mapping[str, int]
    on_data: tuple[Condition, ...]
    instructions: tuple[int, ...]
    varying: tuple[str, ...]
    loops: tuple[LoopCount, ...]
    most: int
    unbounded: tuple[str, ...]
    cycles: CycleBound | None

    @property
    def bounded(self) -> bool:
        """Whether `most` and `cycles` bound every call."""
        return not self.deciding and not self.unbounded

    @property
    def broken(self) -> tuple[str, ...]:
        """What contradicts the bound, as text: code whose loops are not understood."""
        counted = max(self.instructions)
        if counted <= self.most:
            return ()
        return (f"{counted} instructions ran, the bound is {self.most}",)

    @property
    def deciding(self) -> tuple[Condition, ...]:
        """The conditions on data that may decide how often a loop runs: not choices of a value."""
        return tuple(condition for condition in self.on_data if condition.kind != "?")


def flow_of(
    program: NetworkProgram, files: Mapping[str, Content], use: StackUse, runner: Runner, core: str
) -> Flow:
    """Count calls of the network with each sample under the emulator; cycles are those of `core`.

    Raises ToolchainError if nothing counts.
    """
    source = program.source
    root = "step_any" if source.states.rings or source.states.round > 1 else "run_any"
    reached = frozenset(use.reached([root]))
    functions = [f for f in use.functions if f.name in reached]
    with counting(runner) as counter:
        runs = [_runs(counter, program, functions, k) for k in range(program.samples)]
    instructions = [sum(each.values()) for each in runs]
    longest = runs[instructions.index(max(instructions))]

    def most(costs: Mapping[int, int]) -> int:
        return sum(
            most_cost(f, use.machine, longest, costs) if use.is_own(f.name)
            else sum(longest[i.address] * costs[i.address] for i in f.instructions)
            for f in functions
        )  # fmt: skip

    found = conditions(files[f"{source.name}.c"][:].decode())
    kinds = Counter(condition.depends for condition in found)
    varying = _varying(functions, runs)
    return Flow(
        {depends.name.lower(): kinds[depends] for depends in Depends},
        tuple(condition for condition in found if condition.depends is Depends.DATA),
        tuple(instructions), varying, tuple(_loops(functions, longest, use.machine)),
        most({i.address: 1 for f in functions for i in f.instructions}),
        tuple(name for name in varying if not use.is_own(name)),
        _cycles(functions, most, core),
    )  # fmt: skip


def _cycles(
    functions: Sequence[Function], most: Callable[[Mapping[int, int]], int], target: str
) -> CycleBound | None:
    """The most cycles of code on the core of a target; None if no table of it is known."""
    if target in CORES:
        return bound_cycles(functions, most, CORES[target])
    return riscv_cycles.bound_cycles(functions, most) if target in riscv_cycles.TARGETS else None


def _runs(
    counter: Counting, program: NetworkProgram, functions: Sequence[Function], sample: int
) -> Counter[int]:
    """How often one call with a sample runs each instruction of the network, by its address.

    Of a network with strides that runs step by step, as many calls as make all layers run.
    """
    option, least = ("--step", 0) if counter.steps else ("--repeat", 1)
    found = counter.pieces(program.executable, [option, str(least + 1), str(sample)])
    found.subtract(counter.pieces(program.executable, [option, str(least), str(sample)]))
    runs = by_instruction(found, functions)
    return Counter({address: times for address, times in runs.items() if times})


def _varying(functions: Sequence[Function], runs: Sequence[Counter[int]]) -> tuple[str, ...]:
    """The functions whose instructions do not all run equally often."""
    return tuple(
        function.name
        for function in functions
        for places in [[i.address for i in function.instructions]]
        if any(each[place] != runs[0][place] for each in runs for place in places)
    )


def _loops(
    functions: Sequence[Function], runs: Mapping[int, int], machine: Machine
) -> list[LoopCount]:
    """The loops that run, the most frequent first."""
    found = []
    for function in functions:
        blocks = without_padding(split_blocks(function, machine))
        for header in sorted({header for _, header in back_edges(blocks)}):
            address = blocks[header].instructions[0].address
            if times := runs.get(address, 0):
                found.append(LoopCount(function.name, address, times))
    return sorted(found, key=lambda loop: -loop.times)
