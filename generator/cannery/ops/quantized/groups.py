"""Products of integers by instructions that multiply and add groups of two or four.

int16: pairs (pmaddwd, vpdpwssd, vmlal); int8: fours (pmaddubsw, vpdpbusd, sdot). So many
neighbouring k make one step, and a vector of L columns holds L groups of weights. They lie as
[block][k / group][vector][group by group], for pairs on Arm as [..][vector][first, second numbers].
A last group that is not full ends with weights of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.shared.gemm import Block
from cannery.schedule.cost import CORE
from cannery.target.isa import Isa

#: Tiles (MR rows, NR vectors) by the number of vector registers: a step needs two more than
#: accumulators.
TILES = {
    8: ((1, 4), (2, 2), (1, 2), (1, 6), (3, 1)),
    16: ((1, 4), (1, 8), (2, 4), (3, 4), (4, 3), (6, 2), (2, 6), (4, 2)),
    32: ((1, 4), (1, 8), (2, 8), (4, 6), (6, 4), (8, 3), (12, 2), (4, 4), (3, 8)),
}  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """The groups of an element type: their size, and the words of the vocabulary for them."""

    dtype: DType

    @property
    def size(self) -> int:
        return {DType.INT16: 2, DType.INT8: 4}[self.dtype]

    @property
    def t(self) -> str:
        """The prefix of the type of vectors."""
        return {DType.INT16: "p16", DType.INT8: "q8"}[self.dtype]

    @property
    def dot(self) -> str:
        """The word that multiplies and adds."""
        return {DType.INT16: "dot", DType.INT8: "dot4"}[self.dtype]

    @property
    def c(self) -> str:
        """The C type of an element."""
        return self.dtype.c_name

    @property
    def store(self) -> str:
        """The word that rounds floats and stores them."""
        return {DType.INT8: "store_i8", DType.INT16: "store_s16"}[self.dtype]

    def padded(self, k: int) -> int:
        """K in whole groups."""
        return -(-k // self.size) * self.size

    def work(self, isa: Isa) -> float:
        """Arithmetic instructions of one group of a vector."""
        if self.dtype is DType.INT16:
            return 1.0 if isa.family == "x86" and isa.has("dot4_u8s8") else 2.0
        if isa.has("dot4_u8s8"):
            return 1.0 if isa.family == "arm" else 2.0
        return 4.0 if isa.family == "x86" else 6.0

    def tile_cycles(self, isa: Isa, mr: int, nr: int, k: float) -> float:
        """Cycles of a register tile over k."""
        broadcast = 2.0 if isa.family == "x86" and isa.widest == 4 else 1.0
        work = self.work(isa) * mr * nr + (broadcast - 1.0) * mr
        loads = float(mr + nr)
        spills = max(mr * nr + nr + 1 - isa.registers, 0)
        update = max(
            work / 2.5, (loads + 2 * spills) / CORE.loads, (work + loads) / CORE.issue, 2.0
        )
        return k / self.size * update + 4.0


def pack_groups(
    w: NDArray[Any], blocks: Sequence[Block], isa: Isa, columns: Sequence[int] | None = None
) -> NDArray[Any]:
    """w[K,N] in the order of the module's text; `columns` permutes them first."""
    ordered = w if columns is None else w[:, list(columns)]
    groups = Groups(DType(w.dtype.name))
    k, n = ordered.shape
    whole = np.zeros((groups.padded(k), n), w.dtype)
    whole[:k] = ordered
    cut = whole.reshape(-1, groups.size, n)
    apart = isa.family == "arm" and groups.dtype is DType.INT16
    panels = []
    for block in blocks:
        for number in range(block.count):
            channel = block.channel + number * block.valid
            vectors = []
            for v in block.vecs:
                part = np.zeros((len(cut), groups.size, v.lanes), w.dtype)
                first = channel + v.start
                part[:, :, : v.valid] = cut[:, :, first : first + v.valid]
                vectors.append(part if apart else part.transpose(0, 2, 1))
            panels.append(np.concatenate([v.reshape(len(cut), -1) for v in vectors], axis=1))
    return np.concatenate([panel.ravel() for panel in panels])
