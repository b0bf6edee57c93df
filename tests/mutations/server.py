"""Runs pytest again and again without reading what never changes, as numpy and hypothesis.

A process forks for each run: what is read there of the code and of its tests is forgotten.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

#: What takes long to read, and is the same whatever the mistake.
READ = """
_pytest.assertion.rewrite _pytest.terminal click filelock h5py hypothesis.extra.numpy
hypothesis.strategies jinja2 msgspec numpy onnx rich.console
""".split()

#: What a run may take of a processor, and of memory; a mistake may well have no end.
SECONDS, BYTES = 120, 6 << 30


def serve() -> None:
    """For each line of arguments a line with the exit code; below 0 it crashed."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            os._exit(int(pytest.main(json.loads(line))))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Server:
    """Such a process, in a tree."""

    def __init__(self, tree: Path, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], cwd=tree, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, arguments: Sequence[str]) -> int:
        """The exit code of pytest."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(list(arguments)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline() or -1)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    for name in READ:
        importlib.import_module(name)
    serve()
