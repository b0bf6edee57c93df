"""Files that appear as a whole, and folders that vanish, even if processes are killed.

A killed process leaves its temporary files and folders behind. They carry the number of the
process, which held a lock on each; the next process that works there removes those that are not
locked.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path

from cannery.contents import Content, pieces

#: The names that `replace_files` and `temporary_folder` give to temporary things.
_FILE = re.compile(r"\..+\.(\d+)\.tmp")
_FOLDER = re.compile(r"cannery-(\d+)-.+")


def replace_file(path: Path, data: bytes) -> None:
    """Like `replace_files`, for one file that also survives a power cut."""
    replace_files({path: data}, durable=True)


def replace_files(files: Mapping[Path, Content], *, durable: bool = False) -> None:
    """Write files so that readers see either all of each or the previous content.

    All are written before the first takes its place, and they take their places in order. Raises
    OSError with the name of the file; unless renaming failed, nothing has changed then.
    """
    for folder in {path.parent for path in files}:
        remove_stale(folder)
    staged: list[tuple[Path, Path]] = []
    with ExitStack() as stack:
        stack.callback(_remove, staged)
        for path, data in files.items():
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            staged.append((temporary, path))
            with _naming(path):
                file = stack.enter_context(temporary.open("wb", buffering=0))
                _hold(file.fileno())
                _write(file, data)
                if durable:
                    os.fsync(file.fileno())
        for temporary, path in staged:
            with _naming(path):
                temporary.replace(path)


@contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """A folder for building programs, removed at the end. Raises OSError."""
    within = within or Path(tempfile.gettempdir())
    remove_stale(within)
    folder = Path(tempfile.mkdtemp(prefix=f"cannery-{os.getpid()}-", dir=within))
    held = os.open(folder, os.O_RDONLY)
    try:
        _hold(held)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_stale(folder: Path) -> None:
    """Remove what dead processes left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            found = (_FOLDER if is_folder else _FILE).fullmatch(entry.name)
            if found and not entry.is_symlink() and not _runs(int(found[1])):
                _remove_unheld(Path(entry.path), is_folder=is_folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make errors name the intended file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _write(file: FileIO, data: Content) -> None:
    """Write everything; leaves nothing for closing, whose errors would not name a file."""
    for piece in pieces(data):
        rest = memoryview(piece)
        while rest:
            rest = rest[file.write(rest) :]


def _remove(staged: list[tuple[Path, Path]]) -> None:
    for temporary, _ in staged:
        # On a read-only file system even this fails, and would hide the reason.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _hold(descriptor: int) -> None:
    """Lock an open file or folder until it is closed; some file systems have no locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _runs(process: int) -> bool:
    """Whether a process of this machine has that number; it need not be one of ours.

    A killed one keeps its number until its parent asks; it no longer runs.
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    with suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return state[:1] not in ([b"Z"], [b"X"])
    return True


def _remove_unheld(path: Path, *, is_folder: bool) -> None:
    """Remove what no process holds: in another container, a process has a different number."""
    with suppress(OSError):
        held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_folder:
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(held)
