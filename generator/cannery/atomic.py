"""Files that appear as a whole, and folders that go away: also where processes are killed.

A process that is killed leaves its temporary files and folders. They carry the number of the
process, which holds a lock on each; whoever next works there removes those that nobody holds.
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

#: What `replace_files` and `temporary_folder` call what goes away.
_FILE = re.compile(r"\..+\.(\d+)\.tmp")
_FOLDER = re.compile(r"cannery-(\d+)-.+")


def replace_file(path: Path, data: bytes) -> None:
    """As `replace_files`, for one file that outlives a power cut, too."""
    replace_files({path: data}, durable=True)


def replace_files(files: Mapping[Path, bytes], *, durable: bool = False) -> None:
    """Write files so that readers see all of each or what was there before.

    All are written before the first takes its place, and they take it in their order. Raises
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
    """A folder for programs that are built, removed at the end. Raises OSError."""
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
    """Remove what processes that are gone have left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            found = (_FOLDER if is_folder else _FILE).fullmatch(entry.name)
            if found and not entry.is_symlink() and not _runs(int(found[1])):
                _remove_unheld(Path(entry.path), is_folder=is_folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name the file that was meant."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _write(file: FileIO, data: bytes) -> None:
    """Write all of it; nothing is left for closing, whose errors would name no file."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _remove(staged: list[tuple[Path, Path]]) -> None:
    for temporary, _ in staged:
        # On a file system that cannot be written even this fails, and would hide why.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _hold(descriptor: int) -> None:
    """Lock an open file or folder until it is closed; some file systems have no locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _runs(process: int) -> bool:
    """Whether a process of this machine has that number; it need not be one of ours.

    One that was killed keeps its number until its parent asks; it runs no more.
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
    """Remove what no process holds: one in another container has another number there."""
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
