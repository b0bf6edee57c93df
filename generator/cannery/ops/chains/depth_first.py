"""Depth first: any number of steps, a few rows of each at a time, with a ring of rows after each.

A ring holds the rows of a value that its readers' windows still need, with their pad columns; the
shortcut of a residual is one more reader. When it is full, what is still needed moves to its start.
Nothing is computed twice, so this costs little time, and memory is that of a few rows of each value
in place of whole images. Values from outside that need zeros around them are copied into a ring row
by row, so that they need no halo of their own.

`row_rings.py` says what a chain consists of, `pulling.py` which stage runs when, `sliced.py` how a
step works on rows. Integers are those of the steps alone; floats are rounded as by the schedules
that the rows get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.chains.depth_first_code import ChainCode
from cannery.ops.chains.row_rings import Chain, make_chain
from cannery.ops.chains.sliced import sliced, windows
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    estimates,
    legal,
    schedule,
)
from cannery.target.isa import Isa

#: Rows of each value that are computed at a time: the values to try.
ROWS = (1, 2, 4)

#: Cycles to find the stage that runs next and to call it, and bytes that are moved in a cycle.
_CALL, _MOVED = 40.0, 8.0


@dataclass(frozen=True)
class Tunables:
    """How many rows of each value are computed at a time, where their number is a multiple."""

    rows: int


@schedule
@dataclass(frozen=True)
class ChainsDepthFirst(Schedule):
    """See the module docstring."""

    id = "chains.depth_first"
    depth_first: ClassVar[bool] = True
    halves = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.depth_first:
            return "not a chain that is computed depth first"
        if any(windows(graph, part) is None for part in step.parts):
            return "rows of a part do not follow from rows"
        known = all(sliced(graph, part, 1).best(isa) for part in step.parts)
        return "" if known else "a part has no schedule that works on rows"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        heights = {graph.types[part.output].shape[1] for part in step.parts}
        fits = (rows for rows in ROWS if any(height % rows == 0 for height in heights))
        return [as_params(Tunables(rows)) for rows in fits]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        chain = _chain(graph, step, params, isa)
        return tuple(chain.outside(value) for value in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (_chain(graph, step, params, isa).parts[-1].writes,)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        chain = _chain(graph, step, params, isa)
        cycles = sum(part.cost.cycles * part.calls + _CALL * part.calls for part in chain.parts)
        cycles += sum(ring.moved for ring in chain.rings) / _MOVED
        # A model of so few rows sees too little: memory is saved here, not time.
        alone = sum(_least(graph, part, isa) for part in step.parts)
        return Estimate(
            max(cycles, 1.02 * alone), sum(part.cost.code_bytes for part in chain.parts)
        )

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return sum(
            part.choice.schedule.constant_bytes(
                part.sliced.graph, part.sliced.step, part.choice.params, isa
            )
            for part in _chain(graph, step, params, isa).parts
        )

    def scratch_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> int:
        return _chain(graph, step, params, isa).bytes

    def kernel(self, job: Job) -> Kernel:
        return ChainCode(job, _chain(job.graph, job.step, job.params, job.isa)).kernel()


def _chain(graph: Graph, step: Step, params: Params, isa: Isa) -> Chain:
    return make_chain(graph, step, typed(Tunables, params).rows, isa)


def _least(graph: Graph, step: Step, isa: Isa) -> float:
    """Cycles of a step by itself."""
    return graph.once("least", (step, isa), lambda: min(
        (cost.cycles for s in legal(graph, step, isa)
         for _, cost in estimates(graph, step, isa, s)), default=0.0))  # fmt: skip
