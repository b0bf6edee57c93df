"""The sheet of guarantees as tables, for terminals and pages, and for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cannery.analysis import riscv_cycles
from cannery.execution.flow import Flow
from cannery.execution.guarantees import Calls, Guarantees, Memory
from cannery.execution.misra import DEVIATIONS, MisraFindings
from cannery.execution.numbers import Numbers
from cannery.reporting.tables import Table

#: Cores that no target names: others have the same instructions, and take other times.
_NAMED = (riscv_cycles.CORE,)


def sheet(found: Guarantees) -> tuple[Table, ...]:
    """All parts, in the order in which people read them."""
    on_data = [f"on data: {c.function}: {c.kind} ({c.text})" for c in found.flow.on_data]
    return (
        Table(["function", "stack", "written", "deepest in", ""], _stack(found)),
        Table(["memory", "bytes", ""], _memory(found.memory)),
        Table(["calls", ""], _calls(found.calls)),
        Table(["one call", "", ""], _flow(found.flow), on_data),
        Table(["numbers", "", ""], _numbers(found.numbers)),
    )


def loops(found: Guarantees) -> Table:
    """Every loop of the machine code that runs, the most frequent first."""
    rows = [[loop.function, f"{loop.address:#x}", f"{loop.times:,}"] for loop in found.flow.loops]
    return Table(["loop in", "at", "times in a call"], rows)


def misra_table(findings: MisraFindings) -> Table:
    """Each rule that is not kept, how often, and why."""
    rows = [
        [f"rule {rule}", count, DEVIATIONS.get(rule, "no reason is known: please report it")]
        for rule, count in findings.counts.items()
    ]
    return Table(["MISRA C:2012", "findings", ""], rows)


def sheet_json(found: Guarantees) -> Mapping[str, Any]:
    """Everything, for JSON."""
    return {**asdict(found), "flash": found.memory.flash, "broken": found.broken}


def _stack(found: Guarantees) -> list[list[object]]:
    return [
        [b.function, b.bytes, "" if b.painted is None else b.painted, b.path[-1], b.remark]
        for b in found.stack
    ]


def _memory(memory: Memory) -> list[list[object]]:
    code, constants = memory.sections.code, memory.sections.constants
    rows: list[list[object]] = [
        ["flash", memory.flash, f"code {code:,}, constants {constants:,}"],
        ["workspace", memory.workspace, "RAM that the caller gives, or a static one"],
    ]
    if memory.fast:
        rows.append(["fast region", memory.fast, "RAM beside the workspace, by --fast-ram"])
    if memory.many_workspace > memory.workspace:
        rows.append(["workspace of run_many", memory.many_workspace, "instead of the other one"])
    if memory.state:
        rows.append(["state", memory.state, "RAM for each sequence"])
    return [*rows, ["variables", memory.variables, "RAM of the library itself"]]


def _calls(calls: Calls) -> list[list[object]]:
    rows: list[tuple[str, Sequence[str]]] = [
        ("heap", calls.heap), ("recursion", calls.recursive),
        ("through pointers", calls.indirect), ("library", calls.library),
        ("compiler's arithmetic", calls.arithmetic),
    ]  # fmt: skip
    if calls.unknown:
        rows.append(("stack known from the compiler only", calls.unknown))
    return [[what, ", ".join(names) or "none"] for what, names in rows]


def _flow(flow: Flow) -> list[list[object]]:
    """What one call of the network does."""
    counts = [f"{count:,}" for count in sorted(set(flow.instructions))]
    where = f"differ in {', '.join(flow.varying)}" if flow.varying else "do not differ"
    text = f"counted; {len(flow.instructions)} inputs {where}"
    rows: list[list[object]] = [["instructions", " to ".join([counts[0], *counts[1:][-1:]]), text]]
    rows.append(["", f"{flow.most:,}", f"at most{_provided(flow)}"])
    kinds = [f"{number} on {kind}" for kind, number in flow.conditions.items() if number]
    rows.append(["conditions in the C code", sum(flow.conditions.values()), ", ".join(kinds)])
    loops = [f"{loop.times:,}" for loop in flow.loops[:3]]
    rows.append(["loops", len(flow.loops), f"the longest run {', '.join(loops)} times"])
    return [*rows, _cycles(flow)]


def _provided(flow: Flow) -> str:
    """What a bound takes as given; empty if nothing."""
    if flow.deciding:
        return ", if loops run as often as for these inputs"
    return ", if libraries take as long as for these inputs" if flow.unbounded else ""


def _cycles(flow: Flow) -> list[object]:
    """The cycles, and what they are."""
    bound = flow.cycles
    if bound is None:
        return ["cycles", "unknown", "no table bounds what instructions of this core take"]
    what = f"on a {bound.core} " if bound.core in _NAMED else ""
    what += f"at most{_provided(flow)}, by {bound.source}"
    if not bound.source:
        what = "no bound, as no table is published: one instruction at a time, by the Cortex-M4's"
    more = [f"plus {bound.per_wait_state:,} for each wait state"]
    if bound.slow_multiplier:
        more.append(f"{bound.slow_multiplier:,} more if a multiplication takes 32")
    if bound.per_float_cycle:
        more.append(f"{bound.per_float_cycle:,} for each cycle of the FPU's latency")
    if bound.unknown:
        more.append(f"without {', '.join(bound.unknown)}, which the table lacks")
    return ["cycles", f"{bound.cycles:,}", "; ".join([what, *more])]


def _numbers(numbers: Numbers) -> list[list[object]]:
    """Sums of integers, bits, errors of floats."""
    rows: list[list[object]] = []
    if numbers.sums:
        largest = max(each.largest for each in numbers.sums)
        text = f"of 2,147,483,647, in {_layers(len(numbers.sums))} of integer products"
        rows.append(["largest sum", f"{largest:,}", text])
    layers = f"not those of {_layers(len(numbers.differing))} of floats"
    same = "yes" if not numbers.differing else "no"
    rows.append(["same bits everywhere", same, layers if numbers.differing else ""])
    low, high = numbers.box
    for bound, seen in zip(numbers.errors, numbers.seen, strict=True):
        known = bound.error is not None
        shown = f"{bound.error:.2g}" if known else "unknown"
        text = f"at most, for inputs from {low:g} to {high:g}" if known else bound.reason
        rows.append([f"error of {bound.output}", shown, f"{text}; seen: {seen:.2g}"])
    return rows


def _layers(number: int) -> str:
    return f"{number} layer" if number == 1 else f"{number} layers"
