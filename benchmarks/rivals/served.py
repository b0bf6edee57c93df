"""A contestant: a process that calls its network as often as requested and reports the time."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cannery.errors import ToolchainError
from rivals.limits import Used
from rivals.results import lower_quartile

#: Seconds of one sample, at least one call.
SAMPLE = 1e-3


@dataclass
class Served:
    """A running contestant; `used` are the instructions of its first calls.

    `times` are microseconds per call, one of each sample so far.
    """

    name: str
    process: subprocess.Popen[str]
    log: Path
    remark: str
    outputs: tuple[str, ...]
    used: Used
    count: int = 1
    times: list[float] = field(default_factory=list)

    def sample(self) -> None:
        """Take one sample. Raises ToolchainError if the process is gone."""
        self.times.append(1e6 * self._ask(self.count))

    def settle(self, seconds: float) -> None:
        """Run for a while, and find how many calls make a sample."""
        start = time.perf_counter()
        while True:
            per_call = self._ask(self.count)
            enough = self.count * per_call >= SAMPLE
            if enough and time.perf_counter() - start >= seconds:
                break
            if not enough:
                self.count = max(self.count + 1, min(2 * self.count, round(SAMPLE / per_call)))
        self.count = max(1, round(SAMPLE / per_call))

    def _ask(self, count: int) -> float:
        """Seconds per call."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise _gone(self.name, self.log) from None
        line = self.process.stdout.readline()
        if not line.strip():
            raise _gone(self.name, self.log)
        return float(line) / count

    @property
    def us(self) -> float:
        """The lower quartile of the samples."""
        return lower_quartile(self.times)

    def pin(self, cpus: Sequence[int]) -> None:
        """Run all its threads on these processors."""
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cpus)

    def end(self) -> None:
        """Stop the process and wait for it."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rival_environment() -> dict[str, str]:
    """The caller's environment, in which pip installs nothing.

    MNN's tools run pip by themselves, for a package that reports what they do, and any pip on PATH
    would do it, for whatever environment it belongs to.
    """
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}


@contextmanager
def few_processors(count: int) -> Iterator[None]:
    """Programs started meanwhile see this many processors (0: all), and make as many threads.

    A process that is pinned later would have threads that wait for work in each other's way.
    """
    before = os.sched_getaffinity(0) if count else set()
    if count:
        os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        if count:
            os.sched_setaffinity(0, before)


def serve(
    name: str, command: Sequence[str], folder: Path,
    environment: Mapping[str, str] | None = None, processors: int = 0,
) -> Served:  # fmt: skip
    """Start a contestant and wait until it has run once; raises ToolchainError if it fails.

    `environment` is what it gets beside the caller's, `processors` how many it sees.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    with log.open("w") as errors, few_processors(processors):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**rival_environment(), **(environment or {})},
        )  # fmt: skip
    assert process.stdout
    line = process.stdout.readline()
    if not line.strip():
        process.wait()
        raise _gone(name, log)
    about = json.loads(line)
    return Served(
        name, process, log, str(about["remark"]), tuple(about["outputs"]),
        Used(*about.get("instructions", ())),
    )  # fmt: skip


def _gone(name: str, log: Path) -> ToolchainError:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return ToolchainError(lines[-1] if lines else "ended without a word", where=name)
