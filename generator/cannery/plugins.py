"""What other packages add to Cannery: modules that they name as entry points.

`cannery.frontends` are readers of model files, see `cannery/frontends/__init__.py`; `cannery.ops`
register operators when they are imported.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from cannery.errors import ToolchainError

FRONTENDS, OPS = "cannery.frontends", "cannery.ops"


@cache
def plugins(group: str) -> tuple[ModuleType, ...]:
    """The modules of a group, by name. Raises ToolchainError for one that cannot be imported."""
    found = []
    for entry in sorted(entry_points(group=group), key=lambda e: e.name):
        try:
            found.append(entry.load())
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            raise ToolchainError(
                f"its entry point {entry.name!r} of {group} fails: {error}", where=package,
                cure="update the package, or uninstall it",
            ) from error  # fmt: skip
    return tuple(found)


def plugin_files() -> list[Path]:
    """The imported modules of packages that add to Cannery: results depend on them."""
    roots = {module.__name__.partition(".")[0] for g in (FRONTENDS, OPS) for module in plugins(g)}
    files = (
        getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in roots
    )
    return sorted({Path(file) for file in files if file})
