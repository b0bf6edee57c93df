"""Products of int16 by instructions that multiply and add pairs: pmaddwd, vpdpwssd, vmlal.

Two neighbouring k make one step: a vector of L columns holds L pairs of weights. They lie as
[block][k / 2][vector][pair by pair], on Arm as [block][k / 2][vector][first numbers, second ones].
An odd k ends with a pair whose second weight is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ops.shared.gemm import Block
from cannery.target.isa import Isa

#: Tiles (MR rows, NR vectors) by the number of vector registers: a step needs two more than
#: accumulators.
TILES = {
    8: ((1, 4), (2, 2), (1, 2), (1, 6), (3, 1)),
    16: ((1, 4), (1, 8), (2, 4), (3, 4), (4, 3), (6, 2), (2, 6), (4, 2)),
    32: ((1, 4), (1, 8), (2, 8), (4, 6), (6, 4), (8, 3), (12, 2), (4, 4), (3, 8)),
}  # fmt: skip


def pack_pairs(
    w: NDArray[Any], blocks: Sequence[Block], isa: Isa, columns: Sequence[int] | None = None
) -> NDArray[Any]:
    """w[K,N] as int16 in the order of the module's text; `columns` permutes them first."""
    ordered = w if columns is None else w[:, list(columns)]
    k, n = ordered.shape
    even = np.zeros((k + k % 2, n), np.int16)
    even[:k] = ordered
    pairs = even.reshape(-1, 2, n)
    panels = []
    for block in blocks:
        for number in range(block.count):
            channel = block.channel + number * block.valid
            vectors = []
            for v in block.vecs:
                part = np.zeros((len(pairs), 2, v.lanes), np.int16)
                first = channel + v.start
                part[:, :, : v.valid] = pairs[:, :, first : first + v.valid]
                vectors.append(part if isa.family == "arm" else part.transpose(0, 2, 1))
            panels.append(np.concatenate([v.reshape(len(pairs), -1) for v in vectors], axis=1))
    return np.concatenate([panel.ravel() for panel in panels])
