"""Writing results: only what changed, all or nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cannery.atomic import replace_file
from cannery.cli.files import depfile_text, own_files
from cannery.measure import build
from cannery.output_files import write_files

FILES = {"a.h": b"one", "cannery/b.h": b"two"}


def write_one(path: Path, data: bytes) -> None:
    write_files({path: data})


def write_unnamed(path: Path, data: bytes) -> None:
    build.write(path.parent, {path.name: data})


def below(folder: Path, files: Mapping[str, bytes]) -> dict[Path, bytes]:
    return {folder / name: data for name, data in files.items()}


def test_only_changed_files_are_written(tmp_path: Path) -> None:
    assert sorted(write_files(below(tmp_path, FILES))) == [
        tmp_path / "a.h",
        tmp_path / "cannery" / "b.h",
    ]
    before = (tmp_path / "a.h").stat().st_mtime_ns
    changed = write_files(below(tmp_path, {**FILES, "cannery/b.h": b"new"}))
    assert changed == [tmp_path / "cannery" / "b.h"]
    assert (tmp_path / "a.h").stat().st_mtime_ns == before
    assert (tmp_path / "cannery" / "b.h").read_bytes() == b"new"


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(below(tmp_path, FILES))
    right = Path.open

    def full(self: Path, *arguments: Any, **more: Any) -> Any:
        file = right(self, *arguments, **more)
        if self.name.startswith(".b.h"):
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return file

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left"):
        write_files(below(tmp_path, {"a.h": b"changed", "new/b.h": b"big", "c.h": b"more"}))
    with pytest.raises(OSError, match="No space left"):
        write_files(below(tmp_path, {"new/a/a.h": b"one", "new/b/b.h": b"big"}))
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")}
    assert found == {*FILES, "cannery"}
    assert (tmp_path / "a.h").read_bytes() == b"one"


@pytest.mark.parametrize("write", [write_one, write_unnamed, replace_file])
def test_a_read_only_file_system_is_told_of_the_file_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], object]
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("write_bytes", "open", "unlink"):
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(OSError, match="Read-only") as caught:
        write(tmp_path / "a.json", b"")
    assert caught.value.filename == str(tmp_path / "a.json")


def test_depfile_escapes(tmp_path: Path) -> None:
    odd = tmp_path / "a $b #c.h5"
    text = depfile_text(tmp_path / "out.h", [odd])
    assert text == f"{tmp_path}/out.h: \\\n  {tmp_path}/a\\ $$b\\ \\#c.h5\n"


def test_own_files_hold_modules_templates_and_headers() -> None:
    names = {path.name for path in own_files()}
    assert {"files.py", "vec_scalar.h", "header.h.j2"} <= names
