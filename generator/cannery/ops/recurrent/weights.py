"""How recurrent weights are packed: gates side by side in each block of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm
from cannery.ops.shared import gemm
from cannery.ops.shared.gemm import Block
from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import Params
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Pass:
    """One product of a vector of cells with the weights of some gates.

    `added` are the gates whose sums begin with the projected input; those of the others are
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


def cell_blocks(op: Recurrent, params: Params, isa: Isa) -> tuple[Block, ...]:
    """The cells cut into blocks of NR vectors."""
    return gemm.make_blocks(op.cells, isa, int(params["lanes"]), int(params["nr"]), op.cells)


def gate_blocks(op: Recurrent, part: Pass, params: Params, isa: Isa) -> tuple[Block, ...]:
    """The same blocks with the vectors of all gates: gate by gate, `len(vecs) / gates` of each."""
    count = len(part.gates)
    found = []
    for block in cell_blocks(op, params, isa):
        vecs = tuple(
            Vec(g * block.valid + v.start, v.lanes, v.valid, g * block.width + v.packed)
            for g in range(count)
            for v in block.vecs
        )
        found.append(
            Block(vecs, count * block.channel, count * block.width, count * block.weight,
                  block.count)
        )  # fmt: skip
    return tuple(found)


def block_weights(
    op: Recurrent, part: Pass, blocks: Sequence[Block], r: NDArray[np.float32], *, rotate: int
) -> NDArray[np.float32]:
    """r[H,G*H] as [block][k][gate][lanes]."""
    h, count = op.cells, len(part.gates)
    columns: list[int] = []
    for block in blocks:
        cells = block.valid // count
        for number in range(block.count):
            first = block.channel // count + number * cells
            columns += [gate * h + first + i for gate in part.gates for i in range(cells)]
    return gemm.pack_blocks(np.ascontiguousarray(r[:, columns]), blocks, rotate=rotate)
