"""Runs commands that end by SIGKILL just before their nth change of a file.

    python killer.py FOLDER          commands come as JSON lines on stdin; each gets a result
    python killer.py FOLDER N WORDS  one command, which also ends what called it: its whole group

A process is forked for each, so that Cannery is imported once. What changes a file is seen by the
audit hooks of Python.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "generator")]

#: Audit events of calls that change files, besides "open"; their first argument is the path.
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate")


def kill_before(number: int, folder: str, *, group: bool = False) -> None:
    """From now on, end this process, or its group, before the nth change (from 1) in a folder."""
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event == "open":
            flags = arguments[2]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in _CHANGES:
            return
        if not isinstance(arguments[0], str | os.PathLike):
            return
        if str(arguments[0]).startswith(folder + os.sep):
            left -= 1
            if left <= 0:
                os.kill(0 if group else os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def act(words: list[str]) -> int:
    """A command of Cannery, or `module:function` of the tests with arguments."""
    if ":" in words[0]:
        module, _, name = words[0].partition(":")
        getattr(import_module(module), name)(*words[1:])
        return 0
    from cannery.cli import invoke

    return invoke(words)


def serve(folder: str) -> None:
    """Each line: {"before": n, "words": [...]}; the answer: the exit code, or less a signal.

    n is 0 to go on to the end, -1 to do that in this process: what is imported then stays.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        if order["before"] < 0:
            answers.write(f"{act(order['words'])}\n")
            answers.flush()
            continue
        child = os.fork()
        if not child:
            if order["before"]:
                kill_before(order["before"], folder)
            os._exit(act(order["words"]))
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        kill_before(int(sys.argv[2]), sys.argv[1], group=True)
        sys.exit(act(sys.argv[3:]))
