"""The values of a run that a library can show (DUMP_VALUES): which memory holds which, and when.

Values are numbered: the inputs first, unless they are views, then all others by the step after
which they are complete.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cannery.emit.steps import root_variables
from cannery.ir.tensor import TensorType
from cannery.layouts import Layout
from cannery.lowering.lifetimes import buffer_bytes
from cannery.schedule.program import Program

if TYPE_CHECKING:
    from cannery.emit.source import Source

#: The number that begins a run.
RUN = -1


@dataclass(frozen=True)
class Seen:
    """A value, complete after `step`, as it lies in `memory`: a variable of the run function.

    Of an input at the interface `step` is -1.
    """

    value: str
    step: int
    memory: str
    bytes: int
    type: TensorType
    layout: Layout
    symbol: str = ""

    def as_dict(self) -> dict[str, Any]:
        """What a dump says of it."""
        layout = asdict(self.layout) | {"dtype": self.type.dtype.value}
        return {
            "value": self.value, "step": self.step, "symbol": self.symbol, "size": self.bytes,
            "shape": list(self.type.shape), "layout": layout,
        }  # fmt: skip


def seen_values(source: Source) -> tuple[Seen, ...]:
    """All values that a run can show, by their numbers."""
    program, variables = source.program, root_variables(source.program)
    ports = {b.value: b.layout for b in program.buffers.values() if b.storage == "input"}
    found = [
        Seen(t.source, -1, t.name, t.type.bytes, t.type, ports[t.source])
        for t in source.inputs
        if not t.view
    ]
    for step, names in enumerate(_complete(program)):
        for name in names:
            buffer = program.buffers[name]
            found.append(
                Seen(
                    buffer.value, step, variables[buffer.root], buffer_bytes(program, buffer.root),
                    buffer.type, buffer.layout, source.calls[step].symbol,
                )
            )  # fmt: skip
    return tuple(found)


def _complete(program: Program) -> list[list[str]]:
    """The buffers that are complete after each step: what it writes, and other views of that."""
    ready: dict[str, int] = {}
    found: list[list[str]] = [[] for _ in program.steps]
    for step, planned in enumerate(program.steps):
        for name in planned.writes:
            ready[program.buffers[name].value] = step
            found[step].append(name)
    written = {name for names in found for name in names}
    views = {b.value: name for name, b in program.buffers.items() if name not in written}
    for node in program.graph.nodes:
        steps = [ready.get(value, -1) for value in node.inputs]
        for value in node.outputs:
            if value not in ready:
                ready[value] = step = max(steps, default=-1)
                if step >= 0 and value in views:
                    found[step].append(views[value])
    return found


def dump_header(source: Source, seen: Sequence[Seen]) -> list[str]:
    """The lines of JSON that a dump begins with: the network, then each value."""
    about = {"model": source.name, "hash": source.hash, "isa": source.isa.name}
    return [
        json.dumps(line, separators=(",", ":")) for line in (about, *(s.as_dict() for s in seen))
    ]
