"""Maximum over sliding windows of integers, channels last, in plain C that compilers vectorise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.quantized.arithmetic import STORED, QuantizedOp
from cannery.ops.quantized.mve import NAMES, VECTOR, VECTORS
from cannery.ops.quantized.windows import tap_offsets, window_kernel
from cannery.ops.shared.window_axis import TapSpan
from cannery.ops.window import WindowOp
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@register
@dataclass(frozen=True)
class QuantizedMaxPool(WindowOp, QuantizedOp):
    """x[N,H,W,C] -> y[N,OH,OW,C] of the same type; padding never wins."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        (x,), _ = operands(self, inputs, 1)
        require_type(x.dtype in STORED, self, f"of {x.dtype.value}")
        require(x.rank == 4 and len(self.kernel) == 2, self, f"of {x} by {self.kernel}")
        return (TensorType((x.shape[0], *self.sizes(x.shape[1:-1]), x.shape[-1]), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap."""
        (x,), _ = operands(self, inputs, 1)
        return (reduce(np.maximum, self.taps(x, np.iinfo(x.dtype).min)),)


@schedule
@dataclass(frozen=True)
class QuantizedMaxPoolPlain(FixedSchedule):
    """Row by row; pixels with the same taps inside the image are one loop."""

    id = "quantized.max_pool"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        fits = step.alone and isinstance(step.anchor.op, QuantizedMaxPool)
        return "" if fits else "not a maximum of integers alone"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op = step.anchor.op
        assert isinstance(op, QuantizedMaxPool)
        taps = op.kernel[0] * op.kernel[1]
        return Estimate(taps * graph.types[step.output].elements / max(isa.widest, 1))

    def kernel(self, job: Job) -> Kernel:
        type_, channels = job.output.dtype.c_name, job.inputs[0].shape[2]
        if job.isa.has("mve"):
            return window_kernel(job, partial(_by_vectors, job))
        runs = vector_spans(channels, 16 // job.output.dtype.bytes)

        def pixel(row: TapSpan, col: TapSpan) -> list[str]:
            _, *taps = tap_offsets(job, row, col)
            return [
                line
                for first, end in runs
                for line in (
                    f"for (int c = {first}; c < {end}; ++c) {{",
                    f"{type_} v = t[c];",
                    *(f"v = t[c{at}] > v ? t[c{at}] : v;" for at in taps),
                    "o[c] = v;",
                    "}",
                )
            ]

        return window_kernel(job, pixel)


def _by_vectors(job: Job, row: TapSpan, col: TapSpan) -> list[str]:
    """The statements of a pixel for Helium, 16 bytes at a time; of the last ones only the rest."""
    channels, name = job.inputs[0].shape[2], NAMES[job.output.dtype]
    lanes, (_, *taps) = VECTOR // job.output.dtype.bytes, tap_offsets(job, row, col)
    found = list[str]()
    for start, end, n in ((0, channels // lanes * lanes, lanes),
                          (channels // lanes * lanes, channels, channels % lanes)):  # fmt: skip
        if start < end:
            load = f"cannery_mve_load_{name}"
            found += [
                f"for (int c = {start}; c < {end}; c += {lanes}) {{",
                f"{VECTORS[name]} v = {load}(t + c, {n});",
                *(f"v = cannery_mve_max_{name}(v, {load}(t + c{at}, {n}));" for at in taps),
                f"cannery_mve_store_{name}(o + c, v, {n});",
                "}",
            ]
    return found


def vector_spans(channels: int, lanes: int) -> list[tuple[int, int]]:
    """Channels as (first, end) of loops that compilers turn into vectors of `lanes` elements, or of
    half as many; the last one may overlap its neighbour.
    """
    if channels < lanes // 2 or channels % lanes == 0:
        return [(0, channels)]
    part = lanes if channels > lanes else lanes // 2
    whole = channels // part * part
    rest = channels - whole
    if not rest:
        return [(0, channels)]
    last = lanes // 2 if rest <= lanes // 2 else lanes
    return [(0, whole), (channels - last, channels)]
