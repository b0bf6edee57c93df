"""What the command line prints: results on stdout, notes on stderr, fewer without a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar, cast

import click

from cannery.cli.tables import lay_out, terminal_width
from cannery.errors import printable

F = TypeVar("F", bound=Callable[..., Any])


#: The "file name" in errors of stdout.
STANDARD_OUTPUT = "standard output"


class _Named:
    """A stream whose errors name standard output, because the system does not name a file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Like the stream's method."""
        with _naming():
            return self._stream.write(text)

    def flush(self) -> None:
        """Like the stream's method."""
        with _naming():
            self._stream.flush()


@contextmanager
def _naming() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = STANDARD_OUTPUT
        raise


@contextmanager
def naming_output() -> Iterator[None]:
    """Within it, errors of stdout have STANDARD_OUTPUT as their file name."""
    stream = sys.stdout
    if stream is None:  # it was closed
        yield
        return
    sys.stdout = cast(TextIO, _Named(stream))
    try:
        yield
    finally:
        sys.stdout = stream


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def print_error(message: str, code: int = 2) -> int:
    """Print `cannery: error: ...` as one line; returns the exit code."""
    line = " ".join(message.split())
    prefix = click.style("cannery: error:", fg="red") if _colour() else "cannery: error:"
    with suppress(OSError):  # if even stderr fails, the exit code says it
        click.echo(f"{prefix} {line}", err=True)
    return code


def warn(message: str) -> None:
    """Print a warning as one line on stderr, on a terminal or not."""
    click.echo(f"cannery: warning: {printable(message)}", err=True)


def remark(message: str) -> None:
    """Print a note as one line on stderr, on a terminal or not."""
    click.echo(f"cannery: note: {printable(message)}", err=True)


def note(message: str) -> None:
    """Report progress on stderr; silent if it is not a terminal."""
    if sys.stderr.isatty():
        click.echo(message, err=True)


def print_json(value: object) -> None:
    """Print one JSON value on stdout."""
    click.echo(json.dumps(value, indent=2))


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], marked: Collection[int] = ()
) -> None:
    """Print aligned columns on stdout; numbers to the right, rows `marked` by number in colour."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, lines in enumerate(lay_out(header, rows, terminal_width()), -1):
        for line in lines:
            shown = colour and number in marked
            click.echo(click.style(line, fg="green", bold=True) if shown else line)


def json_option(function: F) -> F:
    """Add `--json`, passed as `as_json`; it also works before the command."""
    decorate = click.option(
        "--json", "as_json", is_flag=True, callback=_or_of_parent, help="Print JSON."
    )
    return decorate(function)


def _or_of_parent(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    return value or bool(ctx.parent and ctx.parent.params.get("as_json"))
