"""The steps of a program as C: their names, and the jobs of their schedules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cannery.schedule.program import Buffer, PlannedStep, Program
from cannery.schedule.schedule import TURNED, Job, Kernel
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Call:
    """Step `number` of a program as the run function sees it.

    `pointers` are the arguments for its inputs and outputs, `scratch` is the one for its scratch
    memory, if any; `rows` the rows of an image that a band function computes. `aliases` are
    constants (name, same as) that other steps have.
    """

    number: int
    planned: PlannedStep
    symbol: str
    kernel: Kernel
    pointers: tuple[str, ...]
    scratch: str
    rows: int
    images: int
    clears: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments with which the function computes everything."""
        return self.bounded(self.scratch, ("0", str(self.rows)), ("0", str(self.kernel.units)))

    def bounded(
        self, scratch: str, rows: tuple[str, str], units: tuple[str, str]
    ) -> tuple[str, ...]:
        """The arguments with which the function computes some rows or units."""
        found = [*self.pointers, *([scratch] if self.kernel.scratch_bytes else [])]
        found += [*(rows if self.kernel.band else ()), *(units if self.kernel.units else ())]
        found += ["length"] if self.kernel.stops else []
        return tuple(found)


def step_symbol(model: str, number: int, step: PlannedStep) -> str:
    """`ball_L03_conv_direct_oc`."""
    schedule = step.choice.schedule.id.replace(".", "_")
    return f"{model}_L{number:02d}_{schedule}"


def make_job(
    program: Program, planned: PlannedStep, isa: Isa, symbol: str, *, cut: bool = False,
    ahead: int = 0,
) -> Job:  # fmt: skip
    """The job of a planned step's schedule; `cut` and `ahead` are as in `Job`."""
    buffers = program.buffers
    reads = [buffers[name] for name in planned.reads]
    writes = [buffers[name] for name in planned.writes]
    roots = {w.root for w in writes}
    return Job(
        program.graph,
        planned.step,
        isa,
        planned.choice.params,
        symbol,
        tuple(b.layout for b in reads),
        tuple(b.layout for b in writes),
        frozenset(k for k, b in enumerate(reads) if b.root in roots),
        cut,
        stops=program.graph.length is not None,
        ahead=ahead,
    )


def pointer_name(buffer: Buffer) -> str:
    """The C variable that points to a root buffer's memory."""
    clean = re.sub(r"[^A-Za-z0-9]+", "_", buffer.name).strip("_")
    return f"b_{clean}"


def root_variables(program: Program) -> dict[str, str]:
    """C variable of every root buffer, unique."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name, buffer in program.buffers.items():
        if buffer.root != name:
            continue
        plain = unique = pointer_name(buffer)
        k = 1
        while unique in taken:
            k += 1
            unique = f"{plain}_{k}"
        taken.add(unique)
        names[name] = unique
    return names


def unused_roots(program: Program) -> set[str]:
    """Roots that no step touches."""
    used = {program.buffers[n].root for s in program.steps for n in (*s.reads, *s.writes)}
    return {n for n, b in program.buffers.items() if b.root == n and n not in used}


def call_text(call: Call, text: str = "", *, turns: bool = False) -> Sequence[str]:
    """The statements that run a step, or `text` instead of its call, for each image.

    With `turns`, there is a variable `turn` for the kernels that ask for it.
    """
    turned = turns and call.kernel.turns
    arguments = (*call.arguments, "turn") if turned else call.arguments
    text = text or f"{call.symbol}{TURNED if turned else ''}({', '.join(arguments)});"
    if call.images > 1:
        return [f"for (int n = 0; n < {call.images}; ++n) {{", text, "}"]
    return [text]
