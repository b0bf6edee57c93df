"""`cannery count`: the exact number of instructions that a network takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cannery.analysis.mix import Mix
from cannery.cli.arguments import generating_options, mca_option, options_of
from cannery.cli.blocks import calls_of_run, print_block, print_round, with_blocks
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.execution.counts import NetworkCount, count_network
from cannery.execution.samples import seeded_samples
from cannery.options import Options
from cannery.pipeline import compile_graph, import_graph
from cannery.target.runner import Runner, is_qemu
from cannery.target.toolchain import Toolchain, find_toolchain

#: The columns shown of a mix; --json has all of it.
_SHOWN = ("multiplies", "adds", "loads", "stores", "shuffles", "moves", "spills", "branches")


@click.command(
    "count",
    cls=Command,
    examples=(
        "cannery count ball.h5 --target aarch64-a53",
        "cannery count ball.h5 --target aarch64-a53 --mca cortex-a53",
    ),
)
@generating_options()
@mca_option
@json_option
def command(model: Path, mca: str | None, as_json: bool, **raw: Any) -> None:
    """Count the instructions of one run of MODEL's generated code, by step and by kind.

    The program runs under QEMU, on a processor without the instructions that the target lacks. The
    counts are exact and the same every time, even on a busy machine; they say nothing about caches
    and, without --mca, nothing about pipelines. Loads and stores count vector registers: one for an
    operand in memory, two for a pair; spills are those that go to the stack frame.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    runner = toolchain.emulator()
    if options.device or (
        options.runner and not is_qemu(runner.command[0] if runner.command else "")
    ):
        raise OptionError(
            "instructions are counted under QEMU",
            where="--device" if options.device else "--runner",
            cure="leave it out",
        )
    note(f"building {options.name} for {toolchain.target.name}")
    counts = [_counted(each, toolchain, runner, mca or "") for each in options.each_block]
    if as_json:
        print_json(with_blocks(options.each_block, [_as_dict(*each, toolchain) for each in counts]))
        return
    for each, (source, count) in zip(options.each_block, counts, strict=True):
        print_block(each)
        _print(count, sum(source.round_macs))
        print_round(source)
    isa = counts[0][0].isa.name
    click.echo(f"\n{toolchain.target.name} ({isa}), {toolchain.compiler.version}")
    if estimator := counts[0][1].estimator:
        click.echo(estimator.remark)


def _counted(
    options: Options, toolchain: Toolchain, runner: Runner, cpu: str
) -> tuple[Source, NetworkCount]:
    graph = import_graph(options)
    compiled = compile_graph(graph, options)
    (sample,) = seeded_samples(graph, 1)
    count = count_network(compiled.source, compiled.files, toolchain, runner, sample, cpu)
    return compiled.source, count


def _as_dict(source: Source, count: NetworkCount, toolchain: Toolchain) -> dict[str, Any]:
    return {
        "target": toolchain.target.name, "isa": source.isa.name,
        "compiler": toolchain.compiler.version, "macs": sum(source.round_macs),
        **calls_of_run(source),
        "instructions": count.instructions, "outside_steps": count.rest,
        **_cycles(count),
        "mix": vars(count.mix),
        "steps": [
            {
                "step": s.name, "schedule": s.schedule, "macs": s.macs, "mix": vars(s.mix),
                **({"estimated_cycles": s.cycles} if count.estimator else {}),
                **({"counted_in": s.counted_in} if s.counted_in is not None else {}),
            }
            for s in count.steps
        ],
    }  # fmt: skip


def _cycles(count: NetworkCount) -> dict[str, Any]:
    """What a model of a pipeline says, for JSON; nothing if it was not asked."""
    if count.estimator is None:
        return {}
    return {"estimated_for": count.estimator.cpu, "estimated_cycles": count.cycles}


def _print(count: NetworkCount, macs: int) -> None:
    estimated = ["est. cycles"] if count.estimator else []

    def cells(cycles: float | None) -> list[str]:
        return ["" if cycles is None else f"{cycles:,.0f}" for _ in estimated]

    rows = [
        [str(k), s.name, s.schedule, *_row(s.macs, s.mix.instructions, s.mix), *cells(s.cycles)]
        for k, s in enumerate(count.steps)
    ]
    empty = ["" for _ in (*_SHOWN, *estimated)]
    rows.append(["", "outside the steps", "", "", f"{count.rest:,}", "", *empty])
    rows.append(["", "all", "", *_row(macs, count.instructions, count.mix), *cells(count.cycles)])
    columns = ["", "step", "schedule", "MACs", "instructions", "per MAC", *_SHOWN, *estimated]
    print_table(columns, rows)
    for owner in sorted({s.counted_in for s in count.steps if s.counted_in is not None}):
        others = [str(k) for k, s in enumerate(count.steps) if s.counted_in == owner]
        click.echo(f"Step {owner} includes what steps share with it: {', '.join(others)}.")


def _row(macs: int, instructions: int, mix: Mix) -> list[str]:
    """Numbers as text; nothing is divided by zero multiply-accumulates."""
    each = f"{instructions / macs:.3f}" if macs else ""
    return [f"{macs:,}", f"{instructions:,}", each, *(f"{getattr(mix, n):,}" for n in _SHOWN)]
