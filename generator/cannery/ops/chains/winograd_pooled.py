"""A Winograd convolution and the 2 x 2 pooling after it: a tile of 4 x 4 pixels becomes 2 x 2.

The output transform pools its pixels while they are in registers and stores the quarters of the
result (see `cannery.ops.shared.quarters`). When all tiles are done, the quarters are written in the
order that the next step wants. So the image before pooling, four times as large, is never stored or
read.

In addition to the parameters of `conv.winograd_planar`: `to` is the order of the result, `spread`
the number of lanes used to write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.layouts import Layout, Want
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.conv.winograd import F2, F4
from cannery.ops.conv.winograd_planar import Target, Tunables, WinogradPlanar
from cannery.ops.conv.winograd_tiles import Masks
from cannery.ops.elementwise.activations import Clip, HardSigmoid, Relu, Sigmoid, Softplus, Tanh
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import quarters
from cannery.ops.shared.function import parameter_names
from cannery.ops.shared.pool import PoolShape, pool_shape
from cannery.ops.shared.pool import sizes as pool_sizes
from cannery.ops.shared.pool_phase import make_spread, spreads, why_not_halves, written
from cannery.schedule.params import typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Activations that never fall: the maximum of their values is the value of the maximum.
RISING = (Clip, HardSigmoid, Relu, Sigmoid, Softplus, Tanh)


@dataclass(frozen=True)
class PooledTunables(Tunables):
    """Adds `to`, the order in which the pooled rows are written, by vectors of `spread` lanes."""

    to: str
    spread: int


@dataclass(frozen=True)
class WinogradPooled(WinogradPlanar):
    """See the module docstring."""

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.parts) != 2:
            return "not a chain of 2 steps"
        first, second = step.parts
        pool = pool_shape(graph, second)
        if pool is None:
            return "does not end with a pooling"
        rest = epilogues.why_not(second) or why_not_halves(pool)
        return rest or super().why_not(graph, first, isa)

    def shape(self, graph: Graph, step: Step) -> ConvShape:
        """The sizes of the convolution, without the row that no window reads."""
        shape = super().shape(graph, step.parts[0])
        return replace(shape, oh=2 * _pool(graph, step).rows.out)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        pool = _pool(graph, step)
        best: dict[str, quarters.Spread] = {}
        for spread in spreads(pool, isa, residuals=len(step.parts[1].inputs) > 1):
            known = best.get(spread.order)
            if known is None or spread.cycles(1, 0.0, isa) < known.cycles(1, 0.0, isa):
                best[spread.order] = spread
        found = super().candidates(graph, step, isa)
        return [
            {**tiles, "to": spread.order, "spread": spread.lanes}
            for spread in best.values()
            for tiles in found
        ]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        first, second = step.parts
        wants = dict(zip(first.inputs, super().reads(graph, first, params, isa), strict=True))
        wants |= {
            v: Want(typed(PooledTunables, params).to) for v in second.inputs if v in step.inputs
        }
        return tuple(wants[value] for value in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (written(_pool(graph, step), typed(PooledTunables, params).to),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        first, second = step.parts
        t = typed(PooledTunables, params)
        pool, shape = _pool(graph, step), self.shape(graph, step)
        values = 4 if _late(pool, first) else 16
        work = 20 + values * 2 * len(first.epilogue)
        tiles = self.tiles_cost(shape, t, isa, work, results=4)
        each = _spread(pool, t).cycles(1, 2.0 * len(second.epilogue), isa)
        return Estimate(tiles.cycles + pool.channels * each, tiles.code_bytes + 200.0)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return self.packed_bytes(graph, step, typed(PooledTunables, params))

    def kernel(self, job: Job) -> Kernel:
        first, second = job.step.parts
        pool, shape = _pool(job.graph, job.step), self.shape(job.graph, job.step)
        t = typed(PooledTunables, job.params)
        spread = _spread(pool, t)
        layout = quarters.buffer(spread, pool.channels)
        ep = epilogues.build(job, first.anchor.output, first.epilogue)
        own = _spread_job(job, second, layout)
        own_ep = epilogues.build(own, second.anchor.output)
        code, masks = quarters.render_spread(
            own, spread, quarters.buffer_source(spread, pool.channels), own_ep,
            maximum=pool.maximum, function="/* Rows of the result. */",
        )  # fmt: skip
        names = dict(zip(job.step.inputs, parameter_names(job), strict=False))
        arguments = ["scratch", *(names[v] for v in second.inputs[1:]), "y", "y0", "y1"]
        target = Target(
            layout, ep, Masks(0, 0, 0), "max" if pool.maximum else "add", _late(pool, first),
            layout.elements, f"{own.symbol}({', '.join(arguments)})", code,
        )  # fmt: skip
        found = self.tiles_kernel(job, t, shape, target)
        constants = (*found.constants, *masks, *own_ep.constants)
        needs_math = ep.needs_math or own_ep.needs_math
        return replace(found, constants=constants, needs_math=needs_math)

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output with the convolution in float32, as this schedule rounds it."""
        first, second = step.parts
        values = dict(zip(step.inputs, inputs, strict=True))
        values[first.output] = super().emulate(graph, first, [values[v] for v in first.inputs])
        for node in second.nodes:
            operands = (values[v] if v in values else graph.constants[v] for v in node.inputs)
            (values[node.output],) = node.op.reference(*operands)
        return values[step.output].astype("float32")


@schedule
@dataclass(frozen=True)
class ChainsWinogradPooled(WinogradPooled):
    """F(4x4, 3x3)."""

    id = "chains.winograd_pooled"
    inexact = True
    winograd = F4


@schedule
@dataclass(frozen=True)
class ChainsWinogradPooledF2(WinogradPooled):
    """F(2x2, 3x3)."""

    id = "chains.winograd_pooled_f2"
    winograd = F2


def _pool(graph: Graph, step: Step) -> PoolShape:
    return pool_sizes(graph, step.parts[1])


def _late(pool: PoolShape, first: Step) -> bool:
    """Whether the convolution's epilogue works on a quarter of the pixels."""
    return pool.maximum and all(isinstance(node.op, RISING) for node in first.epilogue)


def _spread(pool: PoolShape, t: PooledTunables) -> quarters.Spread:
    return make_spread(pool, t.to, t.spread)


def _spread_job(job: Job, second: Step, layout: Layout) -> Job:
    """The job of what follows the tiles: the pooling's epilogue, and the order."""
    known = dict(zip(job.step.inputs, job.inputs, strict=True))
    inputs = (layout, *(known[v] for v in second.inputs[1:]))
    return replace(job, step=second, symbol=f"{job.symbol}_rows", inputs=inputs)
