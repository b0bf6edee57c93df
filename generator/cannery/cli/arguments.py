"""The options of commands that generate code, rendered from `cannery.options.SPECS`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cannery.cli.output import note
from cannery.option_values import FLOAT_TYPES, IO_LAYOUTS, IO_TYPES, QUANTIZED, WEIGHT_TYPES
from cannery.options import (
    SPECS,
    Kind,
    Options,
    Spec,
    make_options,
)
from cannery.project_file import merged_options, project_options

F = TypeVar("F", bound=Callable[..., Any])


def _option(spec: Spec) -> Callable[[F], F]:
    if spec.kind is Kind.FLAG:
        return click.option(
            spec.flag, spec.name, is_flag=True, default=None, help=spec.help, hidden=spec.hidden
        )
    many = spec.kind is Kind.MANY
    return click.option(
        spec.flag, spec.name, multiple=many, metavar=spec.metavar, help=spec.help, type=str,
        hidden=spec.hidden, shell_complete=partial(_complete, spec),
    )  # fmt: skip


def mca_option(function: F) -> F:
    """Add `--mca`: the processor whose cycles are estimated."""
    decorate = click.option(
        "--mca",
        metavar="CPU",
        help="Estimate cycles for a processor, by Cannery's model (cortex-a53, cortex-a55) or by "
        "llvm-mca: atom, silvermont, cortex-a9, cortex-a72 ...",
    )
    return decorate(function)


def _complete(
    spec: Spec, context: click.Context, parameter: click.Parameter, begun: str
) -> list[str | CompletionItem]:
    """The values that begin so, for shells; of paths those that the shell finds itself."""
    if spec.is_path:
        return [CompletionItem(begun, type="file")]
    return [value for value in _values(spec) if value.startswith(begun)]


def _values(spec: Spec) -> tuple[str, ...]:
    """What an option may be, where that is a list."""
    if spec.name == "target":
        from cannery.target.targets import TARGETS

        return tuple(TARGETS)
    if spec.name == "isa":
        from cannery.target.isa import ISAS

        return tuple(ISAS)
    return {
        "quantize": tuple(dtype.value for dtype in QUANTIZED),
        "weights_as": WEIGHT_TYPES,
        "compute_as": FLOAT_TYPES,
        "io_layout": IO_LAYOUTS,
        "io_type": IO_TYPES,
    }.get(spec.name, ())


def generating_options(
    *, several: bool = False, names: tuple[str, ...] = ("MODEL",)
) -> Callable[[F], F]:
    """Add every option of `SPECS`, and MODEL as `model` (or MODEL... as `models`).

    `names` are those of the arguments if there are several single models.

    The options arrive as keyword arguments by field name, as texts.
    """

    def decorate(function: F) -> F:
        for spec in reversed(SPECS):
            function = _option(spec)(function)
        path = FILE
        if several:
            return click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=path)(
                function
            )
        for name in reversed(names):
            function = click.argument(name.lower(), metavar=name, type=path)(function)
        return function

    return decorate


def options_of(model: Path, given: Mapping[str, Any]) -> Options:
    """The options of a command: those that are given, then those of the model's project file.

    `cannery --no-project` reads no such file.
    """
    context = click.get_current_context(silent=True)
    unread = context is not None and context.find_root().params.get("no_project")
    project = None if unread else project_options(model)
    if project is None or not project.raw:
        return make_options(model, given)
    note(f"{project.path}: {', '.join(sorted(project.raw))}")
    return replace(make_options(model, merged_options(project, given)), project=project.path)


class _File(click.Path):
    """A path of a file or folder; an empty one would be the working directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """The path; fails for an empty text."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)


class Seconds(click.FloatRange):
    """A finite number of seconds, at least 0."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails for other text and infinity."""
        seconds = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return seconds


def budget_option() -> Callable[[F], F]:
    """`--budget SECONDS`, of the commands that tune."""
    return click.option(
        "--budget", type=Seconds(min=0.0), metavar="SECONDS",
        help="Seconds for the whole tuning, the most expensive layers first. The report lists what "
        "there was no time for; the record has no line for it.",
    )  # fmt: skip
