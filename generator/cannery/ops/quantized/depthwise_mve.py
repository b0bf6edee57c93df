"""Depthwise convolution of bytes by Helium: a vector is four columns of four rows of one channel.

Rows of 16 channels are interleaved first: [column][channel][row 4]. The words of four neighbouring
columns are then one vector (a gathering load), which holds the window of up to 2 x 2 outputs. Each
is the sum of the products with the weights (VMLADAV), shifted by the place of the output: another
gathering load brings them there from the taps of the channel, and zeros elsewhere.

Sums are stored for 16 channels of each pixel, and scaled together. Where integers are clamped, they
lie in the order in which narrowing vectors brings them back: every fourth one is in one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from cannery.ops.quantized.finish import AnyFinish, Finish
from cannery.ops.quantized.geometry import sizes
from cannery.ops.quantized.mve import tile_finish, why_not_mve
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Channels that are interleaved at once.
CHANNELS = 16

#: Rows and columns of a vector.
SIDE = 4

#: Bytes of a column of all channels.
COLUMN = CHANNELS * SIDE

#: About the memory of the interleaved rows.
STRIP_BYTES = 4096

#: The most vectors of a channel that are written out.
MOST_UNROLLED = 6

#: The largest stride: a load moves its addresses by up to 508 bytes.
MOST_STRIDE = 4

#: Instructions: for a column of interleaved rows, for a vector of a channel and for its outputs,
#: for a channel of a chunk, for the results of a pixel.
PACK, STEP, OUTPUT, CHANNEL, RESULTS = 11.0, 4.0, 2.0, 10.0, 40.0


@dataclass(frozen=True)
class Strips:
    """A strip is the `rows` x any outputs of four rows; `columns` outputs are of one vector.

    `count` strips are computed at once, each of them in `steps` vectors, out of `read` columns.
    """

    rows: int
    columns: int
    count: int
    steps: int
    read: int
    pitch: int
    stride: int

    @staticmethod
    def of(s: ConvShape) -> Strips:
        """As many strips as fit."""
        rows = min((SIDE - s.kh) // s.sh + 1, s.oh)
        columns = min((SIDE - s.kw) // s.sw + 1, s.ow)
        steps = -(-s.ow // columns)
        pitch = (steps - 1) * columns * s.sw + SIDE
        count = min(max(STRIP_BYTES // (pitch * COLUMN), 1), -(-s.oh // rows))
        return Strips(rows, columns, count, steps, (s.ow - 1) * s.sw + s.kw, pitch, s.sw)

    @property
    def unroll(self) -> int:
        """Vectors of a pass."""
        return max(n for n in range(1, MOST_UNROLLED + 1) if self.steps % n == 0)

    @property
    def advance(self) -> int:
        """Bytes between the columns of neighbouring vectors."""
        return self.columns * self.stride * COLUMN

    @property
    def outputs(self) -> list[tuple[int, int]]:
        """Row and column of each output of a vector."""
        return [(i, j) for i in range(self.rows) for j in range(self.columns)]

    @property
    def row_sums(self) -> int:
        """Sums of a row of outputs."""
        return self.steps * self.columns * CHANNELS

    @property
    def strip_bytes(self) -> int:
        """Memory of a strip."""
        return self.pitch * COLUMN

    @property
    def scratch_bytes(self) -> int:
        """Memory of the strips, the sums and the factors of 16 channels."""
        return self.count * (self.strip_bytes + 4 * self.rows * self.row_sums) + 12 * CHANNELS


@schedule
@dataclass(frozen=True)
class QuantizedDepthwiseMve(QuantizedDepthwise):
    """See the module docstring."""

    id = "quantized.depthwise_mve"
    accepts = BYTES

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := super().why_not(graph, step, isa):
            return reason
        s = sizes(graph, step)
        if max(s.kh, s.kw) > SIDE or (s.dh, s.dw) != (1, 1):
            return f"more than {SIDE} rows or columns, or dilated"
        if s.sw > MOST_STRIDE:
            return f"a stride of more than {MOST_STRIDE}"
        if s.oc < CHANNELS:
            return f"fewer than {CHANNELS} channels"
        return why_not_mve(isa, graph.types[step.anchor.inputs[0]].dtype)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [{}]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s = sizes(graph, step)
        strips = Strips.of(s)
        number = -(-s.oh // strips.rows)
        vector = STEP + OUTPUT * len(strips.outputs)
        products = number * (strips.steps * vector + STEP) + CHANNEL * -(-number // strips.count)
        instructions = number * strips.read * PACK + CHANNELS * products + s.oh * s.ow * RESULTS
        return Estimate(len(group_starts(s.oc)) * instructions / isa.core.issue, 900.0)

    def kernel(self, job: Job) -> Kernel:
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        w = job.graph.constants[s.weight].reshape(s.kh, s.kw, s.oc)
        strips = Strips.of(s)
        finish = tile_finish(job, op, w.reshape(s.taps, s.oc), x.dtype)
        weights = ConstArray(f"{job.symbol}_w", pack_taps(w), "weights [channel][tap], 0")
        codes = codes_of(job.graph, job.step.anchor, job.isa, job.symbol)
        taps = Decoded.of(codes, weights, strips.scratch_bytes)
        code = render(
            "ops/quantized/depthwise_mve.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=True), s=s, x=x,
            y=job.output, finish=finish, symbol=job.symbol, p=strips, starts=group_starts(s.oc),
            flips=x.dtype is DType.UINT8, held=_clamped_as_bytes(finish), block=_block(),
            taps=taps,
        )  # fmt: skip
        layout = f"taps [output][column {SIDE}][row {SIDE}]"
        places = ConstArray(f"{job.symbol}_places", tap_places(s, strips), layout)
        return Kernel(
            finish.functions + code, (*taps.constants, places, *finish.constants),
            scratch_bytes=strips.scratch_bytes + taps.scratch_bytes, band=1,
        )  # fmt: skip


def group_starts(channels: int) -> list[int]:
    """The first channel of each 16; the last ones may overlap their neighbours."""
    return [min(start, channels - CHANNELS) for start in range(0, channels, CHANNELS)]


def pack_taps(w: NDArray[Any]) -> NDArray[Any]:
    """w[KH,KW,C] as the taps of each channel and a zero."""
    taps = w.reshape(-1, w.shape[-1]).T
    return np.pad(taps, ((0, 0), (0, 1))).ravel()


def tap_places(s: ConvShape, strips: Strips) -> NDArray[np.uint8]:
    """The tap that each number of a vector meets, for each output; the zero after them if none."""
    found = np.full((len(strips.outputs), SIDE, SIDE), s.taps, np.uint8)
    for places, (i, j) in zip(found, strips.outputs, strict=True):
        window = places[j * s.sw : j * s.sw + s.kw, i * s.sh : i * s.sh + s.kh]
        window[:] = np.arange(s.taps).reshape(s.kh, s.kw).T
    return found.ravel()


def _clamped_as_bytes(finish: AnyFinish) -> tuple[int, int, int] | None:
    """The zero point and the bounds of results that are clamped as bytes, if they may be."""
    if not isinstance(finish, Finish) or finish.op.result_dtype not in BYTES:
        return None
    return finish.held


def _block() -> VectorBlock:
    """The vectors of a pixel's sums."""
    vecs = tuple(Vec(start, 4, 4, start) for start in range(0, CHANNELS, 4))
    return VectorBlock(vecs, 0, CHANNELS, 0, 1)
