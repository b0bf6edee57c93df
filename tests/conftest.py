"""Options of the test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

# A busy machine is no fault of the code.
settings.register_profile("cannery", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unshrunk", settings.get_profile("cannery"), phases=[Phase.generate])
settings.load_profile("cannery")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the stored C files; review them as a diff."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether stored files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))
