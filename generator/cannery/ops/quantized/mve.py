"""Products of integers by Arm's M-profile vector extension (Helium), 16 bytes at a time.

VMLADAVA adds the products of two vectors, 16 of bytes or 8 of int16, to a sum in a core register.
A tile is some rows (pixels) times some outputs, whose sums stay in registers: seven of them can
take one. Weights lie as [tile of outputs][run][vector][output][16 bytes]; a run is what lies in one
piece in the input: a row of a window, or a row of a matrix. Weights of 0 fill the last vector of a
run, and the last tile. The sums of all outputs of some rows are stored, and then scaled as vectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.quantized.arithmetic import STORED
from cannery.ops.quantized.codes import Codes
from cannery.ops.quantized.finish import AnyFinish, make_finish
from cannery.ops.quantized.groups import Way
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.shared.gemm import VectorBlock, make_blocks
from cannery.schedule.schedule import ConstArray, Estimate, Job
from cannery.target.isa import Isa

#: Rows and outputs of tiles.
SHAPES = ((1, 4), (1, 6), (2, 2), (2, 3), (3, 2))

#: Rows of tiles that look up weights.
MOST_WITH_TABLE = 2

#: The names of types in the words of vec_mve.h, and of their vectors in C.
NAMES = {DType.INT8: "i8", DType.UINT8: "u8", DType.INT16: "s16"}
VECTORS = {"i8": "int8x16_t", "u8": "uint8x16_t", "s16": "int16x8_t"}

#: Bytes of a vector.
VECTOR = 16

#: So many vectors, of all runs or of one, are written out; more are a loop.
WRITTEN_OUT, RUN_WRITTEN_OUT = 12, 8

#: Instructions: to enter a loop and for each of its passes, for the results of a vector.
LOOP, RESULTS = 3.0, 12.0

#: Instructions to make a vector of weights of their codes; the same by a table, as long as several:
#: it is read byte by byte.
DECODED, LOOKED_UP = 1.0, 8.0

#: Instructions to copy a vector, and a part of one.
COPY = 4.0


def why_not_mve(isa: Isa, dtype: DType) -> str:
    """Why no such tile is possible; empty if it is."""
    if not isa.has("mve"):
        return "needs Arm's Helium"
    return "" if dtype in STORED else f"not for {dtype.value}"


@dataclass(frozen=True)
class Places:
    """Where runs begin: `across` of them in a row, `col` apart, the rows `row` apart."""

    across: int = 1
    row: int = 0
    col: int = 0

    def offset(self, run: int) -> int:
        """The place of a run."""
        return run // self.across * self.row + run % self.across * self.col

    def expression(self, run: str) -> str:
        """The same in C."""
        if self.across == 1:
            return f"{run} * {self.row}"
        return f"{run} / {self.across} * {self.row} + {run} % {self.across} * {self.col}"


@dataclass(frozen=True)
class Tiles:
    """The tiles of a product with weights w[K,N]: `rows` rows times `outputs` outputs.

    K are `runs` of `size` numbers each. `slack`: as many numbers after a run may be read. With
    `codes`, neighbouring vectors of weights that are written out together share 16 bytes.
    """

    rows: int
    outputs: int
    n: int
    runs: int
    size: int
    dtype: DType
    slack: int = 0
    codes: Codes | None = None

    @property
    def name(self) -> str:
        """The name of the inputs' type."""
        return NAMES[self.dtype]

    @property
    def weight_type(self) -> str:
        """The C type of a weight."""
        if self.codes:
            return "uint8_t"
        return "int16_t" if self.dtype is DType.INT16 else "int8_t"

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return 8 * self.dtype.bytes

    @property
    def letter(self) -> str:
        """What loads of such numbers are called by."""
        return "h" if self.dtype is DType.INT16 else "b"

    @property
    def flips(self) -> bool:
        """Whether the highest bit of each input is flipped, which makes it signed."""
        return self.dtype is DType.UINT8

    @property
    def looks_up(self) -> bool:
        """Whether weights come from a table."""
        return self.codes is not None and not self.codes.plain

    @property
    def step(self) -> int:
        """Numbers of a vector."""
        return VECTOR // self.dtype.bytes

    @property
    def vectors(self) -> int:
        """Vectors of a run."""
        return -(-self.size // self.step)

    @property
    def tail(self) -> int:
        """Numbers of a run in its last vector, if none may be read after them; 0: a whole one."""
        over = -self.size % self.step
        return self.step - over if over > self.slack else 0

    @property
    def looped(self) -> bool:
        """Whether there is a loop over the runs."""
        return self.runs > 1 and self.runs * self.vectors > WRITTEN_OUT

    @property
    def passes(self) -> int:
        """Passes of a loop over pairs of whole vectors of a run; 0: they are written out."""
        return (self.vectors - bool(self.tail)) // 2 if self.vectors > RUN_WRITTEN_OUT else 0

    @property
    def blocks(self) -> int:
        """Tiles of outputs."""
        return -(-self.n // self.outputs)

    @property
    def pitch(self) -> int:
        """Sums of a row: whole tiles, and whole vectors of results."""
        return -(-max(self.blocks * self.outputs, self.n) // 4) * 4

    @property
    def gathered(self) -> Tiles:
        """The same where the runs were copied one after the other."""
        return replace(self, runs=1, size=self.runs * self.size, slack=self.step)

    @property
    def columns(self) -> int:
        """Numbers of a row that was copied, and what may be written after them."""
        return self.vectors * self.step + self.step

    @property
    def sum_bytes(self) -> int:
        """Memory of the sums."""
        return 4 * self.rows * self.pitch

    def packed(self, w: NDArray[Any]) -> NDArray[Any]:
        """w[K,N] as the module docstring says."""
        whole = np.zeros((self.runs, self.vectors * self.step, self.blocks * self.outputs), w.dtype)
        whole[:, : self.size, : self.n] = w.reshape(self.runs, self.size, self.n)
        cut = whole.reshape(self.runs, self.vectors, self.step, self.blocks, self.outputs)
        ordered = np.ascontiguousarray(cut.transpose(3, 0, 1, 4, 2))
        return self._coded(ordered) if self.codes else ordered.ravel()

    def _coded(self, w: NDArray[Any]) -> NDArray[np.uint8]:
        """w[tile, run, vector, output, 16] as codes, piece by piece of what is written out."""
        assert self.codes
        per, runs = self.codes.per_byte, w.reshape(-1, self.vectors, self.outputs, VECTOR)
        ends = [*range(0, 2 * self.passes, 2), 2 * self.passes, self.vectors]
        pieces = []
        for first, end in pairwise(ends):
            codes = self.codes.encoded(runs[:, first:end]).reshape(len(runs), -1, VECTOR)
            codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % per), (0, 0)))
            parts = codes.reshape(len(runs), codes.shape[1] // per, per, VECTOR)
            pieces.append(self.codes.joined([parts[:, :, k] for k in range(per)]))
        return np.concatenate(pieces, axis=1).ravel()

    def decoding(self, item: int, to: int) -> list[str]:
        """Instructions that make vector number `item` of a piece, in register `to`; q4 keeps the
        codes and q5 their places in the table.
        """
        assert self.codes
        bits, k = self.codes.bits, item % self.codes.per_byte
        lines = [] if k else ["vldrb.8 q4, [%[wp]], #16"]
        left, right = 8 - bits - bits * k, bits * k
        if self.codes.plain:
            lines += [f"vshl.i8 q{to}, q4, #{left}"] if left else []
            return [*lines, f"vshr.s8 q{to}, q{to if left else 4}, #{8 - bits}"]
        lines += [f"vshr.u8 q5, q4, #{right}"] if right else []
        lines += [f"vand q5, q{5 if right else 4}, %q[mask]"] if left else []
        return [*lines, f"vldrb.u8 q{to}, [%[levels], q5]"]

    def instructions(self, row_count: float) -> float:
        """About how many it takes for this many rows."""
        each = float(self.rows + self.outputs + self.rows * self.outputs)
        if self.codes:
            each += (DECODED if self.codes.plain else LOOKED_UP) * self.outputs
        if self.dtype is DType.UINT8:
            each += self.rows
        if self.tail:
            each += 3.0 * self.rows / self.vectors
        run = self.vectors * each + self.rows + (LOOP + self.passes if self.passes else 0.0)
        tile = self.runs * run + (LOOP + self.runs if self.looped else 0.0)
        tile += 2.0 * self.rows * self.outputs + self.rows + LOOP
        results = -(-self.n // 4) * (self.rows * RESULTS + LOOP)
        return -(-row_count // self.rows) * (self.blocks * tile + results + 2.0 * LOOP)

    def estimate(self, isa: Isa, row_count: float, more: float = 0.0) -> Estimate:
        """The cost for this many rows, with so many instructions more."""
        written = min(self.runs * self.vectors, WRITTEN_OUT) * self.rows * self.outputs
        instructions = self.instructions(row_count) + more
        return Estimate(instructions / isa.core.issue, 8.0 * written + 400.0)


def tile_shapes(rows: int, n: int, codes: Codes | None) -> list[tuple[int, int]]:
    """The tiles for so many rows and outputs. A table takes a register of those for rows."""
    looks_up = codes is not None and not codes.plain
    shapes = [s for s in SHAPES if s[0] <= MOST_WITH_TABLE or not looks_up]
    found = ((min(mr, rows), min(nr, n)) for mr, nr in shapes)
    return list(dict.fromkeys(found))


def tile_finish(job: Job, op: QuantizedProduct, w: NDArray[Any], dtype: DType) -> AnyFinish:
    """What follows the sums with weights w[K,N] of inputs of this type."""
    flipped = Way("", flip=dtype is DType.UINT8)
    return make_finish(job, op, w, flipped.starts(w, dtype))


def tile_weights(job: Job, w: NDArray[Any], tiles: Tiles) -> tuple[ConstArray, ...]:
    """The packed weights, and the table of their codes if it is read."""
    layout = f"weights [tile][run][vector][output {tiles.outputs}][{tiles.step}]"
    if tiles.codes:
        layout = f"codes of {tiles.codes.bits} bits: {layout}, vectors share bytes"
    packed = ConstArray(f"{job.symbol}_w", tiles.packed(w), layout)
    return (packed, tiles.codes.table) if tiles.codes and not tiles.codes.plain else (packed,)


def result_blocks(n: int, isa: Isa) -> Iterable[VectorBlock]:
    """The vectors of results."""
    return make_blocks(n, isa, 4, 1, 1)
