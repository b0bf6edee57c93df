"""Programs that are waited for: what they started ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cannery.deadline import check_time, time_left


def run_to_end(
    command: Sequence[str],
    *,
    timeout: float,
    text: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program that reads `text`, and collect what it prints, as `subprocess.run` does.

    Raises OSError where it cannot start, subprocess.TimeoutExpired after `timeout` seconds,
    OutOfTimeError where the deadline is over. Whatever ends the waiting also ends the program and
    all that it started.
    """
    check_time()
    process = subprocess.Popen(
        command, cwd=cwd, env=env, text=True, errors="replace",
        stdin=subprocess.PIPE if text else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            out, err = process.communicate(text or None, timeout=min(timeout, time_left()))
        except BaseException as error:
            kill_family(process.pid)
            if isinstance(error, subprocess.TimeoutExpired):
                check_time()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def temporary_in(folder: Path) -> dict[str, str]:
    """An environment in which programs put their temporary files into `folder`."""
    return {**os.environ, "TMPDIR": str(folder.resolve())}


def kill_family(pid: int) -> None:
    """End a process and all that descend from it. Without /proc only itself is known."""
    for member in list(_stopped(pid)):
        with suppress(OSError):
            os.kill(member, signal.SIGKILL)


def _stopped(pid: int) -> Iterator[int]:
    """The process and its descendants, none of which starts another one any more."""
    with suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    yield pid
    for child in _children(pid):
        yield from _stopped(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found
