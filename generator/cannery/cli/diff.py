"""`cannery diff`: two networks, or two tuning records of one, measured side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cannery.choose.record import MODELS, SUFFIX, read_record
from cannery.cli.arguments import FILE, Seconds, generating_options, options_of
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table
from cannery.errors import OptionError
from cannery.measure.measure import Context, refuse_emulated
from cannery.options import Options
from cannery.output_files import check_output_file, write_files
from cannery.reporting.comparison import Comparison, Limits, change, compare
from cannery.reporting.measuring import DEFAULT_SECONDS, Subject, make_subject, measure_all
from cannery.reporting.page import Side, render_page
from cannery.reporting.plotly_bundle import plotly_text
from cannery.reporting.tried import tried_of_record
from cannery.target.runner import origin_text

#: The default fraction of a time by which B may be slower.
_SLOWER = 3.0


@click.command(
    "diff",
    cls=Command,
    examples=(
        "cannery diff old.h5 new.h5",
        "cannery diff old.tuning.json new.tuning.json --model ball.h5 -o diff.html",
        "cannery diff old.h5 new.h5 --count --target aarch64-a53",
    ),
)
@generating_options(names=("A", "B"))
@click.option(
    "--model",
    type=FILE,
    metavar="MODEL",
    help="Model of the records A or B (default: beside them).",
)
@click.option(
    "--seconds",
    type=Seconds(min=0.01),
    default=DEFAULT_SECONDS,
    show_default=True,
    help="How long to time each.",
)
@click.option(
    "--context",
    type=click.Choice([c.value for c in Context]),
    default=Context.WARM.value,
    show_default=True,
    help="Time calls with warm caches, or with cold ones, as when called once per frame.",
)
@click.option(
    "--count",
    is_flag=True,
    help="Count instructions of a run instead: exact.",
)
@click.option(
    "--max-slower",
    type=click.FloatRange(min=0.0),
    metavar="PERCENT",
    default=_SLOWER,
    show_default=True,
    help="How much more time, or how many more instructions, B may take.",
)
@click.option(
    "--max-larger",
    type=click.FloatRange(min=0.0),
    metavar="PERCENT",
    default=0.0,
    show_default=True,
    help="How much larger B's weights, code and workspace may be.",
)
@click.option(
    "--max-difference",
    type=click.FloatRange(min=0.0),
    metavar="E",
    help="Bound of max|b - a| / max|a| per output (default: twice --max-error where A and B are of "
    "one model, else none).",
)
@click.option(
    "-o", "--output", type=FILE, metavar="FILE.html", help="Also write a report of both, as a page."
)
@json_option
def command(
    a: Path, b: Path, model: Path | None, seconds: float, context: str, count: bool,
    max_slower: float, max_larger: float, max_difference: float | None, output: Path | None,
    as_json: bool, **raw: Any,
) -> int:  # fmt: skip
    """Measure A and B, each a model or a tuning record, and say what differs.

    They are timed in turn. If the intervals of two times overlap, there is no difference. Exit code
    1 if B is slower, larger or less exact than A, or computes something else, by more than the
    options allow. Under an emulator, --count compares instructions.
    """
    if output is not None:
        plotly_text()
        check_output_file(output, "--output")
    if model is not None and not any(path.name.endswith(SUFFIX) for path in (a, b)):
        raise OptionError(
            "neither side is a tuning record", where="--model", cure="name the models as A and B"
        )
    subjects = [make_subject(_options(path, model, raw)) for path in (a, b)]
    caches = Context(context)
    for subject in subjects:
        refuse_emulated(caches, subject.runner)
    note(f"building {a} and {b}")
    measured, outputs = measure_all(
        subjects, seconds, caches, thorough=output is not None, count=count
    )
    facts = [subject.facts for subject in subjects]
    limits = Limits(max_slower / 100, max_larger / 100, _difference(subjects, max_difference))
    found = compare(
        (facts[0], facts[1]), (measured[0], measured[1]), (outputs[0], outputs[1]), limits
    )
    if output is not None:
        rows = zip("AB", (a, b), facts, measured, subjects, strict=True)
        sides = [
            Side(letter, path.name, f, m, tried_of_record(subject.options, f))
            for letter, path, f, m, subject in rows
        ]
        write_files({output: render_page(sides, found).encode("utf-8", "replace")})
    if as_json:
        targets = [subject.toolchain.target.name for subject in subjects]
        print_json({"a": str(a), "b": str(b), "targets": targets, **found.as_dict()})
    else:
        _print(found, subjects)
    return int(bool(found.worse))


def _options(path: Path, model: Path | None, raw: dict[str, Any]) -> Options:
    """Those of one side: of a model, or of the model to which a record belongs."""
    if not path.name.endswith(SUFFIX):
        return options_of(path, raw)
    record = read_record(path)
    if record is None:
        raise OptionError("there is no such file", where=str(path), cure="check the path")
    found = model or _model_of(path, record.model)
    target = {} if raw.get("target") or raw.get("isa") else {"target": record.target}
    return options_of(found, {**raw, **target, "tuning": str(path)})


def _model_of(path: Path, name: str) -> Path:
    """The model that a record names, next to it."""
    found = [p for p in sorted(path.parent.glob("*")) if p.stem == name and p.suffix in MODELS]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} files" if found else "no model"
    raise OptionError(
        f"there is {what} called {name} next to it", where=str(path), cure="name it with --model"
    )


def _difference(subjects: list[Subject], given: float | None) -> float | None:
    """By how much outputs may differ: only networks of one model compute the same."""
    one, other = subjects
    if given is not None:
        return given
    same = one.options.model.resolve() == other.options.model.resolve()
    return one.source.max_error + other.source.max_error if same else None


def _print(found: Comparison, subjects: list[Subject]) -> None:
    what = "instructions" if found.counts else "us"
    rows = [
        [
            " + ".join(layer.title for layer in row.layers[0] or row.layers[1]),
            *(row.counts or (str(time) if time else "" for time in row.times)),
            row.verdict, *row.sizes,
        ]
        for row in found.rows
    ]  # fmt: skip
    print_table(["layer", f"{what}, A", f"{what}, B", "", "bytes, A", "bytes, B"], rows)
    click.echo()
    totals = [[name, *pair, _percent(*pair)] for name, pair in found.sizes.items()]
    print_table(["bytes", "A", "B", ""], totals)
    click.echo()
    one, other = found.times
    if one and other:
        click.echo(f"A {one} us, B {other} us: {found.verdict}, {_percent(one.mid, other.mid)}")
    if found.counts:
        a, b = found.counts
        click.echo(f"A {a:,} instructions, B {b:,}: {found.verdict}, {_percent(a, b)}")
    errors = ", ".join(f"{name} {value:.2g}" for name, value in (found.differences or {}).items())
    click.echo(f"error of A {found.errors[0]:.2g}, of B {found.errors[1]:.2g}")
    told = f"outputs differ by: {errors}" if errors else "the outputs have different shapes"
    places = list(dict.fromkeys(map(_where, subjects)))
    click.echo(f"{told}; {places[0]}" if len(places) == 1 else told)
    if len(places) > 1:
        click.echo(f"of different targets: A for {places[0]}; B for {places[1]}")
    for sentence in found.worse:
        click.echo(f"worse: {sentence}")


def _where(subject: Subject) -> str:
    target, runner = subject.toolchain.target, subject.runner
    return f"{target.name} ({subject.source.isa.name}), {origin_text(runner.origin, runner.device)}"


def _percent(one: float, other: float) -> str:
    part = change(one, other)
    return "" if part is None else f"{part:+.1%}"
