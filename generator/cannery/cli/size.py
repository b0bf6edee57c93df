"""`cannery size`: how much memory a network takes, before you flash anything."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from cannery.choose.ram import Curve
from cannery.cli.arguments import generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table, warn
from cannery.execution.sizes import NetworkSize, network_size
from cannery.pipeline import compile_model, ram_curve
from cannery.reporting.ram_curve import curve_json, curve_table
from cannery.target.toolchain import find_toolchain


@click.command(
    "size",
    cls=Command,
    examples=(
        "cannery size ball.h5 --target cortex-m7",
        "cannery size ball.h5 --quantize int8 --calibration samples.npz",
        "cannery size ball.h5 --target cortex-m7 --ram-curve",
    ),
)
@generating_options()
@click.option(
    "--ram-curve", "curve", is_flag=True,
    help="Show memory against estimated time instead: what --max-ram can buy.",
)  # fmt: skip
@json_option
def command(model: Path, as_json: bool, curve: bool, **raw: Any) -> int:
    """Show how much flash, RAM and stack MODEL's generated code takes, by step.

    The code is compiled for the target, not run. The stack is the most that a run needs, without
    its caller's. The row "all else" is what the library has beyond its steps. It can be negative,
    because compilers may put several steps of a library into one function. The exit code is 1 if
    the flash is more than --max-flash, for which it was only estimated.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    if curve:
        _show_curve(ram_curve(options), as_json=as_json)
        return 0
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
    else:
        _print(size)
        isa, compiler = compiled.source.isa.name, toolchain.compiler.version
        click.echo(f"\n{toolchain.target.name} ({isa}), {compiler}")
    if options.max_flash is None or size.flash <= options.max_flash:
        return 0
    more = size.flash - options.max_flash
    warn(f"the flash is {more:,} bytes more than --max-flash: give as much less")
    return 1


def _show_curve(found: Curve, *, as_json: bool) -> None:
    """A row for each plan, the fastest first, then what is proved."""
    if as_json:
        print_json(curve_json(found))
        return
    table = curve_table(found)
    print_table(table.head, table.rows)
    click.echo()
    for line in table.after:
        click.echo(line)


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
    if size.fast:
        sums.append(["fast region", size.fast, "RAM beside the workspace, by --fast-ram"])
    if size.many_workspace > size.workspace:
        sums.append(["workspace of run_many", size.many_workspace, "instead of the other one"])
    if size.step_workspace:
        sums.append(["workspace of step", size.step_workspace, "enough where only steps run"])
    if size.state:
        sums.append(["state", size.state, "RAM for each sequence"])
    print_table(["", "bytes", ""], sums)
