"""Weights as kernels with output channels in the lanes read them: panels of blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cannery.ops.conv.geometry import ConvShape, padded_bias
from cannery.ops.conv.pairs import pair_panel
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.schedule.schedule import ConstArray, Job
from cannery.target.isa import Isa


@cache
def cut_channels(
    channels: int, per_lane: int, isa: Isa, lanes: int, nr: int
) -> tuple[VectorBlock, ...]:
    """The blocks of this many output channels with `per_lane` weights each."""
    vectors = split_lanes(channels, isa, lanes)
    blocks: list[VectorBlock] = []
    weight = 0
    for at in range(0, len(vectors), nr):
        group = vectors[at : at + nr]
        first = group[0]
        vecs = tuple(
            Vec(v.start - first.start, v.lanes, v.valid, v.packed - first.packed) for v in group
        )
        width = sum(v.lanes for v in group)
        if blocks and blocks[-1].vecs == vecs and all(v.full for v in vecs):
            last = blocks[-1]
            blocks[-1] = VectorBlock(vecs, last.channel, width, last.weight, last.count + 1)
        else:
            blocks.append(VectorBlock(vecs, first.start, width, weight, 1))
        weight += width * per_lane
    return tuple(blocks)


def pack_weights(
    job: Job, shape: ConvShape, blocks: Sequence[VectorBlock], way: str
) -> tuple[ConstArray, ConstArray]:
    """Weights as [block][kh][kw][ic][lanes of the block], biases as [channel], zero-padded.

    `way` is how inputs are broadcast, see `pack_panels`.
    """
    packed = pack_panels(job.constant(shape.weight), blocks, way, job.isa)
    weights = ConstArray(
        f"{job.symbol}_w", packed, "weights [block][kh][kw][ic][lanes]", is_weights=True
    )
    return weights, padded_bias(job, shape)


def pack_panels(
    w: NDArray[np.float32], blocks: Sequence[VectorBlock], way: str, isa: Isa
) -> NDArray[np.float32]:
    """w[kh,kw,ic,oc] as one row [block][kh][kw][ic][lanes of the block], zero-padded.

    `way` is how inputs are broadcast. For rotate, the weight of lane l at channel 4g+r is that of
    channel 4g+(l+r)%4; for slide, at channel c that of channel c+l, where the first channels follow
    the last four; for pairs see `pair_panel`.
    """
    panels: list[NDArray[np.float32]] = []
    for block in blocks:
        for k in range(block.count):
            channel = block.channel + k * sum(v.valid for v in block.vecs)
            panel = np.zeros((*w.shape[:3], block.width), np.float32)
            for v in block.vecs:
                source = w[..., channel + v.start : channel + v.start + v.valid]
                panel[..., v.packed : v.packed + v.valid] = source
            if way == "pairs":
                panel = pair_panel(panel, block.vecs, isa)
            panels.append(_turned(panel, way).reshape(-1))
    return np.concatenate(panels)


def _turned(panel: NDArray[np.float32], way: str) -> NDArray[np.float32]:
    """The weights that meet the inputs in each lane."""
    if way not in ("rotate", "slide"):
        return panel
    turned, lane, fours = np.array(panel), np.arange(panel.shape[-1]) % 4, panel.shape[2] // 4 * 4
    for c in range(fours):
        met = (c + lane) % fours if way == "slide" else c - c % 4 + (c + lane) % 4
        turned[:, :, c] = panel[:, :, met, np.arange(panel.shape[-1])]
    return turned
