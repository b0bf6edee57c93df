"""`cannery guarantees`: what is certain about the generated code, for those who must prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table, warn
from cannery.errors import OptionError
from cannery.execution.flow import Flow
from cannery.execution.guarantees import Calls, Guarantees, Memory, guarantees
from cannery.execution.misra import DEVIATIONS, MisraFindings, misra_findings
from cannery.execution.numbers import UNIT_BOX, Numbers
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain

#: Inputs that the code is run on.
_SAMPLES = 3


@click.command(
    "guarantees",
    cls=Command,
    examples=(
        "cannery guarantees ball.h5 --target cortex-m4",
        "cannery guarantees ball.h5 --target cortex-m4 --json",
    ),
)
@generating_options()
@click.option(
    "--box",
    type=(float, float),
    default=UNIT_BOX,
    metavar="LOW HIGH",
    help="Where float inputs lie, for the bound of rounding errors. [default: -1 1]",
)
@click.option("--misra", is_flag=True, help="Count findings of cppcheck's addon for MISRA C:2012.")
@json_option
def command(model: Path, as_json: bool, box: tuple[float, float], misra: bool, **raw: Any) -> int:
    """Say what is certain about MODEL's generated code on a target.

    The stack is the most that any path through the machine code takes; beside it stands what runs
    under the emulator wrote. Everything holds for this compiler, these flags and these libraries.
    The exit code is 1 if a run contradicts a bound.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    runner = toolchain.emulator()
    if not box[0] <= box[1] < float("inf"):
        raise OptionError(
            "the second number must not be smaller", where="--box", cure="for example --box -1 1"
        )
    compiled = compile_model(options)
    note(f"building {options.name} for {toolchain.target.name}")
    found = guarantees(compiled.source, compiled.files, toolchain, runner, _SAMPLES, box)
    rules = misra_findings(options.name, compiled.files, toolchain) if misra else None
    isa, compiler = compiled.source.isa.name, toolchain.compiler.version
    if as_json:
        print_json({
            "target": toolchain.target.name, "isa": isa, "compiler": compiler,
            **asdict(found), "flash": found.memory.flash, "broken": found.broken,
            **({"misra": dict(rules.counts)} if rules else {}),
        })  # fmt: skip
    else:
        _print(found)
        if rules:
            click.echo()
            print_table(["MISRA C:2012", "findings", ""], _misra(rules))
        click.echo(f"\n{toolchain.target.name} ({isa}), {compiler}")
    for text in found.broken:
        warn(text)
    return 1 if found.broken else 0


def _print(found: Guarantees) -> None:
    rows = [
        [b.function, b.bytes, "" if b.painted is None else b.painted, b.path[-1], b.remark]
        for b in found.stack
    ]
    print_table(["function", "stack", "written", "deepest in", ""], rows)
    click.echo()
    print_table(["memory", "bytes", ""], _memory(found.memory))
    click.echo()
    print_table(["calls", ""], _calls(found.calls))
    click.echo()
    print_table(["one call", "", ""], _flow(found.flow))
    for condition in found.flow.on_data:
        click.echo(f"  on data: {condition.function}: {condition.kind} ({condition.text})")
    click.echo()
    print_table(["numbers", "", ""], _numbers(found.numbers))


def _misra(findings: MisraFindings) -> list[list[object]]:
    """Each rule that is not kept, how often, and why."""
    return [
        [f"rule {rule}", count, DEVIATIONS.get(rule, "no reason is known: please report it")]
        for rule, count in findings.counts.items()
    ]


def _memory(memory: Memory) -> list[list[object]]:
    code, constants = memory.sections.code, memory.sections.constants
    rows: list[list[object]] = [
        ["flash", memory.flash, f"code {code:,}, constants {constants:,}"],
        ["workspace", memory.workspace, "RAM that the caller gives, or a static one"],
    ]
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
    return rows + ([_cycles(flow)] if flow.cycles else [])


def _provided(flow: Flow) -> str:
    """What a bound takes as given; empty if nothing."""
    if flow.deciding:
        return ", if loops run as often as for these inputs"
    return ", if libraries take as long as for these inputs" if flow.unbounded else ""


def _cycles(flow: Flow) -> list[object]:
    """The cycles, and what they are."""
    bound = flow.cycles
    assert bound is not None
    what = f"at most{_provided(flow)}, by {bound.source}"
    if not bound.source:
        what = "no bound, as no table is published: one instruction at a time, by the Cortex-M4's"
    more = [f"plus {bound.per_wait_state:,} for each wait state"]
    if bound.slow_multiplier:
        more.append(f"{bound.slow_multiplier:,} more if a multiplication takes 32")
    if bound.unknown:
        more.append(f"without {', '.join(bound.unknown)}, which the table lacks")
    return ["cycles", f"{bound.cycles:,}", "; ".join([what, *more])]


def _numbers(numbers: Numbers) -> list[list[object]]:
    """Sums of integers, bits, errors of floats."""
    rows: list[list[object]] = []
    if numbers.sums:
        largest = max(each.largest for each in numbers.sums)
        text = f"of 2,147,483,647 in the {len(numbers.sums)} layers that multiply integers"
        rows.append(["largest sum", f"{largest:,}", text])
    layers = f"not those of {len(numbers.differing)} layers of floats"
    same = "yes" if not numbers.differing else "no"
    rows.append(["same bits everywhere", same, layers if numbers.differing else ""])
    low, high = numbers.box
    for bound, seen in zip(numbers.errors, numbers.seen, strict=True):
        known = bound.error is not None
        shown = f"{bound.error:.2g}" if known else "unknown"
        text = f"at most, for inputs from {low:g} to {high:g}" if known else bound.reason
        rows.append([f"error of {bound.output}", shown, f"{text}; seen: {seen:.2g}"])
    return rows
