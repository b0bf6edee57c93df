"""Devices that the system's ssh reaches, by one master connection."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from cannery.devices import Place

#: Seconds for a connection to be made.
CONNECT_SECONDS = 10

#: A master, which ends when its own session does, or where nobody answers for 20 seconds.
_MASTER = (
    "-oControlMaster=yes", "-oControlPersist=no", f"-oConnectTimeout={CONNECT_SECONDS}",
    "-oServerAliveInterval=5", "-oServerAliveCountMax=4",
)  # fmt: skip

#: What users may have configured for their own sessions, and what nobody is there to answer.
_QUIET = (
    "-T", "-oBatchMode=yes", "-oRemoteCommand=none", "-oPermitLocalCommand=no",
    "-oClearAllForwardings=yes", "-oForwardX11=no", "-oForwardAgent=no",
)  # fmt: skip

#: The exit code of ssh itself.
_FAILURE = 255

#: What ssh says where it does not connect: the problem, and what to do about it.
_PROBLEMS = (
    ("IDENTIFICATION HAS CHANGED", "its host key is not the known one",
     "if that was to be expected: ssh-keygen -R {host}, then ssh {login} once by hand"),
    ("Host key verification failed", "its host key is not known",
     "connect once by hand, and compare the key: ssh {login}"),
    ("Permission denied (", "the login was refused",
     "ssh-copy-id {login} sets up a key; one with a passphrase needs ssh-agent"),
    ("Too many authentication failures", "the login was refused",
     "name its key in ~/.ssh/config: IdentityFile, and IdentitiesOnly yes"),
)  # fmt: skip


class Ssh:
    """The way of addresses such as ssh:nao@10.0.0.5."""

    folder = '"${TMPDIR:-/tmp}"'
    package = "openssh-client"

    def first(self, place: Place, socket: Path, script: str) -> list[str]:
        """The command of the master connection."""
        port = ["-p", str(place.port)] if place.port else []
        return _ssh(place, socket, [*_MASTER, *place.row.ssh, *port], script)

    def further(self, place: Place, socket: Path, script: str) -> list[str]:
        """The command of a session within it."""
        # Without a master it would connect by itself: by this, whatever is configured.
        alone = ["-F/dev/null", "-oControlMaster=no", "-oProxyCommand=false"]
        return _ssh(place, socket, alone, script)

    def is_failure(self, code: int) -> bool:
        """Whether the exit code is that of ssh itself."""
        return code == _FAILURE

    def problem(self, place: Place, said: str) -> tuple[str, str]:
        """What ssh's messages mean, and what to do."""
        login, host = place.login, place.login.rpartition("@")[2]
        if place.port:
            login, host = f"-p {place.port} {login}", f"'[{host}]:{place.port}'"
        for words, what, cure in _PROBLEMS:
            if words in said:
                return what, cure.format(host=host, login=login)
        return "", f"check the address, the cable and the device: ssh {login}"


def _ssh(place: Place, socket: Path, options: Sequence[str], script: str) -> list[str]:
    # Of options that are given twice the first counts.
    words = ["ssh", *_QUIET, "-S", str(socket), *options, place.login]
    return [*words, f"sh -c {shlex.quote(script)}"]
