"""Writing results: nothing half-written, nothing touched that did not change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import cannery
from cannery.resources import runtime_include_dir


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write `files` (relative path -> content) into `folder`; returns those that changed.

    All contents are on the disk before the first file is replaced, so an error, such as a full
    disk, leaves an earlier result as it was. Raises OSError.
    """
    changed = [folder / name for name, data in files.items() if not _holds(folder / name, data)]
    staged: list[tuple[Path, Path]] = []
    try:
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            staged.append((temporary, path))
            _write(temporary, path, files[path.relative_to(folder).as_posix()])
        for temporary, path in staged:
            temporary.replace(path)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
    return changed


def _write(temporary: Path, path: Path, data: bytes) -> None:
    """Write a file that is to become `path`; errors name `path`."""
    try:
        temporary.write_bytes(data)
    except OSError as error:
        error.filename = str(path)
        raise


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def own_files() -> list[Path]:
    """What of Cannery itself a result depends on: imported modules, all templates and C headers."""
    root = Path(cannery.__file__).parent
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    modules = (Path(file) for file in files if file)
    found = {path for path in modules if root in path.parents and path.suffix == ".py"}
    return sorted({*found, *root.rglob("*.j2"), *runtime_include_dir().rglob("*.h")})


def write_depfile(path: Path, output: Path, dependencies: Iterable[Path]) -> None:
    """Write a Make rule `output: dependencies` for the build tool. Raises OSError."""
    inputs = sorted({dependency.resolve() for dependency in dependencies})
    lines = [f"{_escape(output)}:", *(f"  {_escape(dependency)}" for dependency in inputs)]
    write_files(path.parent, {path.name: (" \\\n".join(lines) + "\n").encode()})


def _escape(path: Path) -> str:
    text = str(path).replace("\\", "\\\\")
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
