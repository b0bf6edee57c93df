"""`cannery evaluate`: how right a network is with floats and with integers, on labelled samples."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from cannery.api.evaluate import FLOAT, PRECISIONS, EvaluateResult, Precision, evaluate_network
from cannery.cli.arguments import FILE, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.errors import OptionError
from cannery.execution.accuracy import Score
from cannery.options import Options


@click.command(
    "evaluate",
    cls=Command,
    examples=(
        "cannery evaluate ball.h5 --data images.npz --labels classes.npy",
        "cannery evaluate ball.h5 --data x.npz --labels y.npz --precision float",
    ),
)
@generating_options()
@click.option(
    "--data",
    type=FILE,
    metavar="X.npz",
    required=True,
    help="Samples: one array per input, by its name; .npy if there is one input.",
)
@click.option(
    "--labels",
    type=FILE,
    metavar="Y.npz",
    required=True,
    help="Whole numbers are classes, floats are values; by output, .npy if there is one.",
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(PRECISIONS),
    multiple=True,
    help="May be repeated (default: all).",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0.0),
    metavar="POINTS",
    help="Exit code 1 if accuracy with integers drops by more than this, in percentage points.",
)
@json_option
def command(
    model: Path, data: Path, labels: Path, precisions: tuple[str, ...], max_drop: float | None,
    as_json: bool, **raw: Any,
) -> int:  # fmt: skip
    """Run labelled samples with floats, int16 and int8, and show how accurate each is.

    The generated code runs on this machine. Some of the samples calibrate the integers and are not
    evaluated, unless --calibration names others. Times are per sample, in a call with many.
    Constants and workspace are in bytes.
    """
    options = _options(model, raw)
    found = evaluate_network(options, data, labels, precisions or PRECISIONS, tell=note)
    if as_json:
        print_json({**asdict(found), "drops": _drops(found)})
    else:
        _print(found)
    return int(max_drop is not None and any(drop > max_drop for drop in _drops(found).values()))


def _options(model: Path, raw: dict[str, Any]) -> Options:
    """Those of all precisions; what calibrates may be in the project's file."""
    if raw.get("quantize"):
        raise OptionError("--precision chooses", where="--quantize", cure="leave it out")
    if raw.get("compute_as"):
        raise OptionError("--precision chooses", where="--compute-as", cure="leave it out")
    if raw.get("weights_as"):
        raise OptionError(
            "weights are those of each --precision", where="--weights-as", cure="leave it out"
        )
    try:
        options = options_of(model, {**raw, "quantize": PRECISIONS[-1]})
    except OptionError as error:
        if error.where != "--quantize":  # nothing calibrates: some of the samples will
            raise
        return replace(options_of(model, {**raw, "max_loss": None}), max_loss=_bound(raw))
    bounded = raw.get("max_loss") or options.project
    return options if bounded else replace(options, max_loss=math.inf)


def _bound(raw: dict[str, Any]) -> float:
    """The largest loss of integers that counts: any, unless one is given."""
    return math.inf if raw.get("max_loss") is None else float(raw["max_loss"])


def _drops(found: EvaluateResult) -> dict[str, float]:
    """Percent points by precision, where they are known."""
    drops = {p.name: found.drop(p.name) for p in found.precisions if p.name != FLOAT}
    return {name: drop for name, drop in drops.items() if drop is not None}


def _print(found: EvaluateResult) -> None:
    several = any(len(p.scores) > 1 for p in found.precisions)
    rows = [
        [p.name, *([s.name] if several else []), *_score(s), *_sizes(p)]
        for p in found.precisions for s in p.scores
    ]  # fmt: skip
    header = ["", *(["output"] if several else []), *_HEADER, "us", "constants", "workspace"]
    print_table(*_without_empty(header, rows))
    click.echo()
    for p in found.precisions:
        if p.why:
            click.echo(f"{p.name}: not possible: {p.why}")
        elif p.lost is not None and p.name != FLOAT and (drop := found.drop(p.name)) is not None:
            click.echo(
                f"{p.name}: {-drop + 0.0:+.2f} points; {p.lost} samples are right in float alone, "
                f"{p.gained} in {p.name} alone"
            )
    told = f"{found.samples} samples, calibrated with: {found.calibration}"
    if found.left_out and not found.calibration.endswith("not evaluated"):
        told += f"; {found.left_out} samples used for calibration were left out"
    click.echo(told)
    if found.reference_samples:
        click.echo(
            f"float: error {found.error:.2g} against the references, on {found.reference_samples} "
            f"samples; {found.target}"
        )


_HEADER = ("first", "95% interval", "first five", "rms error", "mean error", "largest")


def _score(score: Score) -> list[object]:
    """The cells of `_HEADER`."""
    between = "" if score.low is None else f"{100 * score.low:.1f} to {100 * (score.high or 0):.1f}"
    errors = (score.rms_error, score.mean_error, score.largest_error)
    return [
        _percent(score.top1), between, _percent(score.top5),
        *("" if error is None else f"{error:.4g}" for error in errors),
    ]  # fmt: skip


def _sizes(found: Precision) -> list[object]:
    return [f"{found.us:.3g}", found.constants, found.workspace]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.2f}%"


def _without_empty(
    header: list[str], rows: list[list[object]]
) -> tuple[list[str], list[list[object]]]:
    """The columns in which something stands."""
    kept = [k for k in range(len(header)) if any(str(row[k]) for row in rows)]
    return [header[k] for k in kept], [[row[k] for k in kept] for row in rows]
