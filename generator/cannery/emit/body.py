"""The body of a function that runs a program: its pointers, and what happens around its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from cannery.emit.hooks import Hooks
from cannery.emit.steps import Call, root_variables, unused_roots
from cannery.lowering.periods import step_periods
from cannery.schedule.program import Buffer

if TYPE_CHECKING:
    from cannery.emit.source import Source
    from cannery.emit.states import States


@dataclass(frozen=True)
class Body:
    """What the template of a run function reads.

    `roots` are the pointers that it declares: variable, buffer, name of the parameter or "", offset
    in the workspace. `used_inputs` are those that a step reads. `periods` says in how many calls
    each step runs once.
    """

    source: Source
    roots: Sequence[tuple[str, Buffer, str, int]]
    variables: Mapping[str, str]
    used_inputs: frozenset[str]
    hooks: Hooks
    periods: Sequence[int]

    @property
    def turn_period(self) -> int:
        """In how many calls the kernels that read weights to and fro run once: those that run most
        often.
        """
        return min(self.periods[c.number] for c in self.source.calls if c.kernel.turns)

    def regions(self, states: States) -> frozenset[bool]:
        """Whether a function with these states uses memory of the slow region (False), and of the
        fast one (True).
        """
        workspace = self.source.workspace
        places = [
            at for _, buffer, port, at in self.roots
            if not port and buffer.value not in states.kept and not states.window(buffer.name)
        ]  # fmt: skip
        places += [at for k, at in workspace.scratch.items() if k not in states.spared]
        return frozenset(at < workspace.fast_bytes for at in places)

    def spans(self, spared: frozenset[int]) -> Iterator[tuple[int, list[Call]]]:
        """The steps that a call does not spare, with their period: neighbours with the same one
        together.
        """
        calls = (call for call in self.source.calls if call.number not in spared)
        for period, group in groupby(calls, key=lambda call: self.periods[call.number]):
            yield period, list(group)


def make_body(source: Source, lap: str = "") -> Body:
    """The body of `source`; with `lap`, a C function, it calls that with each step's number."""
    program = source.program
    variables, skip = root_variables(program), unused_roots(program)
    ports, roots = source.ports, []
    for root, variable in variables.items():
        if root not in skip:
            port = ports[root].name if root in ports else ""
            at = source.workspace.offsets.get(root, 0)
            roots.append((variable, program.buffers[root], port, at))
    used = frozenset(tensor.source for root, tensor in ports.items() if root not in skip)
    return Body(source, roots, variables, used, Hooks(source, lap), step_periods(program))
