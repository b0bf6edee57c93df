"""Products of bytes by Arm's DSP extension: tiles whose numbers became pairs of int16 before.

`vec_dsp.h` says how numbers and weights lie: a tile is two rows times two outputs, or one row times
four. Weights stay bytes, [outputs of a tile][group of four k][output][4]; a rest of outputs has
tiles as wide as it is. Rows are widened once, for all outputs, so the cost of that vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.quantized.arithmetic import BYTES, LARGEST_SUM, largest_sums
from cannery.ops.quantized.codes import Codes, codes_of, packed_weights
from cannery.ops.quantized.finish import AnyFinish, make_finish
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.quantized.ways import value_range
from cannery.schedule.schedule import ConstArray, Estimate, Job
from cannery.target.isa import Isa

#: How many numbers k make one group.
GROUP = 4

#: Sums of joined weights are this many times as large.
JOINED = 256

#: Instructions for a group: of a tile without its products of odd numbers, and to widen one.
TILE, WIDEN = 12.5, 5.5

#: Instructions for a group of a tile whose weights are codes, by its rows.
CODED = {1: 27.0, 2: 18.5}

#: Instructions for each result, and for each tile.
RESULT, SETUP = 10.0, 24.0

#: Scales below this might lose bits if divided by JOINED.
LEAST_SCALE = 2.0**-100


def why_not_dsp(isa: Isa, dtype: DType) -> str:
    """Why no such tile is possible; empty if it is."""
    if not isa.has("dsp"):
        return "needs Arm's DSP extension"
    return "" if dtype in BYTES else f"not for {dtype.value}"


@dataclass(frozen=True)
class Tiles:
    """The tiles of a product with weights w[K,N]: `rows` rows times `outputs` outputs.

    `joined`: see vec_dsp.h. `codes`: weights are codes, of which pairs have a table.
    """

    rows: int
    k: int
    n: int
    signed: bool
    joined: bool
    codes: Codes | None = None

    @property
    def outputs(self) -> int:
        """Outputs of a tile."""
        return 2 if self.rows > 1 else 4

    @property
    def groups(self) -> int:
        """Groups of k, the last one filled with zeros."""
        return -(-self.k // GROUP)

    @property
    def whole(self) -> int:
        """Outputs of whole tiles."""
        return self.n - self.n % self.outputs

    @property
    def rest(self) -> int:
        """The outputs after them."""
        return self.n % self.outputs

    @property
    def column_words(self) -> int:
        """Words of the widened rows."""
        return self.groups * self.rows * GROUP // 2

    @property
    def scratch_bytes(self) -> int:
        """Memory of the widened rows, and of the table of pairs of weights."""
        pairs = 4**self.codes.bits if self.codes else 0
        return 4 * (self.column_words + pairs)

    @property
    def weight_type(self) -> str:
        """The C type of a weight, or of some codes."""
        return "uint8_t" if self.codes else "int8_t"

    def stored(self, outputs: int) -> int:
        """Bytes of the weights of so many outputs."""
        return GROUP * self.groups * outputs // (self.codes.per_byte if self.codes else 1)

    def call(self, rows: int, outputs: int) -> str:
        """The C expression that adds the products of a tile to `sums`."""
        word, how = "cannery", f"columns, wp, {self.groups}, {int(self.joined)}"
        if self.codes:
            word, how = "cannery_coded", f"columns, wp, {self.groups}, {self.codes.bits}, pairs"
        if (rows, outputs) in ((2, 2), (1, 4)):
            return f"{word}_tile{rows}x{outputs}({how}, sums)"
        return f"{word}_{'' if self.codes else 'tile_'}rest({how}, {rows}, {outputs}, sums)"

    def packed(self, w: NDArray[Any]) -> NDArray[Any]:
        """w[K,N] as the module docstring says."""
        padded = np.zeros((self.groups * GROUP, self.n), np.int8)
        padded[: self.k] = w
        groups = padded.reshape(self.groups, GROUP, self.n).transpose(0, 2, 1)
        if self.joined:
            groups = joined_bytes(groups)
        if self.codes:
            groups = groups[..., [0, 2, 1, 3]]
        starts = range(0, self.n, self.outputs)
        parts = [groups[:, first : first + self.outputs].ravel() for first in starts]
        return np.concatenate(parts)

    def instructions(self, row_count: float) -> float:
        """About how many it takes for this many rows."""
        blocks = -(-self.n // self.outputs)
        one = TILE + (0.0 if self.joined else 2.0 * self.outputs / self.rows)
        one = CODED[self.rows] if self.codes else one
        tile = self.groups * one + SETUP
        widened = self.groups * self.rows * WIDEN
        return row_count / self.rows * (blocks * tile + widened) + row_count * self.n * RESULT


def joined_bytes(groups: NDArray[Any]) -> NDArray[Any]:
    """[..., 4] weights, of which each two become the bytes of 256 w1 + w0."""
    pairs = groups.reshape(*groups.shape[:-1], 2, 2).astype(np.int16)
    joined = pairs[..., 0] + JOINED * pairs[..., 1]
    return np.ascontiguousarray(joined.astype("<i2")).view(np.int8).reshape(groups.shape)


def make_tiles(job: Job, w: NDArray[Any], rows: int) -> Tiles:
    """The tiles for the step's weights as w[K,N], of up to two rows."""
    x = job.step.anchor.inputs[0]
    signed = job.type(x).dtype is DType.INT8
    codes = codes_of(job.graph, job.step.anchor, job.isa, job.symbol)
    joined = not codes and not job.graph.weights_vary and _may_join(job, w)
    k, n = w.shape
    return Tiles(min(rows, 2), k, n, signed, joined, codes)


def _may_join(job: Job, w: NDArray[Any]) -> bool:
    """Whether no joined number or weight exceeds int16, no sum int32, and no scale gets lost."""
    op, anchor = job.step.anchor.op, job.step.anchor
    assert isinstance(op, QuantizedProduct)
    low, high = value_range(job.graph, anchor.inputs[0])
    if op.is_sum or op.held is not None or low < -127 or high > 127 or w.min(initial=0) < -127:
        return False
    scale, _, _, start = (*anchor.inputs[2:], "", "", "", "")[:4]
    sums = largest_sums(w, 127)
    if start:
        sums = sums + np.abs(job.graph.constants[start].astype(np.int64))
    least = np.abs(job.constant(scale)).min(initial=1.0)
    return bool(sums.max(initial=0) * JOINED <= LARGEST_SUM and least >= LEAST_SCALE)


def tile_finish(job: Job, op: QuantizedProduct, w: NDArray[Any], tiles: Tiles) -> AnyFinish:
    """What follows the sums of these tiles."""
    start = np.zeros(w.shape[-1], np.int64)
    return make_finish(job, op, w, start, JOINED if tiles.joined else 1)


def tile_weights(job: Job, w: NDArray[Any], tiles: Tiles) -> tuple[ConstArray, ...]:
    """The packed weights, and the table of their levels if they are codes."""
    what = "joined weights" if tiles.joined else "weights"
    name, layout = f"{job.symbol}_w", f"{what} [tile][k / 4][output][4]"
    packed = ConstArray(name, tiles.packed(w), layout)
    if tiles.codes is None:
        return (packed,)
    codes, *_ = packed_weights(tiles.codes, packed)
    return codes, tiles.codes.table


def estimate(isa: Isa, instructions: float, code_bytes: float) -> Estimate:
    """The cost of that many instructions."""
    return Estimate(instructions / isa.core.issue, code_bytes)
