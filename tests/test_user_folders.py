"""Where a user's folders are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.user_folders import user_cache, user_config


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home, and no other variable."""
    monkeypatch.setenv("HOME", "/home/nao")
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_folders_are_below_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert (user_cache(), user_config()) == (
        "/home/nao/.cache/cannery",
        "/home/nao/.config/cannery",
    )
    monkeypatch.setattr("sys.platform", "darwin")
    assert user_cache() == "/home/nao/Library/Caches/cannery"
    assert user_config() == "/home/nao/Library/Application Support/cannery"


def test_variables_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones are ignored, as the rules of XDG say."""
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "/var/own")
    assert user_cache() == user_config() == "/var/own/cannery"
    for relative in ("", "own"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert user_cache() == "/home/nao/.cache/cannery"


def test_without_a_home_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder can be made at the place of the cache."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert user_config() is None
    with pytest.raises(OSError):
        Path(user_cache()).mkdir(parents=True)
