"""Help: a summary on one screen by -h, everything by --help; its examples are commands."""

from __future__ import annotations

import shlex

import click
import pytest

from cannery.cli import COMMANDS, cli, invoke
from cannery.cli.help import Command
from cannery.options import SPECS, Group

#: Lines of a small terminal that is not the smallest.
SCREEN = 41

ALL = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
NETWORK = (
    "compile",
    "autotune",
    "run",
    "verify",
    "evaluate",
    "bench",
    "count",
    "asm",
    "inspect",
    "report",
    "diff",
)


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert invoke(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_fits_on_a_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, name, "-h")
    assert text.startswith(f"Usage: cannery {name} ")
    assert len(text.splitlines()) <= SCREEN
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", NETWORK)
def test_both_have_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    brief, whole = output(capsys, name, "-h"), output(capsys, name, "--help")
    for spec in SPECS:
        for text in (brief, whole):
            assert (f" {spec.flag}" in text) is not spec.hidden, spec.flag
    places = [whole.index(f"\n{group.value}:\n") for group in Group]
    assert places == sorted(places)
    assert "-h " in brief
    assert "explained by" not in whole


def test_options_of_builds_are_hidden_but_work() -> None:
    assert {spec.name for spec in SPECS if spec.hidden} == {"macros", "tuned_by"}


def test_no_name_of_an_option_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "compile", "-h")
    assert not [line for line in text.splitlines() if line.endswith("-")]


def _examples() -> list[tuple[Command, str]]:
    assert all(isinstance(command, Command) for command in ALL)
    return [(c, example) for c in ALL if isinstance(c, Command) for example in c.examples]


@pytest.mark.parametrize(("command", "example"), _examples(), ids=lambda value: str(value)[:40])
def test_examples_are_commands(command: Command, example: str) -> None:
    words = shlex.split(example.partition("$(")[2].rstrip(")") or example)
    assert words[:2] == ["cannery", str(command.name)]
    command.make_context(str(command.name), words[2:])


def test_examples_of_options_can_be_read() -> None:
    for spec in SPECS:
        assert bool(spec.example) is bool(spec.metavar), spec.name
        if spec.example:
            value = spec.parse([spec.example] if spec.kind.name == "MANY" else spec.example)
            assert value
