"""What other packages add to Cannery: modules that they name as entry points.

`cannery.frontends` are readers of model files, see `cannery/frontends/__init__.py`; `cannery.ops`
register operators when they are imported.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
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
