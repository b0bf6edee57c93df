"""Depthwise convolution of bytes by Arm's DSP extension: four channels at a time, row by row.

Rows of four channels become four planes of int16 first. Then two neighbouring pixels of a channel
share the pairs of numbers (0, 1) and (2, 3) from their first column on: with the pairs of weights
(0, 1) and (1, 2) of each row of the window, the first pixel takes the products of 0 0 + 1 1 and
2 2, the second one those of 1 0 and 2 1 + 3 2. All weights of a channel stay in registers, so
windows have up to three rows and columns. Rows that are too long for the planes go part by part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.quantized.codes import Decoded, codes_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.depthwise import QuantizedDepthwise
from cannery.ops.quantized.dsp import RESULT, estimate, why_not_dsp
from cannery.ops.quantized.finish import make_finish
from cannery.ops.quantized.geometry import sizes
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.function import describe, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Channels that one word holds.
CHANNELS = 4

#: Rows and columns of the largest window.
MOST_TAPS = 3

#: About the memory of the planes: with more rows at a time, fewer are widened twice.
PLANE_BYTES = 2048

#: Columns of the output that are computed at a time where rows are too long for that, at least.
LEAST_WIDTH = 16


@dataclass(frozen=True)
class Planes:
    """The planes of four channels, for `rows` rows of `width` columns of the output, a divisor of
    its width; `pitch` in numbers, even.
    """

    rows: int
    width: int
    source_rows: int
    columns: int
    pitch: int

    @property
    def size(self) -> int:
        """Numbers of a plane."""
        return self.source_rows * self.pitch

    @staticmethod
    def of(s: ConvShape) -> Planes:
        """As many rows as fit; if not even one does, a part of its columns, an even number."""
        most = PLANE_BYTES // (CHANNELS * 2 * s.kh) - 2
        parts = [n for n in range(LEAST_WIDTH, s.ow, 2) if s.ow % n == 0]
        width, columns = s.ow, _columns(s, s.ow)
        if columns > most:
            width = max((n for n in parts if _columns(s, n) <= most), default=s.ow)
            columns = _columns(s, width)
        # The last pair of numbers may reach beyond the last column.
        pitch = (columns + 2) // 2 * 2
        row_bytes = CHANNELS * pitch * 2
        sources = max(PLANE_BYTES // row_bytes, 1)
        rows = even_size(s.oh, max((sources - s.kh) // s.sh + 1, 1))
        return Planes(rows, width, (rows - 1) * s.sh + s.kh, columns, pitch)


def _columns(s: ConvShape, width: int) -> int:
    """Columns of the input that this many of the output read."""
    return (width - 1) * s.sw + s.kw


@schedule
@dataclass(frozen=True)
class QuantizedDepthwiseDsp(QuantizedDepthwise):
    """See the module docstring."""

    id = "quantized.depthwise_dsp"
    accepts = BYTES

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := super().why_not(graph, step, isa):
            return reason
        s = sizes(graph, step)
        if max(s.kh, s.kw) > MOST_TAPS or (s.dh, s.dw) != (1, 1):
            return f"more than {MOST_TAPS} rows or columns, or dilated"
        return why_not_dsp(isa, graph.types[step.anchor.inputs[0]].dtype)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> list[Params]:
        return [{}]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s = sizes(graph, step)
        planes = Planes.of(s)
        blocks = -(-s.oh // planes.rows) * (s.ow // planes.width)
        widened = blocks * planes.source_rows * planes.columns * 2.0
        products = s.oh * s.ow * (s.kh * 3.0 + RESULT) + 16.0 * s.oh
        return estimate(isa, s.oc * (widened + products), 600.0)

    def kernel(self, job: Job) -> Kernel:
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        w = job.graph.constants[s.weight]
        planes = Planes.of(s)
        finish = make_finish(job, op, w.reshape(s.taps, s.oc), np.zeros(s.oc, np.int64))
        weights = ConstArray(
            f"{job.symbol}_w", pack_rows(w), "weights [channel][row][columns 0 1 1 2]"
        )
        scratch = CHANNELS * planes.size * 2
        codes = codes_of(job.graph, job.step.anchor, job.isa, job.symbol)
        taps = Decoded.of(codes, weights, scratch)
        code = render(
            "ops/quantized/depthwise_dsp.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=True), s=s, x=x,
            y=job.output, finish=finish, taps=taps, p=planes,
            kind="i8" if x.dtype is DType.INT8 else "u8",
        )  # fmt: skip
        return Kernel(
            finish.functions + code, (*taps.constants, *finish.constants),
            scratch_bytes=scratch + taps.scratch_bytes, band=1,
        )  # fmt: skip


def pack_rows(w: NDArray[Any]) -> NDArray[Any]:
    """w[KH,KW,1,C] as the columns 0, 1, 1, 2 of each row: even and odd bytes are two pairs."""
    kh, kw, _, c = w.shape
    taps = np.zeros((c, kh, MOST_TAPS), np.int8)
    taps[:, :, :kw] = w[:, :, 0, :].transpose(2, 0, 1)
    return taps[:, :, [0, 1, 1, 2]].ravel()
