"""Which tests reach which lines of the code, and how long they take.

A plugin of pytest, `-p mutations.reach`, writes it into the folder that REACH names; `Reach` reads
it. Programs that tests start are not looked into.
"""

from __future__ import annotations

import ast
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

#: The variable that names the folder.
FOLDER = "CANNERY_REACH"


class _Recorder:
    """Notes in one process, under the name of each test, which lines run while it does."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.seconds = folder, defaultdict[str, float](float)
        self.coverage = coverage.Coverage(
            data_file=str(folder / "lines"),
            data_suffix=True,
            source=[str(source)],
            config_file=False,
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines belong to this test until the next one begins."""
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How long a test takes, with what it sets up."""
        self.seconds[report.nodeid] += report.duration

    def pytest_unconfigure(self) -> None:
        """Write what was seen by this process."""
        self.coverage.stop()
        self.coverage.save()
        path = self.folder / f"seconds.{os.getpid()}.json"
        path.write_text(json.dumps(self.seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Record, if a folder is named; with pytest-xdist the workers do."""
    folder = os.environ.get(FOLDER)
    alone = not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput")
    if folder and alone:
        source = config.rootpath / "generator" / "cannery"
        config.pluginmanager.register(_Recorder(Path(folder), source))


class Reach:
    """What was recorded: tests by line, and their seconds."""

    def __init__(self, folder: Path) -> None:
        self.data = coverage.CoverageData(str(folder / "all"), no_disk=True)
        self.seconds: dict[str, float] = {}
        for path in sorted(folder.glob("lines.*")):
            part = coverage.CoverageData(str(path))
            part.read()
            self.data.update(part)
        for path in sorted(folder.glob("seconds.*.json")):
            self.seconds.update(json.loads(path.read_text()))
        files = self.data.measured_files()
        self._files = {path.partition("/generator/")[2]: path for path in files}

    def tests(self, file: str, lines: range) -> set[str]:
        """Tests that run one of these lines of `generator/...` while they run."""
        path = self._files.get(file.removeprefix("generator/"))
        found = self.data.contexts_by_lineno(path) if path else {}
        return {test for line in lines for test in found.get(line, ()) if test}


def statement_lines(text: str, line: int) -> range:
    """The lines of the statement that a line is part of; all functions', if it is in none.

    Of compound statements just the head counts. What lies outside of functions runs only once,
    when the module is read, whoever needs it.
    """
    node = _statement(text, line)
    if node is None:
        return range(1, text.count("\n") + 2)
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or 0
    return range(node.lineno, max(last, node.lineno) + 1)


def inner_lines(text: str, line: int) -> range:
    """Where what a condition or loop in this line decides about begins; none for other lines."""
    body = getattr(_statement(text, line), "body", None)
    return range(body[0].lineno, body[0].lineno + 1) if body else range(0)


def _statement(text: str, line: int) -> ast.stmt | None:
    """The innermost one within a function that a line belongs to."""
    found: ast.stmt | None = None
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and function.body[0].lineno <= line:
            for node in ast.walk(function):
                if not isinstance(node, ast.stmt) or node is function:
                    continue
                deeper = found is None or node.lineno >= found.lineno
                if deeper and node.lineno <= line <= (node.end_lineno or 0):
                    found = node
    return found
