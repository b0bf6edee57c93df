"""Runs harness programs and reads what they print."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from filelock import FileLock, Timeout

from cannery.deadline import time_left
from cannery.errors import OptionError, ToolchainError
from cannery.measure.build import Built
from cannery.target.device import printable
from cannery.target.runner import Origin, Runner, number, position
from cannery.user_folders import user_cache

#: Seconds to wait for other tunings on the same device.
_PATIENCE = 600.0

#: A difference smaller than this is a tie.
TIE = 0.015


class Context(str, Enum):
    """What a timed call finds: everything in the caches, or nothing, because other work came
    between.
    """

    WARM = "warm"
    COLD = "cold"

    @property
    def arguments(self) -> list[str]:
        """The last arguments of the measuring programs."""
        return ["--cold"] if self is Context.COLD else []


def refuse_emulated(context: Context | None, runner: Runner) -> None:
    """Raise OptionError if cold caches are requested from an emulator, which has no caches."""
    if context is Context.COLD and runner.origin is Origin.EMULATED:
        raise OptionError(
            "an emulator has no caches", where="--context cold",
            cure="--device measures on a device",
        )  # fmt: skip


@dataclass(frozen=True)
class Check:
    """max|y - r| / max|r| of a candidate, and anything else it did wrong."""

    error: float
    fault: str = ""


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call (all images): the lower quartile and the median."""

    us: float
    median_us: float
    samples: int


@dataclass(frozen=True)
class Protocol:
    """How long to measure.

    Rounds for all, rounds for the best, microseconds of one sample (a single call with cold
    caches), and about how many seconds one contest may take.
    """

    first: int = 10
    more: int = 20
    sample_us: float = 50.0
    limit: float = 60.0
    context: Context = Context.WARM

    def arguments(self) -> list[str]:
        """Arguments of the harness."""
        return [
            "--rounds", str(self.first), str(self.more), "--sample", f"{self.sample_us:g}",
            "--limit", f"{self.limit:g}", *self.context.arguments,
        ]  # fmt: skip


@contextmanager
def alone(runner: Runner) -> Iterator[None]:
    """Keep other tunings of this user off the device, with any runner, while the block runs.

    If that is impossible, or takes too long, the block runs anyway; with a deadline, it then finds
    that its time is up.
    """
    known = runner.device.lock if runner.device else ""
    name = hashlib.sha256((known or runner.way).encode()).hexdigest()[:12]
    with ExitStack() as stack:
        with suppress(OSError, Timeout):
            folder = Path(user_cache(), "locks")
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(
                FileLock(str(folder / name), timeout=min(_PATIENCE, max(time_left(), 0)))
            )
        yield


def check(built: Built, runner: Runner, arguments: Sequence[str] = ()) -> dict[str, Check]:
    """The verdict on every candidate, by symbol. Raises ToolchainError if the program fails."""
    found, count = {}, len(built.candidates)
    lines = runner.run(built.executable, ["--check", *arguments])
    with runner.reading(built.executable):
        for line in (line for line in lines if "fault" in line):
            symbol = built.candidates[position(line, "trial", count)].symbol
            found[symbol] = Check(number(line, "error"), printable(line["fault"]))
    if len(found) != len(built.candidates):
        raise ToolchainError(
            f"only {len(found)} of {len(built.candidates)} candidates were reported",
            where=runner.where(built.executable), cure=runner.cure,
        )  # fmt: skip
    return found


def measure(
    built: Built, runner: Runner, protocol: Protocol, arguments: Sequence[str] = ()
) -> dict[str, Timing]:
    """The times of all candidates, by symbol. Raises ToolchainError if the program fails."""
    found, count = {}, len(built.candidates)
    lines = runner.run(built.executable, ["--time", *protocol.arguments(), *arguments])
    with runner.reading(built.executable):
        for line in (line for line in lines if "us" in line):
            symbol = built.candidates[position(line, "trial", count)].symbol
            us, median, samples = (number(line, key) for key in ("us", "median_us", "samples"))
            found[symbol] = Timing(us, median, int(samples))
    return found


def measure_peak(built: Built, runner: Runner) -> float:
    """Multiply-add throughput of one core with the widest vectors of the ISA, in GFLOP/s."""
    lines = runner.run(built.executable, ["--peak"])
    with runner.reading(built.executable):
        for line in (line for line in lines if "peak_gflops" in line):
            return number(line, "peak_gflops")
    where = runner.where(built.executable)
    raise ToolchainError("no peak was reported", where=where, cure=runner.cure)
