"""One network: Cannery and the rivals, each in a process of its own, timed in turn.

Every round asks all contestants for one sample, in alternating order; a contestant's time is the
lower quartile of its samples.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError
from cannery.execution.samples import reference_outputs, relative_error
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.orders import to_model
from cannery.ops.elementwise import Relu
from cannery.ops.registry import RefArray
from cannery.options import Options, make_options
from cannery.pipeline import load_model
from cannery.tune.trial import random_inputs
from rivals.convert import Prepared, prepare
from rivals.exchange import exchange_graph
from rivals.ours import build_ours, peak
from rivals.results import Contest, Result
from rivals.runtimes import RIVALS, Rival
from rivals.served import Served, serve

_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Settings:
    """What is compared, and for how long.

    `isas` and `compilers` are Cannery's (empty: the machine's own), `threads` the rivals'. At most
    `rounds` are timed, and after `seconds` no more than five.
    """

    rivals: tuple[str, ...] = tuple(RIVALS)
    isas: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    tuning: Path | None = None
    threads: int = 1
    rounds: int = 30
    seconds: float = 60.0


@dataclass(frozen=True)
class _Entrant:
    """A contestant before it is timed; `noop` is the same rival with an empty network."""

    served: Served
    noop: Served | None
    result: Result


def noop_graph() -> Graph:
    """One number, rectified: what remains is what a call costs."""
    builder = GraphBuilder("noop")
    x = builder.input("x", (1, 1, 1, 1))
    builder.output(builder.node(Relu(), [x], name="y"))
    return builder.build()


class _Arena:
    """Starts the contestants of one network, and stops them in the end."""

    def __init__(self, model: Path, settings: Settings, folder: Path, stack: ExitStack) -> None:
        self.model, self.settings, self.folder, self.stack = model, settings, folder, stack
        judge = load_model(make_options(model, {}))
        self.inputs = random_inputs(judge)
        self.expected = reference_outputs(judge, [self.inputs])[0]
        self.graph = exchange_graph(model)
        self.macs = 0
        self.absent: dict[str, str] = {}

    def entrants(self) -> Iterator[_Entrant]:
        """All that can be started; the others are noted in `absent`."""
        for options in self._our_options():
            yield self._ours(options)
        for name in self.settings.rivals:
            rival = RIVALS[name]
            if not rival.version:
                self.absent[rival.title] = "not installed"
                continue
            for order in self._orders(rival):
                title = f"{rival.title} {order}" if len(self._orders(rival)) > 1 else rival.title
                try:
                    yield self._rival(name, title, order)
                except CanneryError as error:
                    self.absent[title] = str(error)

    def _orders(self, rival: Rival) -> tuple[str, ...]:
        """A given ONNX file is taken as it is."""
        given = self.model.suffix == ".onnx" and rival.format != "tflite"
        return ("model",) if given else rival.orders

    def _our_options(self) -> Iterator[Options]:
        for isa in self.settings.isas or ("",):
            for compiler in self.settings.compilers or ("",):
                raw = {
                    "isa": (isa,) if isa else (), "cc": compiler or None,
                    "tuning": self.settings.tuning, "name": "network",
                }  # fmt: skip
                yield make_options(self.model, raw)

    def _ours(self, options: Options) -> _Entrant:
        label = " ".join(["Cannery", *options.isa, *([options.cc] if options.cc else [])])
        folder = self.folder / label.replace(" ", "_").replace("/", "_")
        ours = build_ours(options, folder)
        self.macs = self.macs or ours.source.macs
        served = self._serve(label, ours.command(self.inputs, folder), folder)
        outputs = dict(zip(self.graph.outputs, ours.outputs(folder), strict=True))
        toolchain = ours.toolchain
        result = Result(
            label, toolchain.compiler.version, "tuned" if ours.tuned else "untuned", 1, 0.0, 0.0,
            self._error(outputs), ours.library_bytes, 0, toolchain.target.isa.name,
            peak(toolchain, folder),
        )  # fmt: skip
        return _Entrant(served, None, result)

    def _rival(self, name: str, title: str, order: str) -> _Entrant:
        rival, folder = RIVALS[name], self.folder / f"{name}_{order}"
        made = prepare(self.graph, self.model, rival.format, order, folder)
        images = self._images(self.inputs, made.order)
        inputs = dict(zip(made.inputs, images.values(), strict=True))
        served = self._start(name, title, made, inputs, folder)
        empty = prepare(noop_graph(), self.model, rival.format, rival.orders[0], folder / "noop")
        one = np.zeros((1, 1, 1, 1), np.float32)
        noop = self._start(name, title, empty, {empty.inputs[0]: one}, folder / "noop")
        result = Result(
            title, rival.version, served.remark, self.settings.threads, 0.0, 0.0,
            self._error(self._outputs(served, made, folder)), rival.library_bytes(), made.bytes,
        )  # fmt: skip
        return _Entrant(served, noop, result)

    def _start(
        self, name: str, title: str, made: Prepared, inputs: Mapping[str, RefArray], folder: Path
    ) -> Served:
        data, found = folder / "inputs.npz", folder / "outputs.npz"
        arrays = {key: np.ascontiguousarray(array) for key, array in inputs.items()}
        np.savez(data, **arrays)  # type: ignore[arg-type]
        command = [
            sys.executable, str(_CHILD), name, str(made.file), str(self.settings.threads),
            str(data), str(found),
        ]  # fmt: skip
        return self._serve(title, command, folder)

    def _serve(self, title: str, command: Sequence[str], folder: Path) -> Served:
        served = serve(title, command, folder)
        self.stack.callback(served.end)
        return served

    def _outputs(self, served: Served, made: Prepared, folder: Path) -> dict[str, RefArray]:
        """By their names in the graph; by their order where a rival has names of its own."""
        with np.load(folder / "outputs.npz") as file:
            arrays = [file[key] for key in file.files]
        names = served.outputs if set(served.outputs) == set(made.outputs) else made.outputs
        found = dict(zip(names, arrays, strict=True))
        values = zip(self.graph.outputs, made.outputs, strict=True)
        return {value: found[name] for value, name in values}

    def _images(self, arrays: Mapping[str, RefArray], order: str) -> dict[str, RefArray]:
        """Graph order to the order of a file."""
        if order == "model":
            return dict(to_model(self.graph, arrays))
        first = order == "nchw"
        return {
            name: np.moveaxis(array, -1, 1) if first and array.ndim == 4 else array
            for name, array in arrays.items()
        }

    def _error(self, outputs: Mapping[str, RefArray]) -> float:
        """The largest of all outputs, which may be in the order of any file."""
        return max(self._error_of(name, array) for name, array in outputs.items())

    def _error_of(self, name: str, array: RefArray) -> float:
        expected = self.expected[name]
        forms = [expected]
        if expected.ndim == 4:
            forms.append(np.moveaxis(expected, -1, 1))
        return min(relative_error(array.reshape(form.shape), form) for form in forms)


def compare(model: Path, settings: Settings, folder: Path) -> Contest:
    """Build, check and time all contestants for a model; raises CanneryError if Cannery fails."""
    with ExitStack() as stack:
        arena = _Arena(model, settings, folder, stack)
        entrants = list(arena.entrants())
        _time(entrants, settings)
        results = [
            replace(e.result, us=e.served.us, noop_us=e.noop.us if e.noop else 0.0)
            for e in entrants
        ]
    return Contest(model.stem, arena.macs, tuple(results), arena.absent)


def _time(entrants: Sequence[_Entrant], settings: Settings) -> None:
    all_served = [s for e in entrants for s in (e.served, e.noop) if s]
    for served in all_served:
        served.settle(0.1)
    start = time.perf_counter()
    for round_ in range(settings.rounds):
        if round_ >= 5 and time.perf_counter() - start > settings.seconds:
            break
        for served in all_served if round_ % 2 else reversed(all_served):
            served.sample()
