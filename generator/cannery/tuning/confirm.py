"""Whole networks: their errors against the reference, and their times side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cannery.choose.plan import Plan, Segment
from cannery.choose.ram import workspace_bound
from cannery.deadline import now, time_left
from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.execution.program import NetworkProgram, Sample, network_program
from cannery.execution.samples import errors_by_output
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.lowering.assign import assign
from cannery.lowering.stack import Stack
from cannery.measure.measure import Context, alone
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain

#: Rounds of timing networks in turn, and seconds of each turn.
ROUNDS = 12
TURN_SECONDS = 0.04
#: The same if caches are emptied before each call, which takes most of the time.
COLD_TURN_SECONDS = 0.25
#: Seconds that all turns may take.
LIMIT_SECONDS = 30.0
#: Seconds of comparing single images with several at once.
MANY_SECONDS = 1.0


@dataclass(frozen=True)
class Judge:
    """Runs whole networks on samples whose `expected` outputs are known.

    They are built as for a bound of `max_ram`.
    """

    graph: Graph
    segments: Sequence[Segment]
    toolchain: Toolchain
    runner: Runner
    io_order: str
    samples: Sequence[Sample]
    expected: Sequence[Mapping[str, RefArray]]
    context: Context = Context.WARM
    max_ram: int | None = None

    def source(self, plan: Plan, stacks: Sequence[Stack] = ()) -> Source:
        """The network built by a plan; `stacks` are for several images at once."""
        isa, steps = self.toolchain.target.isa, plan.steps(self.segments)
        program = assign(self.graph, steps, plan.choices, isa, self.io_order)
        most = workspace_bound(program, isa, self.max_ram)
        return make_source(program, isa, "net", {}, stacks, max_ram=most)

    def program(self, stack: ExitStack, plan: Plan, stacks: Sequence[Stack] = ()) -> NetworkProgram:
        """The executable; lives as long as `stack`. Raises ToolchainError."""
        source = self.source(plan, stacks)
        files = output_files(source, "autotune")
        return stack.enter_context(network_program(source, files, self.toolchain, self.samples))

    def error(self, program: NetworkProgram) -> float:
        """The largest error of all outputs. Raises ToolchainError."""
        found = program.run(self.runner)
        return max(errors_by_output(found, self.expected).values(), default=0.0)

    def gain(self, program: NetworkProgram, images: int) -> float:
        """How many times faster this many images are at once than one by one."""
        with alone(self.runner):
            single, many = program.time_many(self.runner, MANY_SECONDS, images, self.context)
        return single / many

    def times(self, programs: Sequence[NetworkProgram]) -> list[float]:
        """Microseconds of each network: lower quartiles of turns, in alternating order.

        Raises ToolchainError, or OutOfTimeError if there is no time for two rounds.
        """
        with alone(self.runner):
            turns = self._turns(programs)
        return [sorted(t)[(len(t) - 1) // 4] for t in turns]

    def _turns(self, programs: Sequence[NetworkProgram]) -> list[list[float]]:
        turns: list[list[float]] = [[] for _ in programs]
        spent = 0.0
        seconds = TURN_SECONDS if self.context is Context.WARM else COLD_TURN_SECONDS
        for number in range(ROUNDS):
            began = now()
            order = range(len(programs)) if number % 2 == 0 else reversed(range(len(programs)))
            for k in order:
                turns[k].append(programs[k].time(self.runner, seconds, self.context).p25)
            spent += sum(max(t[-1] * 1e-6, seconds) for t in turns)
            if number >= 2 and spent > LIMIT_SECONDS:
                break
            if number >= 1 and time_left() < 2 * (now() - began):
                break
        return turns
