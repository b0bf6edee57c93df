"""A connection to a device, and the folder there that lives as long as it.

The connection's first session keeps the folder: a shell makes it, says what machine it is on, and
waits for the end of its input. However this process ends, that input ends with it, and the shell
ends what still runs from the folder and removes it. Programs run in further sessions.

All that is sent is a single line for `sh -c`, without backslashes: any login shell passes it on.
"""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import tempfile
import time
import weakref
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from cannery.atomic import temporary_folder
from cannery.deadline import check_time, time_left
from cannery.devices import Place
from cannery.errors import ToolchainError
from cannery.target.device import printable

#: Seconds in which a device has to greet, and to remove its folder at the end.
_GREET_SECONDS = 30.0
_LEAVE_SECONDS = 5.0

#: Seconds after which a connection that is lost has ended, once a session failed.
_NOTICE_SECONDS = 3.0

#: Bytes that a device may send as its greeting.
_MAX_GREETING = 2**16

#: Paths of sockets are short, and ssh needs some of it.
_MAX_SOCKET = 80

_KEEP = (
    "umask 077; d=$(mktemp -d {folder}/cannery-XXXXXX) || exit 71; trap : HUP INT PIPE TERM; "
    'echo "folder $d"; echo "machine $(uname -m)"; '
    "for t in gzip taskset; do command -v $t >/dev/null 2>&1 && echo has $t; done; "
    'grep -m1 -E "^(flags|Features)" /proc/cpuinfo; '
    "grep -m1 Cpus_allowed_list: /proc/self/status; echo ready; cat >/dev/null; "
    "for p in /proc/[0-9]*; do case $(readlink $p/exe 2>/dev/null) in "
    '"$d"/*) kill -9 ${{p##*/}};; esac; done; rm -rf "$d"'
)


class Way(Protocol):
    """A program that reaches devices: ssh, or adb.

    `folder` is where they have room, as a word of shell, `package` what has the program.
    """

    folder: str
    package: str

    def first(self, place: Place, socket: Path, script: str) -> list[str]:
        """The command of the first session, which runs a line of shell; others use the socket."""

    def further(self, place: Place, socket: Path, script: str) -> list[str]:
        """The command of a further session."""

    def is_failure(self, code: int) -> bool:
        """Whether the program itself may have failed, by its exit code."""

    def problem(self, place: Place, said: str) -> tuple[str, str]:
        """What its messages mean, and what to do; the first empty where it is not known."""


@dataclass(frozen=True)
class Greeting:
    """What a device says first: its folder for programs, `uname -m`, the tools that it has, what
    /proc/cpuinfo lists as flags or Features (nothing where it has none), and the cores that
    programs may use, as the kernel writes them: `0-3,6` (empty: unknown).
    """

    folder: str
    machine: str
    tools: frozenset[str]
    flags: frozenset[str]
    cores: str = ""

    def has_core(self, core: int) -> bool:
        """Whether programs may use a core; unknown ones may do."""
        spans = [part.partition("-") for part in self.cores.split(",")]
        known = [(int(first), int(last or first)) for first, _, last in spans if first.isdigit()]
        return not known or any(first <= core <= last for first, last in known)


class ConnectError(ToolchainError):
    """A device cannot be reached, or has no room."""


class Link:
    """An open connection. It ends with `close`, or when nobody has it any more."""

    def __init__(self, place: Place, way: Way) -> None:
        """Connect. Raises ConnectError, OutOfTimeError."""
        self.place = place
        self._way = way
        with ExitStack() as stack:
            short = len(tempfile.gettempdir()) < _MAX_SOCKET
            folder = stack.enter_context(temporary_folder(None if short else Path("/tmp")))
            self._socket = folder / "s"
            self._said = folder / "said"
            self._process = process = self._start()
            stack.callback(_end, process)
            self.greeting = self._greet(process)
            self.close = weakref.finalize(self, stack.pop_all().close)

    def command(self, script: str) -> list[str]:
        """The command that runs a line of shell on the device."""
        return self._way.further(self.place, self._socket, script)

    def is_lost(self, code: int) -> bool:
        """Whether a session's exit code comes from the end of the connection, now or soon."""
        if not self._way.is_failure(code):
            return False
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_NOTICE_SECONDS)
        return self._process.returncode is not None

    def _start(self) -> subprocess.Popen[bytes]:
        row = self.place.row
        folder = shlex.quote(row.folder) if row.folder else self._way.folder
        command = self._way.first(self.place, self._socket, _KEEP.format(folder=folder))
        check_time()
        try:
            with self._said.open("wb") as said:
                # A session of its own: Ctrl-C ends us, and we it.
                return subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                    start_new_session=True,
                )  # fmt: skip
        except FileNotFoundError:
            what, cure = f"there is no program {command[0]}", f"apt install {self._way.package}"
            raise ConnectError(what, where=self._where, cure=cure) from None

    def _greet(self, process: subprocess.Popen[bytes]) -> Greeting:
        text = _read_until(process, b"\nready\n", min(_GREET_SECONDS, time_left()))
        found = [line.partition(" ")[::2] for line in text.splitlines()]
        folder = next((rest for word, rest in found if word == "folder"), "")
        if not text.endswith("\nready\n") or not folder.startswith("/") or len(folder) > 500:
            check_time()
            if process.poll() is not None:
                raise self._problem("cannot connect")
            wrong = "its output is not an answer" if text else "there is no answer"
            raise self._problem(f"connected, but {wrong}")
        machine = next((rest for word, rest in found if word == "machine"), "")
        tools = frozenset(rest for word, rest in found if word == "has")
        flags = next((line for line in text.splitlines() if line[:5] in ("flags", "Featu")), "")
        cores = next((line for line in text.splitlines() if line[:5] == "Cpus_"), "")
        return Greeting(
            folder, machine, tools, frozenset(flags.partition(":")[2].split()),
            cores.partition(":")[2].strip(),
        )  # fmt: skip

    def _problem(self, what: str) -> ConnectError:
        """What to say where there is no greeting: `what`, unless messages say more."""
        said = self._said.read_bytes()[-_MAX_GREETING:].decode(errors="replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        detail = f": {printable(lines[-1])}" if lines else ""
        if "mktemp" in said:
            what = f"there is no folder for programs{detail}"
            cure = "free space there, or name another one: folder = in devices.toml"
        else:
            known, cure = self._way.problem(self.place, said)
            what = known or what + detail
        return ConnectError(what, where=self._where, cure=cure)

    @property
    def _where(self) -> str:
        return f"--device {self.place.name}"


def _read_until(process: subprocess.Popen[bytes], end: bytes, seconds: float) -> str:
    """What a program prints until it printed `end`; less where it ends before, or time does."""
    stream = cast(IO[bytes], process.stdout)
    found, limit = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not found.endswith(end) and len(found) < _MAX_GREETING:
            if not selector.select(max(limit - time.monotonic(), 0)):
                break
            piece = os.read(stream.fileno(), 4096)
            if not piece:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
                break
            found += piece
    return found.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the device clean up, then end the connection."""
    cast(IO[bytes], process.stdin).close()
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    cast(IO[bytes], process.stdout).close()
