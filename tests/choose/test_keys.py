"""What is remembered is found again under the same key, and never taken for something else.

For each cache: everything that its results depend on changes the key, names and the like do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cannery.choose import recheck, rounding
from cannery.choose.signature import graph_key, step_kind, step_signature
from cannery.ir.graph import Graph
from cannery.layouts import Halo, nhwc
from cannery.lowering.lower import cut
from cannery.measure.harness import Candidate, make_candidate
from cannery.measure.trial import Trial, all_data, make_trial, random_inputs
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import LeakyRelu
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule, all_schedules
from cannery.target.isa import isa
from ops.cases import Net

ISA = isa("generic")
ONE = (1, 1)


@dataclass(frozen=True)
class Setting:
    """A convolution with an activation, and the options for it."""

    pads: int = 1
    slope: float = 0.1
    channels: int = 4
    seed: int = 0
    bias: bool = True
    samples: int = 1
    name: str = "layer"
    schedule: str = "conv.direct_oc"
    version: int = 0

    def graph(self) -> Graph:
        net = Net(self.seed)
        x = net.input(f"{self.name}_in", (self.samples, 6, 6, self.channels))
        pads = ((self.pads, self.pads),) * 2
        weights = [net.weight(3, 3, self.channels, 8), *([net.weight(8)] if self.bias else [])]
        y = net.node(Conv(ONE, pads, ONE), [x, *weights], name=self.name)
        return net.graph(net.node(LeakyRelu(self.slope), [y], name=f"{self.name}_act"))

    def step(self) -> Step:
        (step,) = cut(self.graph())
        return step

    def way(self) -> Schedule:
        found = all_schedules()[self.schedule]
        return found if not self.version else _with_version(found, self.version)


def _with_version(schedule: Schedule, version: int) -> Schedule:
    kind = type(schedule)
    return type(kind.__name__, (kind,), {"version": version})()


USUAL = Setting()

#: What computes something else.
OTHER_STEPS: Mapping[str, Setting] = {
    "pads": replace(USUAL, pads=0),
    "attribute of the epilogue": replace(USUAL, slope=0.2),
    "types": replace(USUAL, channels=5),
    "samples": replace(USUAL, samples=2),
    "inputs": replace(USUAL, bias=False),
}
WEIGHTS = {"weights": replace(USUAL, seed=1)}
WAYS = {
    "schedule": replace(USUAL, schedule="conv.gemm"),
    "version": replace(USUAL, version=99),
}
RENAMED = replace(USUAL, name="other")


def _recheck(s: Setting) -> str:
    return recheck._key(s.graph(), s.step(), s.way())


def _rounding(s: Setting) -> str:
    return rounding._key(s.graph(), 1e-4)


def _signature(s: Setting) -> str:
    return step_signature(s.graph(), s.step())


def _kind(s: Setting) -> str:
    return step_kind(s.graph(), s.step())


def _graph(s: Setting) -> str:
    return graph_key(s.graph(), "x")


def _code(s: Setting) -> str:
    return _candidate(s).code_key()


def _trial(s: Setting) -> Trial:
    graph, step = s.graph(), s.step()
    (data,) = all_data(graph, [step], random_inputs(graph))
    way = s.way()
    made = make_trial(graph, step, way, way.candidates(graph, step, ISA)[0], ISA, data)
    assert made is not None
    return made


def _candidate(s: Setting, number: int = 0) -> Candidate:
    return make_candidate(_trial(s), number)


@pytest.mark.parametrize(
    ("key", "others", "names_count"),
    [
        (_recheck, {**OTHER_STEPS, **WEIGHTS, **WAYS}, False),
        (_rounding, {**OTHER_STEPS, **WEIGHTS}, True),
        (_signature, OTHER_STEPS, False),
        (_kind, OTHER_STEPS, False),
        (_graph, OTHER_STEPS, True),
        (_code, {**OTHER_STEPS, **WEIGHTS, "schedule": WAYS["schedule"]}, False),
    ],
)
def test_whatever_counts_changes_the_key(
    key: Callable[[Setting], str], others: Mapping[str, Setting], names_count: bool
) -> None:
    found = {"usual": key(USUAL), **{what: key(other) for what, other in others.items()}}
    assert key(USUAL) == found["usual"]
    assert names_count or key(RENAMED) == found["usual"]
    same = [(a, b) for a in found for b in found if a < b and found[a] == found[b]]
    assert not same


def test_bounds_and_options_count_as_well() -> None:
    graph = USUAL.graph()
    assert rounding._key(graph, 1e-4) != rounding._key(graph, 1e-5)
    keys = {graph_key(graph, *options) for options in ((), ("a",), ("b",), ("a", "b"), ("ab",))}
    assert len(keys) == 5


def test_places_count_where_code_is_timed() -> None:
    """Strides are literal in the code; what lies around a value may be in its layout alone."""
    trial = _trial(USUAL)
    (place,) = trial.inputs
    wider = nhwc.make(place.layout.shape, Halo(2, 2, 2, 2))
    numbered = [_candidate(USUAL, number).code_key() for number in (0, 7)]
    assert len(set(numbered)) == 1
    changed = [
        replace(trial, inputs=(replace(place, layout=wider),)),
        replace(trial, inputs=(replace(place, halo=Halo()),)),
    ]
    assert len({numbered[0], *(make_candidate(t, 0).code_key() for t in changed)}) == 3


def test_an_error_is_that_of_one_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is asked first, of schedules that round differently."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    net = Net()
    x = net.input("x", (1, 12, 12, 8))
    graph = net.graph(net.node(Conv(ONE, ((1, 1), (1, 1)), ONE), [x, net.weight(3, 3, 8, 8)]))
    (step,) = cut(graph)
    ways = [all_schedules()[name] for name in ("conv.winograd_oc", "conv.winograd_oc_f2")]
    first = [recheck.emulated_error(graph, step, way) for way in ways]
    again = [recheck.emulated_error(graph, step, way) for way in reversed(ways)]
    assert first == again[::-1]
    assert None not in first
    assert first[0] != first[1]
    assert np.all(np.array(first, float) < 1e-4)
