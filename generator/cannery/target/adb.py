"""Devices with Android, which adb reaches: over USB, or the network."""

from __future__ import annotations

import shlex
from pathlib import Path

from cannery.devices import Place


class Adb:
    """The way of addresses such as adb:0123456789ABCDEF; its server keeps the connection."""

    folder = "/data/local/tmp"
    package = "adb"

    def first(self, place: Place, socket: Path, script: str) -> list[str]:
        """The command of any session."""
        return ["adb", "-s", place.login, "shell", "-T", f"sh -c {shlex.quote(script)}"]

    def further(self, place: Place, socket: Path, script: str) -> list[str]:
        """The same: there is no socket."""
        return self.first(place, socket, script)

    def is_failure(self, code: int) -> bool:
        """Whether adb itself may have failed: it passes on exit codes, and has none of its own."""
        return code in (1, 255)

    def problem(self, place: Place, said: str) -> tuple[str, str]:
        """What adb's messages mean, and what to do."""
        if "unauthorized" in said:
            return "it does not trust this computer", "unlock it, and allow USB debugging"
        return "", "adb devices lists what is connected; USB debugging has to be on"
