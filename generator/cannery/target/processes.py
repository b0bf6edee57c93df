"""Runs programs and waits for them; whatever they started ends with them."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from cannery.deadline import check_time, time_left

#: Bytes that a program may print by default: compilers' listings are long.
MAX_OUTPUT = 2**30

_PIECE = 2**16

#: More seconds than a system waits for at a time.
_LONG = 1e6


class OutputLimitError(Exception):
    """A program printed more than allowed, and was ended."""


def run_to_end(
    command: Sequence[str],
    *,
    timeout: float,
    text: str = "",
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    limit: int = MAX_OUTPUT,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program that reads `text`, else `stdin`, and collect what it prints.

    Raises OSError if it cannot start, subprocess.TimeoutExpired after `timeout` seconds,
    OutOfTimeError after the deadline, OutputLimitError if it prints more than `limit` bytes.
    Whatever ends the waiting also ends the program and everything that it started.
    """
    check_time()
    process = subprocess.Popen(
        command, cwd=cwd, env=env,
        stdin=subprocess.PIPE if text else stdin,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            patience = min(timeout, time_left())
            out, err = _communicate(process, text.encode(), patience, limit)
        except BaseException as error:
            kill_family(process.pid)
            if isinstance(error, subprocess.TimeoutExpired):
                check_time()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _communicate(
    process: subprocess.Popen[bytes], data: bytes, timeout: float, limit: int
) -> tuple[str, str]:
    """Like the method of that name, which would collect without a limit."""
    end = time.monotonic() + timeout
    out, err = cast(IO[bytes], process.stdout), cast(IO[bytes], process.stderr)
    found: dict[IO[bytes], bytearray] = {out: bytearray(), err: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in found:
            selector.register(stream, selectors.EVENT_READ)
        if process.stdin is not None:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(_left(process, end, timeout))
            for stream in (cast(IO[bytes], key.fileobj) for key, _ in ready):
                if stream is process.stdin:
                    data = _feed(stream, data)
                    is_over = not data
                else:
                    is_over = not _drain(stream, found[stream], limit)
                if is_over:
                    selector.unregister(stream)
                    stream.close()
    process.wait(_left(process, end, timeout))
    text, said = (str(found[stream], errors="replace") for stream in (out, err))
    return text.replace("\r\n", "\n"), said.replace("\r\n", "\n")


def _left(process: subprocess.Popen[bytes], end: float, timeout: float) -> float | None:
    """Seconds until `end`, None if that is never; raises subprocess.TimeoutExpired if it has
    passed.
    """
    left = end - time.monotonic()
    if left <= 0:
        raise subprocess.TimeoutExpired(process.args, timeout)
    return left if left < _LONG else None


def _feed(stream: IO[bytes], data: bytes) -> bytes:
    """Write what a pipe takes without waiting; returns the rest. A program need not read it."""
    with suppress(BrokenPipeError):
        return data[os.write(stream.fileno(), data[: select.PIPE_BUF]) :]
    return b""


def _drain(stream: IO[bytes], found: bytearray, limit: int) -> bool:
    """Read what is available; False at the end. Raises OutputLimitError."""
    piece = os.read(stream.fileno(), _PIECE)
    found += piece
    if len(found) > limit:
        raise OutputLimitError
    return bool(piece)


def temporary_in(folder: Path) -> dict[str, str]:
    """An environment in which programs put their temporary files into `folder`."""
    return {**os.environ, "TMPDIR": str(folder.resolve())}


def kill_family(pid: int) -> None:
    """End a process and all its descendants. Without /proc, only the process itself is known."""
    for member in list(_stopped(pid)):
        with suppress(OSError):
            os.kill(member, signal.SIGKILL)


def _stopped(pid: int) -> Iterator[int]:
    """The process and its descendants, none of which can start another one any more."""
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
