"""Maximum over sliding windows of bytes, channels last, in plain C that compilers widen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.emit.environment import offset
from cannery.ir.graph import Graph
from cannery.ir.tensor import TensorType
from cannery.layouts import Layout, Want, image_dims
from cannery.ops.checks import operands, require, require_type
from cannery.ops.quantized.arithmetic import BYTES, QuantizedOp
from cannery.ops.registry import RefArray, register
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.window_axis import TapSpan, WindowAxis
from cannery.ops.window import Pads, output_sizes, require_no_empty_window, tap_slices
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@register
@dataclass(frozen=True)
class QuantizedMaxPool(QuantizedOp):
    """x[N,H,W,C] -> y[N,OH,OW,C] of the same type; padding never wins."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        (x,), _ = operands(self, inputs, 1)
        require_type(x.dtype in BYTES, self, f"of {x.dtype.value}")
        require(x.rank == 4 and len(self.kernel) == 2, self, f"of {x} by {self.kernel}")
        window = (self.kernel, self.strides, self.pads, self.dilations)
        sizes = output_sizes(self, x.shape[1:-1], *window)
        require_no_empty_window(self, x.shape[1:-1], sizes, *window)
        return (TensorType((x.shape[0], *sizes, x.shape[-1]), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap."""
        (x,), _ = operands(self, inputs, 1)
        window = (self.kernel, self.strides, self.pads, self.dilations)
        sizes = output_sizes(self, x.shape[1:-1], *window)
        least = np.iinfo(x.dtype).min
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)), constant_values=least)
        y = np.full((x.shape[0], *sizes, x.shape[-1]), least, x.dtype)
        for _, slices in tap_slices(self.kernel, sizes, self.strides, self.dilations):
            y = np.maximum(y, padded[slices])
        return (y,)


@schedule
@dataclass(frozen=True)
class QuantizedMaxPoolPlain(Schedule):
    """Row by row; pixels with the same taps inside the image are one loop."""

    id = "quantized.max_pool"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        alone = len(step.anchors) == 1 and not step.epilogue
        fits = alone and isinstance(step.anchor.op, QuantizedMaxPool)
        return "" if fits else "not a maximum of bytes alone"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [{}]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want("nhwc"),)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want("nhwc"),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op = step.anchor.op
        assert isinstance(op, QuantizedMaxPool)
        taps = op.kernel[0] * op.kernel[1]
        return Estimate(taps * graph.types[step.output].elements / max(isa.widest, 1))

    def kernel(self, job: Job) -> Kernel:
        rows, cols = _axes(job)
        x, y = job.inputs[0], job.output
        type_, channels = x.dtype.c_name, x.shape[2]
        lines = []
        for span in rows.spans():
            first, end = span.start, span.start + span.count
            lines += [
                f"for (int oh = y0 > {first} ? y0 : {first}; "
                f"oh < (y1 < {end} ? y1 : {end}); ++oh) {{",
                *(line for each in cols.spans() for line in _pixels(rows, cols, span, each, x, y)),
                "}",
            ]
        body = "\n".join(f"    {line}" for line in lines)
        body = body.replace("@T", type_).replace("@C", str(channels))
        return Kernel(f"{describe(job)}\n{signature(job, band=True)}\n{{\n{body}\n}}\n", band=1)


def _axes(job: Job) -> tuple[WindowAxis, WindowAxis]:
    op = job.step.anchor.op
    assert isinstance(op, QuantizedMaxPool)
    inputs, outputs = (image_dims(job.type(v)) for v in (*job.step.inputs, job.step.output))
    made = [
        WindowAxis(inputs[k + 1], outputs[k + 1], op.kernel[k], op.strides[k], op.dilations[k],
                   op.pads[k][0])
        for k in range(2)
    ]  # fmt: skip
    return made[0], made[1]


def _pixels(
    rows: WindowAxis, cols: WindowAxis, row: TapSpan, col: TapSpan, x: Layout, y: Layout
) -> list[str]:
    """Statements of the pixels of one row whose taps inside are the same."""
    top = x.at(rows.source(0, row.first), cols.source(col.start, col.first), 0)
    taps = [
        offset(i * rows.dilation * x.row + j * cols.dilation * x.col)
        for i in range(row.taps)
        for j in range(col.taps)
    ]
    return [
        f"for (int n = 0; n < {col.count}; ++n) {{",
        f"const @T *const t = x + (oh * {rows.stride * x.row} + n * {cols.stride * x.col}"
        f"{offset(top)});",
        f"@T *const o = y + (oh * {y.row} + n * {y.col}{offset(y.at(0, col.start, 0))});",
        "for (int c = 0; c < @C; ++c) {",
        "@T v = t[c];",
        *(f"v = t[c{at}] > v ? t[c{at}] : v;" for at in taps[1:]),
        "o[c] = v;",
        "}",
        "}",
    ]
