"""How recurrent weights are packed: gates side by side in each block of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm
from cannery.ops.shared import gemm
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.target.isa import Isa

#: Accumulators that hide the latency of sums.
FEW = 8


@dataclass(frozen=True)
class Tunables:
    """Blocks of `nr` vectors of cells, `split` and `unroll` as in `matmul.dense_n`.

    `zigzag`: weights are read back and forth; `together`: both directions at once.
    """

    lanes: int
    nr: int
    split: int
    broadcast: str
    unroll: int
    zigzag: bool = False
    together: bool = False


@dataclass(frozen=True)
class Pass:
    """One product of a vector of cells with the weights of some gates.

    `added` are the gates whose sums begin with the projected input; the sums of the others are
    needed before it is added.
    """

    label: str
    gates: tuple[int, ...]
    added: tuple[int, ...]


def passes_of(op: Recurrent) -> tuple[Pass, ...]:
    """The products of one step, in order."""
    if isinstance(op, Lstm):
        gates = (0, 1, 3) if op.coupled else (0, 1, 2, 3)
        return (Pass("w", gates, gates),)
    if isinstance(op, Gru) and op.linear_before_reset:
        return (Pass("w", (0, 1, 2), (0, 1)),)
    if isinstance(op, Gru):
        return (Pass("w", (0, 1), (0, 1)), Pass("v", (2,), (2,)))
    return (Pass("w", (0,), (0,)),)


def cell_blocks(op: Recurrent, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    """The cells cut into blocks of NR vectors."""
    return gemm.make_blocks(op.cells, isa, t.lanes, t.nr, op.cells)


def gate_blocks(op: Recurrent, part: Pass, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    """The same blocks with the vectors of all gates: gate by gate, `len(vecs) / gates` of each."""
    return with_gates(cell_blocks(op, t, isa), len(part.gates))


def with_gates(cells: Sequence[VectorBlock], count: int) -> tuple[VectorBlock, ...]:
    """Blocks of cells with the vectors of `count` gates, one gate after the other."""
    found = []
    for block in cells:
        vecs = tuple(
            Vec(g * block.valid + v.start, v.lanes, v.valid, g * block.width + v.packed)
            for g in range(count)
            for v in block.vecs
        )
        found.append(
            VectorBlock(vecs, count * block.channel, count * block.width, count * block.weight,
                  block.count)
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True)
class Sums:
    """How the sums of a block of cells are computed: `block` has its vectors.

    If few cells are left, gates that are side by side in memory share wider vectors. `pieces` are
    then the C expressions of the vectors of the cells, gate by gate; otherwise it is empty.
    """

    cell: VectorBlock
    block: VectorBlock
    pieces: tuple[str, ...]

    def gemm(self, g: Gemm) -> Gemm:
        """How the blocks walk; few vectors take more sets of accumulators, to hide latency."""
        if not self.pieces:
            return g
        split = min(max(g.split, FEW // len(self.block.vecs)), g.k)
        return replace(g, split=split, unroll=max(g.unroll, split))


def sums_of(op: Recurrent, part: Pass, t: Tunables, isa: Isa) -> tuple[Sums, ...]:
    """The sums of a pass, block by block."""
    cells, blocks = cell_blocks(op, t, isa), gate_blocks(op, part, t, isa)
    # A layer of one block waits for its own outputs, and longer if vectors must be cut.
    shared = t.broadcast == "set1" and isa.widest > 4 and len(cells) > 1
    found = []
    for cell, block in zip(cells, blocks, strict=True):
        wide = wide_vectors(block, isa) if shared and len(cell.vecs) == 1 else block.vecs
        if len(wide) == len(block.vecs):
            found.append(Sums(cell, block, ()))
        else:
            lanes = cell.vecs[0].lanes
            pieces = [p for n, v in enumerate(wide) for p in pieces_of(f"a0_{n}", v.lanes, lanes)]
            found.append(Sums(cell, replace(block, vecs=wide), tuple(pieces)))
    return tuple(found)


def wide_vectors(block: VectorBlock, isa: Isa) -> tuple[Vec, ...]:
    """Equal neighbours joined to the widest vectors that they fill."""
    left, found = list(block.vecs), []
    while left:
        lanes = max(w for w in isa.lanes if left[0].lanes <= w <= left[0].lanes * len(left))
        found.append(Vec(left[0].packed, lanes, lanes, left[0].packed))
        left = left[lanes // left[0].lanes :]
    return tuple(found)


def pieces_of(name: str, lanes: int, narrow: int, element: str = "f32") -> list[str]:
    """A vector cut into narrower ones, as C expressions."""
    if lanes == narrow:
        return [name]
    halves = (f"{element}x{lanes}_{half}({name})" for half in ("lo", "hi"))
    return [piece for half in halves for piece in pieces_of(half, lanes // 2, narrow, element)]


def block_weights(
    op: Recurrent, part: Pass, blocks: Sequence[VectorBlock], r: NDArray[np.float32], *, rotate: int
) -> NDArray[np.float32]:
    """r[H,G*H] as [block][k][gate][lanes]."""
    columns = gate_columns(op.cells, part.gates, blocks)
    return gemm.pack_blocks(np.ascontiguousarray(r[:, columns]), blocks, rotate=rotate)


def gate_columns(cells: int, gates: Sequence[int], blocks: Sequence[VectorBlock]) -> list[int]:
    """The columns of r[H,G*H] in the order of blocks with the vectors of some gates."""
    columns: list[int] = []
    for block in blocks:
        valid = block.valid // len(gates)
        for number in range(block.count):
            first = block.channel // len(gates) + number * valid
            columns += [gate * cells + first + i for gate in gates for i in range(valid)]
    return columns
