"""Mistakes made by machine: which ones there are, and that they fit."""

from __future__ import annotations

import pytest

from mutations.change import ROOT
from mutations.generated import edits, sample

PYTHON = """\
'''A docstring: 1 < 2.'''
def f(a: int, b: int = 2) -> int:
    if a < b and not b:
        raise ValueError(f"{a} < {b}")
    return min(g(a, b, key=1), a + b)
"""

MISTAKES = {
    "b: int = 3", "b: int = 1",
    "if False:", "if True:", "if ((a < b) or (not b)):", "if ((a < b)):", "if ((not b)):",
    "if a <= b and not b:", "if a < b and (b):", "pass",
    "return max(g(a, b, key=1), a + b)", "return min(g(b, a, key=1), a + b)",
    "return min(g(a, b), a + b)", "return min(g(a, b, key=2), a + b)",
    "return min(g(a, b, key=0), a + b)", "return min(g(a, b, key=1), a - b)",
}  # fmt: skip

TEMPLATE = """\
/* 1 < 2 */
%% if p.wide and not s.rest
        y = f32x8_min(x, {{ 2 * lanes }}); /* 3 */
%% endif
"""

CHANGED = {
    "%% if False", "%% if p.wide or not s.rest", "%% if p.wide and s.rest",
    "y = f32x8_max(x, {{ 2 * lanes }}); /* 3 */", "y = f32x8_min(x, {{ 3 * lanes }}); /* 3 */",
    "y = f32x8_min(x, {{ 2 + lanes }}); /* 3 */",
}  # fmt: skip

CMAKE = """\
# 1 < 2
if(NOT problem AND count GREATER 1)
  message(FATAL_ERROR "NOT")
  set(problem "more")
endif()
"""

COMMANDS = {"if(problem AND count GREATER 1)", "if(NOT problem OR count GREATER 1)",
            "if(NOT problem AND count LESS 1)", "if(FALSE)", ""}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [("a.py", PYTHON, MISTAKES), ("a.c.j2", TEMPLATE, CHANGED), ("a.cmake", CMAKE, COMMANDS)],
)
def test_mistakes_that_people_make(file: str, text: str, expected: set[str]) -> None:
    found = set()
    for edit in edits(file, text):
        changed = edit.applied(text).splitlines()[edit.line - 1]
        found.add(changed.strip().removeprefix("def f(a: int, ").removesuffix(") -> int:"))
    assert found == expected


def test_samples_are_even_and_the_same_each_time() -> None:
    under = ["generator/cannery/lowering", "generator/cannery/layouts", "cmake"]
    chosen = sample(30, 7, under)
    assert chosen == sample(30, 7, under) != sample(30, 8, under)
    folders = [mutant.folder for mutant in chosen]
    assert [folders.count(name) for name in sorted(set(folders))] == [10, 10, 10]
    for mutant in chosen:
        text = (ROOT / mutant.file).read_text()
        assert mutant.edit.applied(text) != text
