"""Case graphs of the kernel tests, and how to add some.

A module `tests/ops/cases_<anything>.py` holds functions decorated with `@case`; each returns a
small Graph, best with one step. All are found by themselves; `test_kernels.py` then tries every
legal schedule on every instruction set, with parameters chosen pairwise. So a new schedule needs
nothing but graphs that it can compute: odd sizes, tails, strides, pads, epilogues, residuals,
batches.

    from ops.cases import Net, case

    @case
    def conv_3x3_relu() -> Graph:
        net = Net()
        x = net.input("x", (1, 7, 9, 3))
        y = net.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)), [x, net.weight(3, 3, 3, 8)])
        return net.graph(net.node(Relu(), [y]))

`@case(tolerance=1e-4)` allows a larger error than 1e-5 (max|y - r| / max|r|), `inexact=` likewise
for schedules that say they are inexact, `positive=True` makes all inputs positive. Keep shapes
tiny: everything is run under emulators, too. `far=True` makes schedules believe that caches are
tiny, so that they offer what they have for large layers. Then `pytest tests/ops/test_legal.py
--update-golden` lists which schedules the new steps have, so that none gets lost.

To work on a schedule: `python tests/ops/kernel_bench.py --help`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload
from unittest.mock import patch

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ops.chains import convolutions, sources_code
from cannery.ops.conv import unrolled, winograd_oc
from cannery.ops.conv_transpose import phases
from cannery.ops.matmul import lanes_n

#: Largest error of an exact schedule, and of one that is inexact.
TOLERANCE = 1e-5
INEXACT = 1e-3


@dataclass(frozen=True)
class Case:
    """A graph whose steps are tried alone, or with `depth_first` its longest chain of that kind."""

    name: str
    make: Callable[[], Graph]
    tolerance: float = TOLERANCE
    inexact: float = INEXACT
    positive: bool = False
    far: bool = False
    depth_first: bool = False

    def caches(self) -> AbstractContextManager[object]:
        """Caches as schedules shall see them while the block runs."""
        stack = ExitStack()
        if self.far:
            sizes = {"BATCH_BYTES": (0, 0), "FAR_BATCH_BYTES": (1 << 20,)}
            tiny = patch.multiple(
                winograd_oc, L2_BYTES=0, FAR_BYTES=0, near_bytes=lambda isa: 0, **sizes
            )
            stack.enter_context(tiny)
            stack.enter_context(patch.object(lanes_n, "FAR_BYTES", 0))
            stack.enter_context(patch.object(unrolled, "MAX_UNROLLED", 200))
            stack.enter_context(patch.object(convolutions, "LARGE_BYTES", 0))
            for banded in (phases, sources_code):
                stack.enter_context(patch.object(banded, "BAND_BYTES", 0))
        return stack


_CASES: dict[str, Case] = {}


@overload
def case(make: Callable[[], Graph], /) -> Callable[[], Graph]: ...
@overload
def case(**options: Any) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]: ...
def case(make: Callable[[], Graph] | None = None, /, **options: Any) -> Any:
    """Register a function that makes a Graph, under its own name."""

    def register(function: Callable[[], Graph]) -> Callable[[], Graph]:
        name = function.__name__
        if name in _CASES:
            raise ValueError(f"two cases are named {name}")
        _CASES[name] = Case(name, function, **options)
        return function

    return register(make) if make else register


def add_case(name: str, make: Callable[[], Graph], **options: Any) -> None:
    """Register a case by name, for cases that come from loops."""
    make.__name__ = name
    case(**options)(make)


def case_named(name: str) -> Case:
    """A case whose module was imported."""
    return _CASES[name]


def all_cases() -> list[Case]:
    """Every case of every `cases_*.py`, in a fixed order."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        importlib.import_module(f"ops.{path.stem}")
    return [_CASES[name] for name in sorted(_CASES)]


class Net(GraphBuilder):
    """A GraphBuilder with random weights and names made up."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__("case")
        self.rng = np.random.default_rng(seed)

    def weight(self, *shape: int, positive: bool = False) -> str:
        """A constant of normal numbers; `positive` keeps away from zero."""
        values = self.rng.standard_normal(shape).astype(np.float32)
        return self.constant("w", np.abs(values) + np.float32(0.1) if positive else values)

    def node(self, op: Op, inputs: Sequence[str], *, name: str = "") -> str:
        """Append a node; named after its operator if no name is given."""
        return super().node(op, inputs, name=name or self.unique(op.kind.lower()))

    def graph(self, *outputs: str) -> Graph:
        """The finished graph."""
        for value in outputs:
            self.output(value)
        return self.build()
