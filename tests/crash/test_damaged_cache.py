"""Libraries of `cannery.load` that were damaged in the cache are built again, not loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cannery
from crash.test_kills import model
from needs import need_toolchain


def put(library: Path, data: bytes) -> None:
    """As another file: this process has the old one in its memory."""
    library.unlink()
    library.write_bytes(data)


def truncate(library: Path) -> None:
    put(library, library.read_bytes()[:-3000])


def garble(library: Path) -> None:
    data = library.read_bytes()
    put(library, data[:0x1000] + bytes(range(256)) * 4 + data[0x1400:])


def replace_by_folder(library: Path) -> None:
    library.unlink()
    library.mkdir()


def forget_digest(library: Path) -> None:
    library.with_suffix(".sha256").unlink()


def replace_by_pipe(library: Path) -> None:
    library.unlink()
    os.mkfifo(library)


def replace_digest_by_pipe(library: Path) -> None:
    forget_digest(library)
    os.mkfifo(library.with_suffix(".sha256"))


def replace_lock_by_folder(library: Path) -> None:
    forget_digest(library)
    (library.parent / "lock").unlink(missing_ok=True)
    (library.parent / "lock").mkdir()


def replace_all_by_pipe(library: Path) -> None:
    shutil.rmtree(library.parent)
    os.mkfifo(library.parent)


DAMAGES = (
    truncate, garble, replace_by_folder, forget_digest, replace_by_pipe, replace_digest_by_pipe,
    replace_lock_by_folder, replace_all_by_pipe,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    need_toolchain("generic")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Another name each time, as a process loads a library of one path once.
    source = model(tmp_path / f"{damage.__name__}.h5", 3)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    expected = cannery.load(source, isa="generic")(x)
    (library,) = (tmp_path / "cache").rglob("*.so")
    monkeypatch.setattr("cannery.api.library._build", _none)
    assert np.array_equal(cannery.load(source, isa="generic")(x), expected)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    damage(library)
    assert np.array_equal(cannery.load(source, isa="generic")(x), expected)


def _none(*_: object) -> None:
    raise AssertionError("the library was there")
