"""Programs on a device that a connection reaches: sent once, by content, and run there."""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cannery.deadline import check_time, time_left
from cannery.devices import Place
from cannery.errors import ToolchainError, warn
from cannery.target.adb import Adb
from cannery.target.device import printable
from cannery.target.link import ConnectError, Greeting, Link
from cannery.target.processes import run_to_end
from cannery.target.ssh import Ssh
from cannery.target.vitals import READ_VITALS, Vitals, read_vitals, throttled

T = TypeVar("T")

#: Seconds before each further attempt to connect.
PAUSES = (1.0, 4.0, 10.0)

#: Seconds that sending one program may take.
SEND_SECONDS = 1800.0

#: How hard programs are compressed: more gains little, and takes long for large networks.
_LEVEL = 3

#: How often a measurement is made again because the device was slowed down.
MAX_REPEATS = 3

#: Runs a program that ends when the connection does; its input is this session's.
_RUN = (
    "cd {folder} || exit 72; exec 3<&0; v() {{ {vitals}; }}; v before; "
    "{words} </dev/null 3<&- & p=$!; (cat <&3; kill -9 $p) >/dev/null 2>&1 & w=$!; "
    "wait $p; c=$?; kill -9 $w 2>/dev/null; v after; [ $c = 255 ] && c=254; exit $c"
)
_SEND = (
    "cd {folder} && rm -f {old} {name}.part && {unpack} >{name}.part && "
    "chmod 700 {name}.part && mv {name}.part {name}"
)


class LostError(Exception):
    """The connection broke down."""


class Remote:
    """A device: connected when it is first needed, and again where the connection was lost.

    Threads may share it. `vitals` is how the device was before the last program.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.vitals = Vitals()
        self._way = Adb() if place.is_android else Ssh()
        self._link: Link | None = None
        self._sent: dict[str, Path] = {}
        self._reached = False
        self._repeats = 0
        self._lock = threading.RLock()

    @property
    def where(self) -> str:
        """The device in messages."""
        return f"--device {self.place.name}"

    def greeting(self) -> Greeting:
        """What the device says of itself. Raises ToolchainError where it cannot be reached."""
        return self._with_link(lambda link: link.greeting)

    def run(
        self, program: Path, args: Sequence[str], core: int | None, *, timeout: float, limit: int,
        watched: int = 0,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a program on a core (None: any) as `run_to_end` does, and raise what that raises.

        `watched` is the core whose clock counts, where it may choose. Where the device was slowed
        down meanwhile the program runs again, once. Raises ToolchainError where the device cannot
        be reached any more, or is full.
        """

        def once(link: Link) -> subprocess.CompletedProcess[str]:
            name = self._send(link, program)
            words = [f"./{name}", *args]
            return self._run(link, words, core, watched, timeout=timeout, limit=limit)

        done = self._with_link(once)
        before, after = read_vitals(done.stdout)
        self.vitals = before
        reason = throttled(before, after)
        if reason and done.returncode == 0:
            again = self._repeats < MAX_REPEATS
            self._repeats += 1
            told = "it is measured again" if again else "its times may be too long"
            warn(f"{self.place.name}: {reason}; {told}")
            if again:
                return self._with_link(once)
        return done

    def _run(
        self, link: Link, words: Sequence[str], core: int | None, watched: int, *,
        timeout: float, limit: int,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        settings = [f"{key}={value}" for key, value in self.place.row.environment.items()]
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        line = shlex.join([*(["env", *settings] if settings else []), *pinned, *words])
        vitals = READ_VITALS.format(core=watched if core is None else core)
        folder = shlex.quote(link.greeting.folder)
        script = _RUN.format(folder=folder, words=line, vitals=vitals)
        reading, writing = os.pipe()
        try:
            done = run_to_end(link.command(script), timeout=timeout, limit=limit, stdin=reading)
        finally:
            os.close(writing)
            os.close(reading)
        self._check_connected(link, done)
        return done

    def _check_connected(self, link: Link, done: subprocess.CompletedProcess[str]) -> None:
        """Raise LostError where a session ended as the connection did, ToolchainError if alone."""
        said = _last_line(done.stderr)
        if link.is_lost(done.returncode):
            raise LostError(said)
        if done.returncode != 255:
            return
        cure = "if its server allows few sessions at a time, end others, or name fewer cores"
        raise ToolchainError(f"a session failed: {said}", where=self.where, cure=cure)

    def _send(self, link: Link, program: Path) -> str:
        """Put a program on the device, unless it is there; its name there."""
        content = program.read_bytes()
        name = hashlib.sha256(content).hexdigest()[:20]
        with self._lock:
            if name in self._sent and self._link is link:
                return name
            # Programs of folders that are gone here are not needed there either.
            old = [key for key, path in self._sent.items() if not path.exists()]
            packed = "gzip" in link.greeting.tools
            script = _SEND.format(
                folder=shlex.quote(link.greeting.folder), name=name, old=" ".join(old),
                unpack="gzip -dc" if packed else "cat",
            )  # fmt: skip
            with tempfile.TemporaryFile() as file:
                file.write(gzip.compress(content, _LEVEL) if packed else content)
                file.seek(0)
                done = run_to_end(link.command(script), timeout=SEND_SECONDS, stdin=file)
            self._check_connected(link, done)
            for key in old:
                del self._sent[key]
            if done.returncode:
                raise ToolchainError(
                    f"a program of {len(content):,} bytes cannot be written: "
                    f"{_last_line(done.stderr)}",
                    where=self.where,
                    cure="free space there, or name another folder: folder = in devices.toml",
                )  # fmt: skip
            self._sent[name] = program
        return name

    def _with_link(self, work: Callable[[Link], T]) -> T:
        """Do something on the device, again where the connection was lost meanwhile."""
        lost = ""  # not the error itself: that would keep all that its frames have
        for pause in (0.0, *PAUSES):
            if lost:
                time.sleep(max(min(pause, time_left()), 0.0))
                check_time()
            try:
                link = self._connected()
            except ConnectError as error:
                # Where it was reached before, another thread or run met the end of the connection.
                if not self._reached:
                    raise
                lost = error.what
                continue
            try:
                return work(link)
            except LostError as error:
                self._drop(link)
                lost = str(error)
        raise ToolchainError(
            f"the connection was lost, and {len(PAUSES)} attempts to continue failed "
            f"({lost})",
            where=self.where,
            cure="what was measured is kept: once the device is back, the same command continues",
        )  # fmt: skip

    def _connected(self) -> Link:
        with self._lock:
            if self._link is None:
                self._link, self._sent = Link(self.place, self._way), {}
                self._reached = True
            return self._link

    def _drop(self, link: Link) -> None:
        """Forget a connection that is lost, unless another thread did."""
        with self._lock:
            if self._link is link:
                self._link = None
                link.close()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "nothing was said"
