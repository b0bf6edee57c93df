"""Options of the test suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

import warm_python
from quick import is_quick

# Where pytest has several workers, it says how wide their terminal is, which they do not have.
os.environ.pop("COLUMNS", None)

# A busy machine is not the code's fault.
settings.register_profile("cannery", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unshrunk", settings.get_profile("cannery"), phases=[Phase.generate])
settings.load_profile("cannery")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites stored files; review them as a diff."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite what is stored to be compared with"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether stored files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reading the other modules would take longer than the quick ones."""
    alone = config.getoption("markexpr") == "quick" and collection_path.name.startswith("test_")
    return True if alone and collection_path.is_file() and not is_quick(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of quick modules, except those that are slow, and spreads those that take
    long: workers begin with shares of the list, and nobody could help who had all of them.
    """
    for item in items:
        if is_quick(item.path) and not item.get_closest_marker("slow"):
            item.add_marker("quick")
    items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Each test that takes long before an equal share of the others."""
    rare = [i for i in items if i.get_closest_marker("long") and not i.get_closest_marker("slow")]
    rest = [item for item in items if item not in rare]
    found: list[pytest.Item] = []
    for k, item in enumerate(rare):
        share = slice(k * len(rest) // len(rare), (k + 1) * len(rest) // len(rare))
        found += [item, *rest[share]]
    return found if rare else items


def pytest_unconfigure() -> None:
    """Ends the Python that was kept ready for tests, if any."""
    warm_python.stop()
