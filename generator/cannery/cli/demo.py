"""`cannery demo`: the main job on the example project, from the model to classified images."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from cannery.cli.arguments import FILE, budget_option
from cannery.cli.demo_project import (
    OPTIONS,
    Classified,
    Outcome,
    build_project,
    copy_project,
    demo_options,
    find_cmake,
    run_program,
)
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json
from cannery.cli.pictures import read_pgm, side_by_side
from cannery.cli.tuning_progress import live_progress
from cannery.cli.tuning_report import as_dict, print_report
from cannery.measure.build import find_ninja
from cannery.target.compiler import find_compiler

#: Pictures side by side in 80 columns.
_ABREAST = 4


@click.command(
    "demo",
    cls=Command,
    examples=("cannery demo --budget 20",),
)
@click.option(
    "--folder",
    type=FILE,
    metavar="DIR",
    help="Where to put the project; must be empty (default: a new temporary folder).",
)
@budget_option()
@json_option
def command(folder: Path | None, budget: float | None, as_json: bool) -> int:
    """Tune, build and run the example project, which distinguishes footballs from other things.

    Exit code 1 if an image is classified wrongly.
    """
    # Report what is missing before doing anything.
    find_compiler("")
    cmake, ninja = find_cmake(), find_ninja()
    with _project(folder) as project:
        outcome = _main_job(project, budget, cmake, ninja, as_json=as_json)
    return int(not all(found.right for found in outcome.images))


@contextmanager
def _project(folder: Path | None) -> Iterator[Path]:
    """A copy of the project; a temporary one is removed by errors that do not name it."""
    project = copy_project(folder)
    try:
        yield project
    except BaseException as error:
        if folder is None and str(project) not in str(error):
            shutil.rmtree(project, ignore_errors=True)
        raise


def _main_job(
    project: Path, budget: float | None, cmake: str, ninja: str, *, as_json: bool
) -> Outcome:
    """Tune, build and run, and print the results."""
    from cannery.tuning.outcome import Settings
    from cannery.tuning.tuner import tune

    if not as_json:
        _head(f"1. The project: {project}")
        _head(f"2. Variants of each layer: cannery autotune ball.h5 {shlex.join(OPTIONS)}")
    with live_progress() as progress:
        tuned = tune(demo_options(project / "ball.h5"), Settings(budget), progress)
    if not as_json:
        print_report(tuned)
        _head("3. The project with the tuned network: cmake, cmake --build")
    started = time.monotonic()
    note("building")
    program = build_project(project, cmake, ninja)
    seconds = time.monotonic() - started
    outcome = run_program(program)
    if as_json:
        print_json(_as_dict(project, as_dict(tuned), outcome))
    else:
        click.echo(f"built in {seconds:.1f} s: {program}")
        _head("4. The program on example images")
        _print_gallery(project / "images", outcome)
        right = sum(found.right for found in outcome.images)
        click.echo(f"{right} of {len(outcome.images)} right, {outcome.latency_us:.3g} us per image")
        click.echo(f"\nThe project stays in {project}; delete it when you no longer need it.")
    return outcome


def _head(text: str) -> None:
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(f"\n{click.style(text, bold=True) if bold else text}\n")


def _as_dict(project: Path, tuned: dict[str, object], outcome: Outcome) -> dict[str, object]:
    images = [{**vars(found), "right": found.right} for found in outcome.images]
    return {
        "folder": str(project), "autotune": tuned, "images": images,
        "latency_us": outcome.latency_us,
    }  # fmt: skip


def _caption(found: Classified) -> list[str]:
    is_ball = found.ball > found.no_ball
    text = f"{'ball' if is_ball else 'no ball'} {max(found.ball, found.no_ball):.1%}"
    return [text, "" if found.right else f"WRONG: {found.label.replace('_', ' ')}"]


def gallery(folder: Path, outcome: Outcome, *, colour: bool) -> list[str]:
    """The images above their classes; lines of text, or of rich's markup."""
    blocks = []
    for found in outcome.images:
        picture = read_pgm(folder / found.image).stretched()
        lines = picture.as_markup() if colour else picture.as_ascii()
        caption = [text.ljust(picture.width) for text in _caption(found)]
        blocks.append(([*lines, *caption], picture.width))
    rows = []
    for k in range(0, len(blocks), _ABREAST):
        rows += side_by_side(blocks[k : k + _ABREAST])
    return rows


def _print_gallery(folder: Path, outcome: Outcome) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    shades = console.color_system in ("256", "truecolor") and not console.no_color
    if shades and console.encoding == "utf-8":
        lines = gallery(folder, outcome, colour=True)
        console.print("\n".join(lines), no_wrap=True, crop=False)
    else:
        click.echo("\n".join(gallery(folder, outcome, colour=False)))
