"""Two input channels side by side in a vector, for output channels that fill only half of it.

Lanes 2i and 2i+1 sum channel i over the even and the odd inputs. A broadcast of two inputs feeds
them, and at the end neighbours are added. So for two inputs, 24 channels take three multiply-adds
of 16 lanes instead of four, and 8 channels take one instead of two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.target.isa import Isa

#: With fewer inputs, adding the pairs at the end costs more than it saves.
LEAST_INPUTS = 8


def paired(vec: Vec, isa: Isa) -> bool:
    """Whether a vector's sums come in pairs: vectors twice as wide exist and have the words
    for it.
    """
    return isa.has("pairs") and vec.lanes >= 4 and 2 * vec.lanes in isa.lanes


def worth_pairing(ic: int, taps: int, oc: int, isa: Isa, lanes: int) -> bool:
    """Whether pairs of `ic` channels make sense for some vector of this many output channels."""
    if ic % 2 or ic * taps < LEAST_INPUTS:
        return False
    return any(paired(vec, isa) for vec in split_lanes(oc, isa, lanes))


def pair_panel(panel: NDArray[np.float32], vecs: tuple[Vec, ...], isa: Isa) -> NDArray[np.float32]:
    """panel[KH,KW,IC,width] with every two rows as [vector][lane][2] or, unpaired, [2][lane]."""
    kh, kw, ic, _ = panel.shape
    rows = panel.reshape(kh, kw, ic // 2, 2, -1)
    parts = []
    for vec in vecs:
        part = rows[..., vec.packed : vec.packed + vec.lanes]
        both = np.swapaxes(part, -1, -2) if paired(vec, isa) else part
        parts.append(both.reshape(kh, kw, ic // 2, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=-1))
