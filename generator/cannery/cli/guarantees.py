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
from cannery.execution.flow import Flow
from cannery.execution.guarantees import Calls, Guarantees, Memory, guarantees
from cannery.execution.samples import seeded_samples
from cannery.pipeline import compile_graph, import_graph
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
@json_option
def command(model: Path, as_json: bool, **raw: Any) -> int:
    """Say what is certain about MODEL's generated code on a target.

    The stack is the most that any path through the machine code takes; beside it stands what runs
    under the emulator wrote. Everything holds for this compiler, these flags and these libraries.
    The exit code is 1 if a run contradicts a bound.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    runner = toolchain.emulator()
    graph = import_graph(options)
    compiled = compile_graph(graph, options)
    note(f"building {options.name} for {toolchain.target.name}")
    samples = seeded_samples(graph, _SAMPLES)
    found = guarantees(compiled.source, compiled.files, toolchain, runner, samples)
    isa, compiler = compiled.source.isa.name, toolchain.compiler.version
    if as_json:
        print_json({
            "target": toolchain.target.name, "isa": isa, "compiler": compiler,
            **asdict(found), "flash": found.memory.flash, "broken": found.broken,
        })  # fmt: skip
    else:
        _print(found)
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


def _memory(memory: Memory) -> list[list[object]]:
    code, constants = memory.sections.code, memory.sections.constants
    rows: list[list[object]] = [
        ["flash", memory.flash, f"code {code:,}, constants {constants:,}"],
        ["workspace", memory.workspace, "RAM that the caller gives, or a static one"],
    ]
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
