"""The options of commands that generate code, rendered from `cannery.options.SPECS`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cannery.options import SPECS, Kind, Spec

F = TypeVar("F", bound=Callable[..., Any])


def _option(spec: Spec) -> Callable[[F], F]:
    if spec.kind is Kind.FLAG:
        return click.option(spec.flag, spec.name, is_flag=True, default=None, help=spec.help)
    many = spec.kind is Kind.MANY
    return click.option(
        spec.flag, spec.name, multiple=many, metavar=spec.metavar, help=spec.help, type=str
    )


def generating_options(function: F) -> F:
    """Add MODEL and every option of `SPECS`; they arrive as keyword arguments by field name."""
    for spec in reversed(SPECS):
        function = _option(spec)(function)
    return click.argument("model", type=click.Path(path_type=Path))(function)
