"""What results depend on, for build tools."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import cannery
from cannery.plugins import plugin_files
from cannery.resources import runtime_include_dir


def own_files() -> list[Path]:
    """The parts of Cannery itself, and of packages that add to it, on which a result depends:
    imported modules, all templates and C headers.
    """
    root = Path(cannery.__file__).parent
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    modules = (Path(file) for file in files if file)
    found = {path for path in modules if root in path.parents and path.suffix == ".py"}
    return sorted(
        {*found, *plugin_files(), *root.rglob("*.j2"), *runtime_include_dir().rglob("*.h")}
    )


def depfile_text(output: Path, dependencies: Iterable[Path]) -> str:
    """A Make rule `output: dependencies` for the build tool."""
    inputs = sorted({dependency.resolve() for dependency in dependencies})
    lines = [f"{_escape(output)}:", *(f"  {_escape(dependency)}" for dependency in inputs)]
    return " \\\n".join(lines) + "\n"


def _escape(path: Path) -> str:
    text = str(path).replace("\\", "\\\\")
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
