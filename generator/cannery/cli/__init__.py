"""The command line: `cannery <command>`, one module per command, imported when it is called.

Results go to stdout, everything else to stderr. Exit code 0: done; 1: a check failed; 2: bad input
or environment, reported in one line.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from cannery import __version__
from cannery.cli.output import (
    STANDARD_OUTPUT,
    json_option,
    naming_output,
    print_error,
    print_json,
    warn,
)
from cannery.deadline import now
from cannery.errors import CanneryError, CanneryWarning, closest

#: New objects after which Python looks for unreachable cycles. There are hardly any, and looking
#: for them after every 700, the default, takes a twentieth of the time of `compile`.
_COLLECTED_FROM = 100_000

#: Threads of numpy's BLAS, unless the environment says otherwise. It computes only for moments, and
#: threads that wait for each other cost a busy machine more than they save.
_BLAS_THREADS = "1"

#: The commands in the order of `--help`; `cannery foo-bar` is `command` of `foo_bar.py`.
COMMANDS = {
    "compile": "Turn a model into C files.",
    "weights": "Write new weights for a library that was compiled with --weights.",
    "autotune": "Time variants of every layer and keep the best.",
    "run": "Run a model's generated code on arrays from a file.",
    "verify": "Compare a model's generated code with the reference.",
    "evaluate": "Show how accurate a model is with floats and with integers.",
    "compare": "Compare every layer's values with the reference or a framework.",
    "bench": "Time a model's generated code.",
    "report": "Write a page about a model's generated code.",
    "diff": "Compare two models or tuning records: times, sizes, outputs.",
    "count": "Count the instructions of one run, exactly, by step and by kind.",
    "size": "Show how much flash, RAM and stack the generated code takes.",
    "guarantees": "Say what is certain: stack, memory, calls, loops, time, arithmetic.",
    "asm": "Show the inner loops that the compiler makes, and what is in them.",
    "inspect": "Show what is in a model, and what is unsupported.",
    "targets": "List the targets and how their programs can be built and run here.",
    "list": "List operators, schedules, layouts and instruction sets.",
    "doctor": "Find compilers and emulators; say what is missing and how to get it.",
    "cmake-dir": "Print the folder for -DCannery_DIR=.",
    "demo": "Tune, build and run the example project.",
}


class _Lazy(click.Group):
    """Imports a command's module only when needed; `--help` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]  # `list` is the command, once that is imported

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"cannery.cli.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; fails for an unknown one, and suggests the one that is probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            what = f"{error.message} {_meant(closest(args[0], COMMANDS))}"
            raise click.UsageError(what, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    no_args_is_help=False,
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option(
    "--no-project",
    is_flag=True,
    help="Read no options from cannery.toml or pyproject.toml.",
)
@json_option
@click.pass_context
def cli(ctx: click.Context, version: bool, no_project: bool, as_json: bool) -> int:
    """Turn trained neural networks into C static libraries, each made for one processor."""
    if version:
        if as_json:
            print_json({"version": __version__})
        else:
            click.echo(f"cannery, version {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        return 2
    return 0


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises for what a user can cause.

    Commands find their start time, by `deadline.now`, in the context's `obj`.
    """
    try:
        # numpy warns about overflows; a network may have some, and its inf and NaN are compared.
        with warnings.catch_warnings(), naming_output():
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("always", CanneryWarning)
            warnings.showwarning = _show_warning
            result = cli.main(args=arguments, prog_name="cannery", standalone_mode=False, obj=now())
    except CanneryError as error:
        return print_error(str(error))
    except click.NoSuchOption as error:
        return print_error(_unknown_option(error))
    except click.ClickException as error:
        return print_error(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return print_error("interrupted", code=130)
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except OSError as error:
        return _os_error(error)
    return result if isinstance(result, int) else 0


def _unknown_option(error: click.NoSuchOption) -> str:
    """What is wrong with an option, and the one that is probably meant."""
    command = error.ctx.command if error.ctx else cli
    known = [name for parameter in command.params for name in parameter.opts]
    near = closest(error.option_name, [name for name in known if name.startswith("-")])
    return f"No such option {error.option_name!r}. {_meant(near)}"


def _meant(near: str) -> str:
    """What follows an unknown word of the command line."""
    return f"(did you mean {near!r}?)" if near else "(cannery --help lists them)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show users warnings meant for them; anything else as Python does."""
    if issubclass(category, CanneryWarning):
        warn(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _os_error(error: OSError) -> int:
    """Users can fix full disks and unreadable files; any other OSError is a defect."""
    error = _about_the_target(_first_of(error))
    if error.errno not in (
        errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT,
        errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EMFILE, errno.EIO,
        errno.EFBIG, errno.ELOOP,
    ):  # fmt: skip
        raise error
    if error.filename == STANDARD_OUTPUT:
        what = f"{STANDARD_OUTPUT} cannot be written: {error.strerror}"
        return print_error(f"{what} (make room, or send it elsewhere)")
    place = f"{error.filename}: " if error.filename else ""
    return print_error(f"{place}{error.strerror} ({_os_cure(error)})")


def _first_of(error: OSError) -> OSError:
    """The first of the errors that copying a folder collects, as (source, target, text); else the
    error itself.
    """
    if not isinstance(error, shutil.Error):
        return error
    _, target, text = error.args[0][0]
    number = re.match(r"\[Errno (\d+)\]", str(text))
    if number is None:
        return error
    return OSError(int(number[1]), os.strerror(int(number[1])), target)


def _about_the_target(error: OSError) -> OSError:
    """Copies fail for lack of space at their target, not at the file that is read."""
    if error.filename2 and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OSError(error.errno, error.strerror, error.filename2)
    return error


def _os_cure(error: OSError) -> str:
    """Advice about a system error."""
    number = error.errno
    if number in (errno.ENOSPC, errno.EDQUOT):
        temporary = tempfile.gettempdir()
        if not Path(str(error.filename or temporary)).is_relative_to(temporary):
            return "make room, or write to another place"
        return f"make room; programs are built in {temporary}, or where TMPDIR says"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "change its permissions, or name another place"
    if number in (errno.EMFILE, errno.EFBIG):
        return f"raise the limit, see ulimit -{'n' if number == errno.EMFILE else 'f'}"
    return "check the path, or name another place"


def main() -> None:
    """The entry point of the program."""
    signal.signal(signal.SIGTERM, _terminated)
    gc.set_threshold(_COLLECTED_FROM)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", _BLAS_THREADS)
    sys.exit(invoke())


def _terminated(number: int, frame: FrameType | None) -> None:
    """Leave through every `finally`, which remove folders and end programs."""
    raise SystemExit(128 + number)
