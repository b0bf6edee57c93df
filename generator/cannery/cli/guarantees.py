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
