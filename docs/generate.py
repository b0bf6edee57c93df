"""Writes the generated parts of these pages: `python docs/generate.py`; a test compares.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
import tflite

from cannery.choose.record import Record
from cannery.cli import COMMANDS, cli
from cannery.cli.help import Command
from cannery.frontends.keras.layers.scoreboard import scoreboard
from cannery.frontends.keras.operations.base import operation_names
from cannery.frontends.tflite import scoreboard as tflite_scoreboard
from cannery.options import SPECS, Group, Kind, Spec
from cannery.target.targets import TARGETS

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: What the groups of options are about, in a sentence.
ABOUT = {
    Group.MODEL: "What the network is.",
    Group.PROCESSOR: "What the code is for.",
    Group.NUMBERS: "How exact results are, and in which numbers the network computes.",
    Group.INTERFACE: "How your program calls it.",
    Group.TUNING: "Which tuning record is used.",
    Group.TOOLS: "How programs are built and run to measure and check. CMake sets these itself.",
    Group.DEBUG: "What a library says of its runs.",
}  # fmt: skip


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|")


def options() -> str:
    """A table for each group: command line, CMake, meaning."""
    lines: list[str] = []
    for group in Group:
        lines += ["", f"## {group.value}", "", ABOUT[group], ""]
        lines += ["| command line | CMake | meaning |", "|---|---|---|"]
        lines += [_option(spec) for spec in SPECS if spec.group is group and not spec.hidden]
    return "\n".join(lines) + "\n\n"


def _option(spec: Spec) -> str:
    words = f"{spec.flag} {spec.example}".strip()
    keyword = f"`{spec.cmake_keyword} {spec.example}`".replace(" `", "`") if spec.cmake else ""
    several = " Several." if spec.kind is Kind.MANY else ""
    return f"| `{words}` | {keyword} | {cell(spec.help).replace('<', '&lt;')}{several} |"


def keras_layers() -> str:
    """Each class of keras.layers, and its state."""
    rows = [f"| {name} | {state} |" for name, state in scoreboard().items()]
    return "\n".join(["", "| class | state |", "|---|---|", *rows]) + "\n\n"


def keras_operations() -> str:
    """The functions of keras.ops by the names of their classes."""
    return "\n" + textwrap.fill(", ".join(operation_names()) + ".", 130) + "\n\n"


def tflite_operators() -> str:
    """Each operator of TensorFlow Lite's schema, and its state."""
    numbers = vars(tflite.BuiltinOperator)
    names = [name for name in numbers if not name.startswith("_")]
    rows = [f"| {name} | {state} |" for name, state in tflite_scoreboard.scoreboard(names).items()]
    return "\n".join(["", "| operator | state |", "|---|---|", *rows]) + "\n\n"


def commands() -> str:
    """For each command: what it does, its own options, examples."""
    return "\n".join(_command(name) for name in COMMANDS) + "\n"


def _command(name: str) -> str:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Command)
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    text = inspect.cleandoc(command.help or "")
    lines = ["", f"## {name}", "", f"`cannery {name} {usage}`".replace(" `", "`"), "", text, ""]
    own = [*_own(command)]
    if own:
        lines += ["| option | meaning |", "|---|---|", *own, ""]
    if command.examples:
        lines += ["```sh", *command.examples, "```", ""]
    return "\n".join(lines)


def _own(command: click.Command) -> Iterator[str]:
    """Rows of the options that no other page has."""
    shared = {spec.name for spec in SPECS}
    context = click.Context(command)
    for option in command.params:
        record = option.get_help_record(context)
        own = isinstance(option, click.Option) and option.name not in shared
        if own and record and option.opts not in (["-h"], ["--json"]):
            yield f"| `{cell(record[0])}` | {cell(record[1])} |"


def targets() -> str:
    """A row for each target."""
    rows = [f"| `{t.name}` | {t.cpu} | `{t.isa.name}` | {t.isa.bits} |" for t in TARGETS.values()]
    lines = ["", "| target | processor | instruction set | bits |", "|---|---|---|---|"]
    lines += [
        "| `native` | this machine | what it has | |",
        "| `any` | [what your compiler allows](#any-other-processor) | | |",
    ]
    return "\n".join([*lines, *rows]) + "\n\n"


def record_schema() -> str:
    """The JSON schema of a tuning record."""
    return json.dumps(msgspec.json.schema(Record), indent=2) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "options": options, "commands": commands, "targets": targets,
    "tflite-operators": tflite_operators,
    "keras-layers": keras_layers, "keras-operations": keras_operations,
}  # fmt: skip


def generated() -> dict[Path, str]:
    """The pages with generated parts as they should be."""
    pages = {DOCS / "reference" / "record.schema.json": record_schema()}
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        if PART.search(text):
            pages[path] = PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}{m[3]}", text)
    return pages


if __name__ == "__main__":
    for page, content in generated().items():
        page.write_text(content)
