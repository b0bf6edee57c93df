"""Group normalisation of the last axis, channels in the lanes whatever the size of a group.

Sums and sums of squared differences are computed per channel over all pixels, as long vectors; only
then are the few channels of a group added. The statistics are kept in scratch memory, per channel:
[mean][factor], so the last pass is one multiply-add per vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.ops.normalization import problem
from cannery.ops.normalization.op import GroupNormalization
from cannery.ops.normalization.problem import CHANNEL, RESIDUALS, Affine, Dim, X, Y
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import Loop, merge_loops, nested_pointer
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import make_blocks, widths
from cannery.ops.shared.lanes import Vec
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: How many vectors of channels are summed side by side.
SHAPES = (2, 4, 1)


@dataclass(frozen=True)
class Tunables:
    """Blocks of `nv` vectors, none wider than `lanes`."""

    lanes: int
    nv: int


@schedule
@dataclass(frozen=True)
class NormalizationChannels(problem.NormalizationSchedule):
    """See the module docstring."""

    id = "normalization.channels"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        reason = super().why_not(graph, step, isa)
        if reason:
            return reason
        op = step.anchor.op
        last = graph.types[step.anchor.output].rank - 1
        fits = isinstance(op, GroupNormalization) and op.axis == last
        return "" if fits else "not a group normalisation of the last axis"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        channels = graph.types[step.anchor.output].shape[-1]
        return [
            as_params(Tunables(lanes, nv))
            for lanes in widths(channels, isa)
            for nv in SHAPES
            if nv == 1 or (nv - 1) * lanes < channels
        ]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.anchor.output]
        p, channels = typed(Tunables, params), type_.shape[-1]
        vectors = type_.elements / channels * -(-channels // p.lanes)
        sums = vectors * (2.0 * max(1.0, isa.rates(p.lanes).latency / p.nv) + 1.5)
        return Estimate(sums + type_.shape[0] * 8.0 * channels, 120.0 * p.nv)

    def kernel(self, job: Job) -> Kernel:
        op, p = job.step.anchor.op, typed(Tunables, job.params)
        assert isinstance(op, GroupNormalization)
        ep = epilogues.build(job, job.step.anchor.output)
        affine, arrays = problem.affine(job)
        images, pixels = _loops(problem.dims(job, ep))
        channels = job.output.shape[2]
        stored = channels + epilogues.CHANNEL_PADDING
        size = channels // op.groups
        code = render(
            "ops/normalization/channels.c.j2",
            describe=describe(job),
            signature=signature(job, scratch=True),
            images=images,
            pixels=pixels,
            nested_pointer=nested_pointer,
            blocks=make_blocks(channels, job.isa, p.lanes, p.nv, 1),
            groups=op.groups,
            size=size,
            count=size * job.output.shape[0] * job.output.shape[1],
            epsilon=op.epsilon,
            stored=stored,
            scale=affine.scale,
            bias=lambda v: _bias(affine, v),
            residual=lambda v: lambda k: f"r{k}{offset(v.start)}",
            X=X,
            Y=Y,
            RESIDUALS=RESIDUALS,
            x=job.inputs[0],
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
        )
        return Kernel(
            code, (*arrays, *ep.constants), 8 * stored, needs_math=ep.needs_math, whole=True
        )


def _loops(dims: Sequence[Dim]) -> tuple[list[Loop], list[Loop]]:
    """(loops over images, loops over the pixels of one)."""
    kept = [Loop(d.extent, d.strides) for d in dims if not d.reduced and not d.strides[CHANNEL]]
    reduced = [Loop(d.extent, d.strides) for d in dims if d.reduced and not d.strides[CHANNEL]]
    return merge_loops(kept), merge_loops(reduced)


def _bias(affine: Affine, v: Vec) -> str:
    """The load of a vector of biases, empty if there are none."""
    if not affine.bias:
        return ""
    at = f"{affine.bias} + c{offset(v.start)}"
    return f"{v.t}_load({at})" if affine.bias_padded else v.load(at)
