"""One change that breaks the code, and the tests near it that have to fail then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The test of all kernels, of which a part may be named in brackets, see `kernels`.
KERNELS = "tests/ops/test_kernels.py"


@dataclass(frozen=True)
class Change:
    """`old`, which occurs once in `file`, becomes `new`; then one of `tests` has to fail.

    Paths are relative to the checkout; tests are files, or `file::function`. `equivalent` says why
    nobody can see the change; then no test has to.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def applied(self, root: Path = ROOT) -> str:
        """The text of the changed file; raises ValueError where the change does not fit."""
        text = (root / self.file).read_text()
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: the text to change occurs {count} times in {self.file}")
        if self.old == self.new:
            raise ValueError(f"{self.name}: changes nothing")
        return text.replace(self.old, self.new)


def kernels(schedules: str, *targets: str) -> str:
    """Of `test_kernels.py` what tries schedules (a pattern of ids) on some targets, as a test."""
    return f"{KERNELS}[{' '.join((schedules, *targets))}]"


def rows(file: str, *tests: str) -> _Rows:
    """Makes changes of one file that the same tests have to see."""
    return _Rows(file, tests)


@dataclass(frozen=True)
class _Rows:
    file: str
    tests: tuple[str, ...]

    def __call__(self, name: str, old: str, new: str, *tests: str, equivalent: str = "") -> Change:
        """A change; with `tests`, these in place of the common ones."""
        return Change(name, self.file, old, new, tests or self.tests, equivalent)


def faults(changes: tuple[Change, ...], root: Path = ROOT) -> Iterator[str]:
    """What is wrong with a table."""
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            yield f"{change.name}: this name occurs twice"
        seen.add(change.name)
        try:
            text = change.applied(root)
            if change.file.endswith(".py"):
                compile(text, change.file, "exec")
        except (OSError, ValueError, SyntaxError) as error:
            yield f"{change.name}: {error}"
        if not change.tests and not change.equivalent:
            yield f"{change.name}: no test is named"
        for test in change.tests:
            path, _, function = test.partition("[")[0].partition("::")
            place = root / path
            if not place.is_file():
                yield f"{change.name}: there is no {path}"
            elif function and f"def {function}(" not in place.read_text():
                yield f"{change.name}: there is no {test}"
