"""One network: Cannery and the rivals, each in a separate process, timed in turn.

Every round asks all contestants for one sample, in alternating order; a contestant's time is the
lower quartile of its samples.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError, ToolchainError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import RefArray
from cannery.ops.elementwise import Relu
from cannery.options import Options, make_options
from isas import isa_words
from rivals.compilers import LIMIT
from rivals.convert import Prepared, prepare
from rivals.cpuid_sites import mapped_code
from rivals.inputs import write_inputs
from rivals.judge import Judge
from rivals.limits import build_library, can_watch, limited
from rivals.ours import build_ours, peak
from rivals.packages import RIVALS, Rival
from rivals.results import Contest, Result, reasons
from rivals.served import Served, serve

CHILD = Path(__file__).with_name("child.py")

#: Rounds that are timed in any case, and seconds that each runs before the first.
_LEAST = 5
_SETTLE = 0.1


@dataclass(frozen=True)
class Settings:
    """What is compared, and for how long.

    `isas` and `compilers` are Cannery's (empty: the machine's own), `orders` those of images at its
    interface as `--io-layout` names them; `autotune` measures first and writes records to `tuning`.
    With each of `threads` all take part. `limit` is what rivals see of the processor.
    At most `rounds` are timed, and only the first few after `seconds`; on `cpus`, if any are
    given, and while `lock` is locked, which others who time on this machine lock, too.
    """

    rivals: tuple[str, ...] = tuple(RIVALS)
    isas: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    tuning: Path | None = None
    autotune: bool = False
    orders: tuple[str, ...] = ("model",)
    threads: tuple[int, ...] = (1,)
    limit: str = ""
    rounds: int = 30
    seconds: float = 60.0
    cpus: tuple[int, ...] = ()
    lock: Path | None = None


@dataclass(frozen=True)
class _Entrant:
    """A contestant before it is timed; `noop` is the same rival with an empty network.

    `peak` measures that of Cannery's instruction set.
    """

    served: Served
    noop: Served | None
    result: Result
    peak: Callable[[], float] = float


class Noops:
    """Every rival with an empty network, started when it is first needed."""

    def __init__(self, folder: Path, settings: Settings, stack: ExitStack) -> None:
        self.folder, self.settings, self.stack = folder, settings, stack
        self.watch = build_library("instructions", folder) if can_watch() else None
        self._served: dict[tuple[str, int], Served] = {}
        self._environments: dict[str, dict[str, str]] = {}

    def get(self, name: str, threads: int) -> Served:
        """The rival of this name, its samples forgotten; raises CanneryError if it fails."""
        key = name, threads
        if key not in self._served:
            self._served[key] = self._started(name, threads, self.environment(name))
            self.stack.callback(self._served[key].end)
        self._served[key].times.clear()
        return self._served[key]

    def environment(self, name: str) -> dict[str, str]:
        """In which a rival sees what `limit` leaves of the processor; raises CanneryError."""
        if name not in self._environments:
            found: dict[str, str] = {}
            if RIVALS[name].compiles:
                found = {LIMIT: self.settings.limit}
            elif self.settings.limit:
                served = self._started(name, 1, {})
                files = mapped_code(served.process.pid)
                served.end()
                found = limited(self.settings.limit, files, self.folder / name)
            self._environments[name] = found
        return self._environments[name]

    def _started(self, name: str, threads: int, environment: Mapping[str, str]) -> Served:
        rival, folder = RIVALS[name], self.folder / f"{name}_{threads}"
        made = prepare(noop_graph(), folder, rival.format, rival.orders[0], folder)
        one = {made.inputs[0]: np.zeros((1, 1, 1, 1), np.float32)}
        words = command(name, made, threads, one, folder)
        return serve(name, words, folder, environment, len(self.settings.cpus))

    def start(
        self, name: str, title: str, made: Prepared, threads: int, inputs: Mapping[str, RefArray],
        folder: Path,
    ) -> Served:  # fmt: skip
        """A rival with a network; raises CanneryError if it fails or breaks the limit."""
        words = [*command(name, made, threads, inputs, folder)]
        words += [str(self.watch)] if self.watch else []
        served = serve(title, words, folder, self.environment(name), len(self.settings.cpus))
        if served.used.breaks(self.settings.limit):
            served.end()
            raise ToolchainError(f"uses {served.used} all the same", where=title)
        return served


def noop_graph() -> Graph:
    """One number, rectified: what remains is what a call costs."""
    builder = GraphBuilder("noop")
    x = builder.input("x", (1, 1, 1, 1))
    builder.output(builder.node(Relu(), [x], name="y"))
    return builder.build()


def command(
    name: str, made: Prepared, threads: int, inputs: Mapping[str, RefArray], folder: Path
) -> list[str]:
    """What starts a rival with a file and inputs."""
    data, found = write_inputs(inputs, folder)
    return [
        sys.executable, str(CHILD), name, str(made.file), str(threads), str(data), str(found)
    ]  # fmt: skip


class _Arena:
    """Starts the contestants of one network; `stack` stops them in the end.

    `as_given`: rivals read the model itself, too, where they can.
    """

    def __init__(
        self, model: Path, settings: Settings, folder: Path, noops: Noops, stack: ExitStack, *,
        as_given: bool,
    ) -> None:  # fmt: skip
        self.model, self.settings, self.folder = model, settings, folder
        self.noops, self.stack, self.as_given = noops, stack, as_given
        self.judge = Judge(model)
        self.macs = 0
        self.absent: dict[tuple[str, str], str] = {}

    def entrants(self) -> Iterator[_Entrant]:
        """All that can be started; the others are noted in `absent`."""
        for options, threads in product(self._our_options(), self.settings.threads):
            yield self._ours(options, threads)
        for name in self.settings.rivals:
            rival = RIVALS[name]
            if not rival.version:
                self.absent[rival.title, ""] = "not installed"
                continue
            for order, threads in product(self._orders(rival), self.settings.threads):
                title = f"{rival.title} {order}" if len(self._orders(rival)) > 1 else rival.title
                title += f", {self.settings.limit}" if self.settings.limit else ""
                try:
                    yield self._rival(name, title, order, threads)
                except CanneryError as error:
                    self.absent[rival.title, title] = str(error)

    def _orders(self, rival: Rival) -> tuple[str, ...]:
        given = ("model",) if self.as_given and rival.format not in ("tflite", "torch") else ()
        return (*given, *rival.orders)

    def _our_options(self) -> Iterator[Options]:
        """Every combination."""
        of = self.settings
        for isa, cc, order in product(of.isas or ("",), of.compilers or ("",), of.orders):
            raw = {
                "isa": isa_words(isa), "cc": cc or None, "tuning": of.tuning,
                "name": "network", "io_layout": order,
            }  # fmt: skip
            yield make_options(self.model, raw)

    def _ours(self, options: Options, threads: int) -> _Entrant:
        order = "" if options.io_layout == "model" else options.io_layout
        label = " ".join(filter(None, ["Cannery", *options.isa, options.cc, order]))
        folder = self.folder / f"{label.replace(' ', '_').replace('/', '_')}_{threads}"
        ours = build_ours(options, folder, threads, autotune=self.settings.autotune)
        self.macs = self.macs or ours.source.macs
        words = ours.command(self.judge.inputs, folder)
        served = serve(label, words, folder, None, len(self.settings.cpus))
        self.stack.callback(served.end)
        toolchain, error = ours.toolchain, self.judge.our_error(ours, folder)
        tuned = "tuned" if ours.tuned else "untuned"
        generated, compiled = ours.seconds
        remark = f"{tuned}; {generated:.1f} s to generate, {compiled:.1f} to compile"
        result = Result(
            label, toolchain.compiler.version, remark, threads,
            0.0, 0.0, error, ours.library_bytes, 0, toolchain.target.isa.name,
        )  # fmt: skip
        return _Entrant(served, None, result, peak(toolchain, folder))

    def _rival(self, name: str, title: str, order: str, threads: int) -> _Entrant:
        rival, folder = RIVALS[name], self.folder / f"{name}_{order}_{threads}"
        made = prepare(self.judge.graph, self.model, rival.format, order, folder)
        inputs = self.judge.inputs_of(made)
        served = self.noops.start(name, title, made, threads, inputs, folder)
        self.stack.callback(served.end)
        error = self.judge.error(served.name, served.outputs, made, folder)
        result = Result(
            title, rival.version, served.remark, threads, 0.0, 0.0,
            error, rival.library_bytes(), made.bytes, rival=rival.title, used=str(served.used),
        )  # fmt: skip
        return _Entrant(served, self.noops.get(name, threads), result)


@dataclass(frozen=True)
class Match:
    """A network, whether rivals read its file as it is, too (ONNX), and a folder for its files."""

    model: Path
    folder: Path
    as_given: bool


def compare(
    model: Path, settings: Settings, folder: Path, noops: Noops, *, as_given: bool
) -> Contest:
    """One match, see below."""
    (found,) = compare_all([Match(model, folder, as_given)], settings, noops)
    return found


def compare_all(matches: Sequence[Match], settings: Settings, noops: Noops) -> list[Contest]:
    """Build and check all contestants, then time them, match by match.

    Raises CanneryError if Cannery fails.
    """
    with ExitStack() as stack:
        arenas = [
            _Arena(m.model, settings, m.folder, noops, stack, as_given=m.as_given) for m in matches
        ]
        entrants = [list(arena.entrants()) for arena in arenas]
        served = [s for some in entrants for e in some for s in (e.served, e.noop) if s]
        with alone(served, settings):
            return [_found(a, e, settings) for a, e in zip(arenas, entrants, strict=True)]


def _found(arena: _Arena, entrants: Sequence[_Entrant], settings: Settings) -> Contest:
    """Times the entrants of one match."""
    for entrant in entrants:
        if entrant.noop:
            entrant.noop.times.clear()
    peaks = {id(e): e.peak() for e in entrants}
    gone = time_in_turn([s for e in entrants for s in (e.served, e.noop) if s], settings)
    results = [
        replace(e.result, us=e.served.us, noop_us=e.noop.us if e.noop else 0.0, peak=peaks[id(e)])
        for e in entrants
        if not gone.keys() & {id(e.served), id(e.noop)}
    ]
    for e in entrants:
        if id(e.served) in gone:
            arena.absent[e.result.rival, e.result.name] = gone[id(e.served)]
    lost = {form: reason for (_, form), reason in arena.absent.items() if form}
    why = reasons(arena.absent, results)
    return Contest(arena.model.stem, arena.macs, tuple(results), why, lost)


@contextmanager
def alone(contestants: Sequence[Served], settings: Settings) -> Iterator[None]:
    """The contestants on the processors that are meant for timing, and no one else timing there."""
    with ExitStack() as stack:
        if settings.lock:
            file = stack.enter_context(settings.lock.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        if settings.cpus:
            stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, settings.cpus)
            for served in {id(s): s for s in contestants}.values():
                served.pin(settings.cpus)
        yield


def time_in_turn(contestants: Sequence[Served], settings: Settings) -> dict[int, str]:
    """Samples for all, each once even if it is named twice; by id, the reasons of who failed."""
    once = {id(s): s for s in contestants}
    gone: dict[int, str] = {}
    start = time.perf_counter()
    for number in range(-1, settings.rounds):
        if number >= _LEAST and time.perf_counter() - start > settings.seconds:
            break
        for key in list(once) if number % 2 else reversed(list(once)):
            try:
                if number < 0:
                    once[key].settle(_SETTLE)
                else:
                    once[key].sample()
            except CanneryError as error:
                gone[key] = str(error)
                del once[key]
    return gone
