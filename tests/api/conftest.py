"""A small network for all tests of the Python interface, and their own cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from needs import need_toolchain
from tiny_models import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of `write_tiny_model`."""
    need_toolchain("native")
    return write_tiny_model(tmp_path_factory.mktemp("api") / "tiny.h5")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, which the tests of a process share."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
