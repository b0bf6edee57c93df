"""Attention: one value for all three inputs or several, masks, odd sizes, heads apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.attention.op import Attention, HeadChannels
from ops.cases import Net, add_case


@dataclass(frozen=True)
class _Size:
    """Samples, queries, keys, heads, channels of a head of q and k, and of v."""

    samples: int
    queries: int
    keys: int
    heads: int
    size: int
    values: int
    mask: str = ""
    scale: float = 0.5
    softcap: float = 0.0


SIZES = {
    "joint": _Size(1, 13, 13, 2, 8, 8),
    "joint_plain": _Size(1, 29, 29, 1, 16, 16, scale=1.0),
    "batch": _Size(2, 7, 7, 3, 5, 5),
    "one_query": _Size(1, 1, 37, 2, 4, 6),
    "one_key": _Size(1, 5, 1, 2, 3, 4),
    "few_keys": _Size(1, 9, 3, 1, 7, 9),
    "long": _Size(1, 6, 131, 1, 12, 20),
    "cross": _Size(2, 11, 17, 2, 6, 10),
    "masked": _Size(2, 11, 17, 2, 6, 10, "rows"),
    "causal": _Size(1, 23, 23, 2, 9, 9, "causal"),
    "computed_mask": _Size(1, 10, 21, 2, 4, 4, "computed"),
    "mask_of_keys": _Size(2, 5, 19, 3, 4, 4, "keys"),
    "capped": _Size(1, 9, 21, 2, 5, 6, softcap=1.5),
    "capped_masked": _Size(2, 9, 16, 2, 8, 8, "rows", softcap=20.0),
    "no_key_left": _Size(2, 7, 19, 2, 4, 5, "none"),
}

#: Scores whose exponentials no float holds.
FAR = _Size(1, 9, 14, 2, 8, 6, scale=150.0)


def _mask(net: Net, s: _Size) -> list[str]:
    """The fourth input."""
    if s.mask == "computed":
        return [net.input("mask", (s.samples, 1, s.queries, s.keys))]
    if s.mask == "rows":
        return [net.weight(s.samples, 1, s.queries, s.keys)]
    if s.mask == "keys":
        hidden = np.where(np.arange(s.samples * s.keys) % 3 == 1, -1e30, 0.0)
        shape = (s.samples, 1, 1, s.keys)
        return [net.constant("hidden", hidden.reshape(shape).astype(np.float32))]
    if s.mask == "none":
        left = np.arange(s.queries)[:, None] * 3 > np.arange(s.keys)
        return [net.constant("left", np.where(left, 0.5, -np.inf).astype(np.float32))]
    if s.mask == "causal":
        later = np.triu(np.full((s.queries, s.keys), -np.inf, np.float32), 1)
        return [net.constant("later", later)]
    return []


def attention_graph(s: _Size, *, joint: bool) -> Graph:
    """One attention; `joint`: of one value, where the heads of q, k and v lie by turns."""
    net = Net()
    if joint:
        step = 2 * s.size + s.values
        x = net.input("x", (s.samples, s.queries, s.heads * step + 3))
        parts = [(3, s.size), (3 + s.size, s.size), (3 + 2 * s.size, s.values)]
        inputs = [x, x, x]
        channels = [HeadChannels(at, step, size) for at, size in parts]
    else:
        inputs = [
            net.input("q", (s.samples, s.queries, s.heads * s.size)),
            net.input("k", (s.samples, s.keys, s.heads * s.size)),
            net.input("v", (s.samples, s.keys, s.heads * s.values)),
        ]
        channels = [HeadChannels(0, size, size) for size in (s.size, s.size, s.values)]
    op = Attention(s.heads, s.scale, *channels, zero_rows=s.mask == "none", softcap=s.softcap)
    return net.graph(net.node(op, [*inputs, *_mask(net, s)]))


for _name, _sizes in SIZES.items():
    _joint = _sizes.queries == _sizes.keys
    add_case(f"attention_{_name}", partial(attention_graph, _sizes, joint=_joint))

add_case("attention_far", partial(attention_graph, FAR, joint=False), tolerance=3e-4)
