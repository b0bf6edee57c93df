"""Help in two lengths: `-h` fits on one screen, `--help` explains every option, by group."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from cannery.options import SPECS, Group


class Command(click.Command):
    """A command whose help lists the options of `SPECS` by group and ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        brief = click.Option(
            ["-h"], is_flag=True, is_eager=True, expose_value=False, callback=_show_brief,
            help="Show a summary and exit.",
        )  # fmt: skip
        self.params.append(brief)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command does; the summary has its first paragraph."""
        text = inspect.cleandoc(self.help or "")
        if ctx.meta.get(_BRIEF):
            text = text.partition("\n\n")[0]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then those of each group: explained, or just by name."""
        records = {
            parameter.name: record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            and (record := parameter.get_help_record(ctx)) is not None
        }
        grouped = {spec.name for spec in SPECS if spec.name in records}
        with formatter.section("Options"):
            formatter.write_dl([r for name, r in records.items() if name not in grouped])
        if not grouped:
            return
        if ctx.meta.get(_BRIEF):
            with formatter.section(f"More options, explained by {ctx.command_path} --help"):
                formatter.write(_flags(formatter))
            return
        for group in Group:
            names = [spec.name for spec in SPECS if spec.group is group and spec.name in records]
            with formatter.section(group.value):
                formatter.write_dl([records[name] for name in names])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}$ {example}\n")


#: Whether the help is the summary.
_BRIEF = "cannery.cli.help.brief"


def _show_brief(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_BRIEF] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _flags(formatter: click.HelpFormatter) -> str:
    """The names of all options, a paragraph per group; names are not broken at their hyphens."""
    indent = " " * formatter.current_indent
    width = max(len(group.value) for group in Group) + 2
    lines: list[str] = []
    for group in Group:
        flags = " ".join(spec.flag for spec in SPECS if spec.group is group and not spec.hidden)
        lines += textwrap.wrap(
            flags, formatter.width, initial_indent=f"{indent}{group.value:{width}}",
            subsequent_indent=indent + " " * width, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines) + "\n"
