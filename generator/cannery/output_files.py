"""Writes results: no half-written files, and unchanged files stay untouched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cannery.atomic import remove_stale, replace_files
from cannery.contents import Content, pieces
from cannery.errors import OptionError
from cannery.user_files import unusual


def write_files(files: Mapping[Path, Content]) -> list[Path]:
    """Write `files` and make their folders; returns those that changed.

    All contents are on disk before the first file is replaced, so an error, such as a full disk,
    leaves an earlier result unchanged, and no new folder. Files are replaced in order: the one by
    which build tools judge whether all are up to date must be the last, because a process may be
    killed in between. Raises OptionError if a pipe or a device is in the way, and OSError.
    """
    for path in files:
        if unusual(path):
            what = f"{unusual(path)} is in the way of a file"
            raise OptionError(what, where=str(path), cure="remove it, or write elsewhere")
    for folder in {path.parent for path in files}:
        remove_stale(folder)
    changed = [path for path, data in files.items() if not _holds(path, data)]
    made: list[Path] = []
    try:
        for path in changed:
            made += _make_folder(path.parent)
        replace_files({path: files[path] for path in changed})
    finally:
        for folder in reversed(made):
            # Folders that now hold something stay.
            with suppress(OSError):
                folder.rmdir()
    return changed


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder with its parents; returns the new ones, outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def check_output_file(path: Path, option: str) -> None:
    """Raise OptionError unless a file can be put there: folders are not made for single files."""
    kind = unusual(path)
    if kind:
        raise OptionError(f"{path} is {kind}", where=option, cure="name a file")
    if not path.parent.is_dir():
        raise OptionError(
            f"there is no folder {path.parent}", where=option, cure="make it, or name another one"
        )


def check_output_folder(path: Path, option: str) -> None:
    """Raise OptionError if something that is not a folder is in the way."""
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise OptionError(f"{place} is not a folder", where=option, cure="name another one")


def check_replaceable(folder: Path, paths: Iterable[str], option: str) -> None:
    """Raise OptionError if a file that an option adds would replace one of the user's.

    Such files have names that projects use as well; those that Cannery has written name it.
    """
    for path in (folder / each for each in paths):
        if path.is_file() and b"Cannery" not in path.read_bytes():
            raise OptionError(
                f"{path} was not written by Cannery, and would be replaced",
                where=option, cure="name a folder of its own",
            )  # fmt: skip


def _holds(path: Path, data: Content) -> bool:
    try:
        if path.stat().st_size != len(data):
            return False
        with path.open("rb") as file:
            return all(file.read(len(piece)) == piece for piece in pieces(data))
    except OSError:
        return False
