"""Imports point one way: no package or module imports what stands above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import cannery
from quick import QUICK
from quick import ROOT as TESTS

ROOT = Path(cannery.__file__).parent

#: Packages and single modules of cannery, from the ground up; ARCHITECTURE.md says what they are.
ORDER = """
errors plugins contents atomic deadline resources names user_files user_folders class_names
output_files options_given devices ir npz layouts option_values options options_text
target project_file options_cmake
schedule ctext ops
frontends lowering emit
analysis measure choose execution
quantization passes pipeline
tuning reporting api onnx_backend cli __main__
""".split()


def imported(module: Path) -> Iterator[str]:
    """What of cannery a module imports, at its top or later: `ir` of `cannery.ir.graph`."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            own = rest.partition(".")[0]
            if root == "cannery" and own in ORDER:
                yield own


def test_every_package_has_its_place() -> None:
    there = {p.stem for p in ROOT.glob("*.py")} | {
        p.parent.name for p in ROOT.glob("*/__init__.py")
    }
    assert there - {"__init__"} == set(ORDER)


def test_imports_point_down() -> None:
    wrong = []
    for module in sorted(ROOT.rglob("*.py")):
        place = module.relative_to(ROOT)
        own = place.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for other in imported(module):
            if other != own and ORDER.index(other) > ORDER.index(own):
                wrong.append(f"{place} imports {other}")
    assert wrong == []


def test_quick_modules_are_there() -> None:
    places = [TESTS / name for name in QUICK]
    assert [p for p in places if not p.is_dir() and not p.with_suffix(".py").is_file()] == []
