"""Devices for tests: OpenSSH's server on this machine, reached through a line that can be bad."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from needs import missing, need_program

#: The server's options besides its port and files.
_CONFIG = """\
ListenAddress 127.0.0.1
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
"""


@dataclass
class Line:
    """A TCP forwarder that counts what goes to the device, is slow, and breaks on command.

    `cuts` are the bytes after which each further connection is cut; `rate` is in bytes per second.
    """

    port: int
    cuts: list[int] = field(default_factory=list)
    rate: float = 0.0
    sent: int = 0
    connections: int = 0
    refuses: bool = False
    _pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[int]:
        """Forward while the block runs; the port."""
        server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            self.refuses = True
            # A thread that waits in accept() keeps the port otherwise.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
            self.cut()

    def cut(self) -> None:
        """End all connections."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            self.connections += 1
            device = socket.create_connection(("127.0.0.1", self.port))
            self._pairs.append((client, device))
            limit = self.cuts.pop(0) if self.cuts else None
            for args in ((client, device, limit, True), (device, client, None, False)):
                threading.Thread(target=self._pump, args=args, daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, limit: int | None, up: bool
    ) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(2**14):
                if self.rate and up:
                    time.sleep(len(piece) / self.rate)
                sink.sendall(piece)
                passed += len(piece)
                self.sent += len(piece) if up else 0
                if limit is not None and passed > limit:
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Server:
    """A device: its table of devices.toml, the line to it, and where its programs lie."""

    name: str
    row: str
    line: Line
    room: Path

    @property
    def left(self) -> list[Path]:
        """What lies in the folder for programs, once the device had time to clean up."""
        for _ in range(100):
            if not (found := list(self.room.iterdir())):
                break
            time.sleep(0.1)
        return found


@contextmanager
def ssh_device(
    folder: Path, name: str, *, wrapper: str = "", extra: str = "", config: str = ""
) -> Iterator[Server]:
    """A separate server; files go into `folder`. Skips where there is none.

    `wrapper` is shell that comes before each command there, `extra` is added to its table, `config`
    to the configuration of its server.
    """
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or missing("no sshd")
    need_program("ssh")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    home = folder / name
    (room := home / "room").mkdir(parents=True)
    for key in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / key)]
        subprocess.run(words, check=True)
    config += f"{_CONFIG}HostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\nPidFile none\n"
    if wrapper:
        (script := home / "wrapper").write_text(
            f'#!/bin/sh\n{wrapper}\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        script.chmod(0o755)
        config += f"ForceCommand {script}\n"
    port = _free_port()
    (home / "config").write_text(f"Port {port}\n{config}")
    with ExitStack() as stack:
        process = subprocess.Popen(
            [sshd, "-D", "-f", str(home / "config"), "-E", str(home / "log")]
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        _wait_for(port, process, home / "log")
        line = Line(port)
        public = stack.enter_context(line.listening())
        known = (home / "host.pub").read_text().rsplit(" ", 1)[0]
        (home / "known").write_text(f"[127.0.0.1]:{public} {known}\n")
        words = ["-F", "/dev/null", "-i", f"{home}/user", f"-oUserKnownHostsFile={home}/known"]
        row = (
            f'[{name}]\naddress = "ssh:{getpass.getuser()}@127.0.0.1:{public}"\n'
            f'folder = "{room}"\nssh = {words}\n{extra}\n'
        )
        yield Server(name, row, line, room)


def write_devices(
    folder: Path, patch: pytest.MonkeyPatch, *servers: Server, extra: str = ""
) -> None:
    """A devices.toml of these in a configuration folder, that of the test from now on."""
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config/cannery").mkdir(parents=True, exist_ok=True)
    text = "".join(s.row for s in servers) + extra
    (folder / "config/cannery/devices.toml").write_text(text)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert isinstance(port, int)
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        if process.poll() is not None:
            missing(f"sshd does not start: {log.read_text()}")
        time.sleep(0.1)
    missing("sshd does not listen")
