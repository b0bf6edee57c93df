"""Weights for kernels with pixels or tiles in the lanes: each is broadcast to all lanes.

`broadcast` says how: load1 (a scalar from memory), splat (stored once per lane, a plain vector
load: for SSE, which has no broadcast from memory) or lane (four are loaded, and multiplied by lane:
NEON); dual and beside are lane in an order for processors in order, see `cannery.ctext.in_order`.
The C side is ops/conv/panels.c.j2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ops.shared.dual import ORDERS
from cannery.schedule.cost import (
    broadcast_work,
    busy_cycles,
    load_way,
    mac_instructions,
    tile_cycles,
    waiting_cycles,
)
from cannery.schedule.schedule import ConstArray
from cannery.target.isa import Isa


@dataclass(frozen=True)
class PanelBlock:
    """`count` neighbouring groups of `n` output channels from `channel` on.

    `weight` is the offset of the first group's weights.
    """

    n: int
    channel: int
    weight: int
    count: int


@dataclass(frozen=True)
class Panels:
    """Output channels in groups of at most `c`, with `k` weights each.

    The weights of one group are stored as [k][n], where each of the n takes `copies` elements and a
    row is padded to `row(n)` elements.
    """

    channels: int
    c: int
    k: int
    broadcast: str
    lanes: int

    @property
    def copies(self) -> int:
        """How often each weight is stored."""
        return self.lanes if self.broadcast == "splat" else 1

    @property
    def bytes(self) -> float:
        """The elements of all weights, without padding."""
        return 4.0 * self.k * self.channels * self.copies

    @property
    def stored_bytes(self) -> float:
        """The same, with padding."""
        return 4.0 * self.k * sum(block.count * self.row(block.n) for block in self.blocks)

    def row(self, n: int) -> int:
        """Stored elements of `n` weights that are used together."""
        return -(-n // 4) * 4 if self.by_lane else n * self.copies

    @property
    def by_lane(self) -> bool:
        """Whether four weights are loaded at once, and multiplied by lane."""
        return self.broadcast in ("lane", *ORDERS)

    @property
    def blocks(self) -> list[PanelBlock]:
        """The full groups, which a loop walks, then the rest."""
        c = min(self.c, self.channels)
        full, rest = divmod(self.channels, c)
        blocks = [PanelBlock(c, 0, 0, full)]
        if rest:
            blocks.append(PanelBlock(rest, full * c, full * self.k * self.row(c), 1))
        return blocks

    def pack(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """weights[k, channels] in the order of the blocks, as one row."""
        found: list[NDArray[np.float32]] = []
        for block in self.blocks:
            for number in range(block.count):
                first = block.channel + number * block.n
                panel = np.repeat(weights[:, first : first + block.n], self.copies, axis=1)
                padded = np.zeros((self.k, self.row(block.n)), np.float32)
                padded[:, : panel.shape[1]] = panel
                found.append(padded.reshape(-1))
        return np.concatenate(found)


def broadcasts(isa: Isa, lanes: int) -> list[str]:
    """The ways worth trying, likeliest first."""
    if isa.multiplies_by_lane(lanes):
        return ["lane", "load1"]
    return ["splat", "load1"] if lanes == 4 and not isa.has("fma") else ["load1"]


def bias_array(symbol: str, values: NDArray[np.float32] | None, channels: int) -> ConstArray:
    """`<symbol>_b`: the bias per channel, zeros if there is none."""
    bias = np.zeros(channels, np.float32) if values is None else values
    return ConstArray(f"{symbol}_b", bias, "bias [oc]")


def update_cycles(
    isa: Isa, panels: Panels, n: int, p: int, load: float = 1.0, *, pairs: bool = False
) -> float:
    """Cycles of one rank-1 update of `p` vectors x `n` channels.

    `load` is what reading one of the vectors costs, in load slots; `pairs`: each is shuffled out of
    two. Vectors of 64 bytes are shuffled by a pipeline that multiplies.
    """
    macs = p * n
    busy = macs + (p if pairs and panels.lanes == 16 else 0)
    arithmetic = macs * mac_instructions(isa)
    if isa.family == "x86" and not isa.has("fma"):
        arithmetic += isa.rates().copies * macs + (
            n if panels.broadcast == "load1" and panels.lanes > 1 else 0
        )
    each = broadcast_work(isa, "set1")[0] if panels.broadcast == "load1" else 1.0
    loads = p * load + n * (0.25 if panels.by_lane else each)
    held = p if n > 1 else 1  # with one channel, vectors are memory operands
    spilled = max(macs + held + 1 - isa.registers, 0)
    busy_for = busy_cycles(isa, arithmetic, loads, lanes=panels.lanes, macs=busy)
    if panels.broadcast in ORDERS:
        return tile_cycles(isa, n, p, loads, 1.0, broadcast=panels.broadcast)
    waiting = waiting_cycles(isa, macs, isa.registers - macs - held)
    return max(busy_for, waiting) + spilled + load_way(isa).waits


def periodic_mask(keep: Sequence[bool], length: int) -> NDArray[np.int32]:
    """All bits set where `keep`, repeated to `length` elements."""
    wanted = np.asarray(keep)[np.arange(length) % len(keep)]
    return np.where(wanted, -1, 0).astype(np.int32)
