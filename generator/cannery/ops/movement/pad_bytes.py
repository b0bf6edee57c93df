"""Pads images of bytes or int16 with a constant: whole rows are set and copied."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Want
from cannery.ops.movement.op import Pad
from cannery.ops.quantized.arithmetic import STORED
from cannery.ops.shared.function import describe, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Bytes per cycle, and cycles of each call.
SPEED, CALL = 16.0, 15.0


@schedule
@dataclass(frozen=True)
class MovementPadBytes(FixedSchedule):
    """See the module docstring."""

    id = "movement.pad_bytes"
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if not step.alone or not isinstance(op, Pad):
            return "not a pad alone"
        x = step.anchor.inputs[0]
        type_ = graph.types[x]
        if x in graph.constants or type_.dtype not in STORED or type_.rank != 4:
            return "not an image of quantised numbers"
        outer = (op.pads[0], op.pads[3])
        inside = outer == ((0, 0), (0, 0)) and op.mode == "constant" and type_.elements
        return "" if inside else "not around an image, with a constant"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.output]
        return Estimate(2.0 * CALL * type_.shape[1] + type_.bytes / SPEED)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, Pad)
        (top, bottom), (left, right) = op.pads[1:3]
        images, h, w, c = job.type(job.step.anchor.inputs[0]).shape
        row, wide = w * c, (left + w + right) * c
        type_, value = job.output.dtype, int(op.value)
        first, between = (top * wide + left * c), (left + right) * c
        last = bottom * wide + right * c
        lines = [
            f"for (int n = 0; n < {images}; ++n) {{",
            f"{type_.c_name} *yr = y + n * {(top + h + bottom) * wide};",
            *([_fill("yr", type_, value, str(first)), f"yr += {first};"] if first else []),
            f"for (int i = 0; i < {h}; ++i) {{",
            f"memcpy(yr, x + (n * {h} + i) * {row}, {row * type_.bytes}u);",
            _fill(f"yr{offset(row)}", type_, value, f"(i < {h - 1} ? {between} : {last})"),
            f"yr += {wide};",
            "}",
            "}",
        ]
        body = "\n".join(f"    {line}" for line in lines)
        return Kernel(f"{describe(job)}\n{signature(job)}\n{{\n{body}\n}}\n", whole=True)


def _fill(pointer: str, dtype: DType, value: int, count: str) -> str:
    """A C statement that sets this many numbers."""
    if dtype.bytes == 1:
        return f"memset({pointer}, {value % 256}, (size_t){count});"
    return f"for (int k = 0, end = {count}; k < end; ++k) {{ ({pointer})[k] = {value}; }}"
