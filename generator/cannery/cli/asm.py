"""`cannery asm`: what the compiler makes of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cannery.analysis.estimator import Estimator
from cannery.analysis.kernels import StepCode, step_codes
from cannery.analysis.mix import Mix, Piece
from cannery.analysis.models import find_estimator
from cannery.cli.arguments import generating_options, mca_option, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table, warn
from cannery.errors import OptionError, ToolchainError, one_of
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain


@click.command(
    "asm",
    cls=Command,
    examples=(
        "cannery asm ball.h5 --target aarch64-a72",
        "cannery asm ball.h5 2 --mca cortex-a53",
    ),
)
@generating_options()
@click.argument("layer", required=False)
@mca_option
@json_option
def command(model: Path, layer: str | None, mca: str | None, as_json: bool, **raw: Any) -> None:
    """Show the hot loop of every step of MODEL, or of LAYER with its instructions.

    LAYER is a step's name, an unambiguous part of it, or its number. Loads, spills (accesses to the
    stack frame) and cycles are also given per multiply-accumulate of a vector. Which loop is hot is
    a guess from its multiplies and its depth.
    """
    options = replace(options_of(model, raw), split=1)  # the code is the same, in one file
    toolchain = find_toolchain(options)
    source = compile_model(options)
    note(f"compiling {options.name} for {toolchain.target.name}")
    machine, steps = step_codes(source.source, source.files, toolchain)
    estimator = find_estimator(mca, machine) if mca else None
    compiler = toolchain.compiler.version
    chosen = steps if layer is None else (find_step(steps, layer),)
    if as_json:
        print_json({
            "target": toolchain.target.name, "isa": source.source.isa.name, "compiler": compiler,
            "estimated_for": estimator.cpu if estimator else None,
            "steps": [_step_json(s, estimator, texts=layer is not None) for s in chosen],
        })  # fmt: skip
        return
    if layer is None:
        _print_summary(chosen, estimator)
    else:
        _print_step(chosen[0], estimator)
    click.echo(f"\n{toolchain.target.name} ({source.source.isa.name}), {compiler}")
    if estimator:
        click.echo(estimator.remark)


def find_step(steps: Sequence[StepCode], layer: str) -> StepCode:
    """The step that LAYER names; raises OptionError if it is none or several."""
    for step in steps:
        if step.name == layer:
            return step
    if layer.isascii() and layer.isdigit() and int(layer) < len(steps):
        return steps[int(layer)]
    found = [step for step in steps if layer in step.name]
    if len(found) == 1:
        return found[0]
    cure = one_of(layer, [step.name for step in found or steps])
    what = "is not unambiguous" if found else "is not a step"
    raise OptionError(f"{layer!r} {what}", where="LAYER", cure=cure)


def _cycles(piece: Piece, step: StepCode, estimator: Estimator | None) -> float | None:
    """Cycles of one pass through a loop, or through the hot piece if that is not a loop.

    None, with a warning, if the estimator does not know an instruction.
    """
    if estimator is None or not (piece.depth or piece is step.hot):
        return None
    try:
        return estimator.cycles(piece.instructions, loop=piece.depth > 0)
    except ToolchainError as error:
        warn(f"no estimate for {piece.function}: {error}")
        return None


def _ratios(mix: Mix, cycles: float | None) -> dict[str, float | None]:
    """What accompanies one multiply-accumulate of a vector."""
    found = {
        name: mix.per_multiply(getattr(mix, name))
        for name in ("instructions", "loads", "shuffles", "moves", "spills")
    }
    if cycles is not None and mix.multiplies:
        found["cycles"] = cycles / mix.multiplies
    return found


def _step_json(step: StepCode, estimator: Estimator | None, *, texts: bool) -> dict[str, Any]:
    rows = []
    for piece in step.pieces if texts else step.pieces[:1]:
        cycles = _cycles(piece, step, estimator)
        code = [f"{i.address:x}: {i.text}" for i in piece.instructions]
        rows.append({
            "function": piece.function, "depth": piece.depth, "innermost": piece.innermost,
            "mix": vars(piece.mix), "estimated_cycles": cycles,
            "per_multiply": _ratios(piece.mix, cycles), **({"code": code} if texts else {}),
        })  # fmt: skip
    return {"step": step.name, "schedule": step.schedule, "macs": step.macs, "loops": rows}


def _print_summary(steps: Sequence[StepCode], estimator: Estimator | None) -> None:
    columns = _columns(estimator)
    rows = []
    for number, step in enumerate(steps):
        numbers = _row(step.hot, step, estimator) if step.hot else [""] * len(columns)
        rows.append([number, step.name, step.schedule, step.macs, *numbers])
    print_table(["", "step", "schedule", "MACs", *columns], rows)


def _columns(estimator: Estimator | None) -> list[str]:
    cycles = ["est. cycles", "est. cycles/mul"] if estimator else []
    return ["depth", "instructions", "multiplies", "loads/mul", "shuffles/mul", "moves/mul",
            "spills/mul", *cycles]  # fmt: skip


def _row(piece: Piece, step: StepCode, estimator: Estimator | None) -> list[object]:
    mix = piece.mix
    cycles = _cycles(piece, step, estimator)
    ratios = _ratios(mix, cycles)
    names = ["loads", "shuffles", "moves", "spills"]
    numbers = [ratios[name] for name in names]
    if estimator:
        numbers += [cycles, ratios.get("cycles")]
    cells = ("" if r is None else f"{r:.2f}" for r in numbers)
    return [str(piece.depth), str(mix.instructions), str(mix.multiplies), *cells]


def _print_step(step: StepCode, estimator: Estimator | None) -> None:
    click.echo(f"{step.name}: {step.schedule}, {step.macs:,} MACs")
    if not step.hot:
        click.echo("computes nothing")
        return
    hot = step.hot
    what = f"loop at depth {hot.depth}" if hot.depth else "outside loops"
    click.echo(f"\n{hot.function}, {what}:\n")
    for instruction in hot.instructions:
        click.echo(f"{instruction.address:8x}  {instruction.text}")
    click.echo()
    counts = [(n, c) for n, c in vars(hot.mix).items() if n != "vector_spills"]
    print_table([name for name, _ in counts], [[count for _, count in counts]])
    click.echo(f"of the spills, {hot.mix.vector_spills} move vectors")
    click.echo("\nall loops, and what is in none (depth 0); the first is the one above\n")
    rows = [[p.function, *_row(p, step, estimator)] for p in step.pieces]
    print_table(["function", *_columns(estimator)], rows)
