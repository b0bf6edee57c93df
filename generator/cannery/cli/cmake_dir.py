"""`cannery cmake-dir`: where the CMake package is."""

from __future__ import annotations

import click

from cannery.cli.help import Command
from cannery.cli.output import json_option, print_json
from cannery.resources import cmake_dir, toolchains_dir


@click.command(
    "cmake-dir",
    cls=Command,
    examples=("cmake -S . -B build -DCannery_DIR=$(cannery cmake-dir)",),
)
@click.option("--toolchains", is_flag=True, help="Print the folder of the toolchain files instead.")
@json_option
def command(toolchains: bool, as_json: bool) -> None:
    """Print the folder of CanneryConfig.cmake: cmake -DCannery_DIR=$(cannery cmake-dir) ..."""
    if as_json:
        print_json({"cmake_dir": str(cmake_dir()), "toolchains_dir": str(toolchains_dir())})
    else:
        click.echo(toolchains_dir() if toolchains else cmake_dir())
