"""`cannery size`: how much memory a network takes, before you flash anything."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from cannery.cli.arguments import generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.execution.sizes import NetworkSize, network_size
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain


@click.command(
    "size",
    cls=Command,
    examples=(
        "cannery size ball.h5 --target cortex-m7",
        "cannery size ball.h5 --quantize int8 --calibration samples.npz",
    ),
)
@generating_options()
@json_option
def command(model: Path, as_json: bool, **raw: Any) -> None:
    """Show how much flash, RAM and stack MODEL's generated code takes, by step.

    The code is compiled for the target, not run. The stack is the most that a run needs, without
    its caller's. The row "all else" is what the library has beyond its steps. It can be negative,
    because compilers may put several steps of a library into one function.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    compiled = compile_model(options)
    note(f"compiling {options.name} for {toolchain.target.name}")
    size = network_size(compiled.source, compiled.files, toolchain)
    if as_json:
        print_json({
            "target": toolchain.target.name, "isa": compiled.source.isa.name,
            "compiler": toolchain.compiler.version, "flash": size.flash, **asdict(size),
            "other": {"code": size.other_code, "constants": size.other_constants},
        })  # fmt: skip
        return
    _print(size)
    isa, compiler = compiled.source.isa.name, toolchain.compiler.version
    click.echo(f"\n{toolchain.target.name} ({isa}), {compiler}")


def _print(size: NetworkSize) -> None:
    """Steps, then the sums."""
    rows = [
        [str(k), s.name, s.schedule, "?" if s.code is None else s.code, s.constants, s.stack]
        for k, s in enumerate(size.steps)
    ]
    code = "?" if size.other_code is None else size.other_code
    rows.append(["", "all else", "", code, size.other_constants, ""])
    print_table(["", "step", "schedule", "code", "constants", "stack"], rows)
    click.echo()
    sums: list[list[object]] = [
        ["flash", size.flash, f"code {size.sections.code:,}, constants {size.constants:,}"],
        ["workspace", size.workspace, "RAM that the caller gives, or a static one"],
        ["stack", size.stack, "at most, of one run"],
        ["tensors", size.tensors, "RAM for inputs and outputs"],
    ]
    if size.many_workspace > size.workspace:
        sums.append(["workspace of run_many", size.many_workspace, "instead of the other one"])
    if size.state:
        sums.append(["state", size.state, "RAM for each sequence"])
    print_table(["", "bytes", ""], sums)
