"""Sizes of caches that generated code is cut by.

They hold for every processor, as code must not depend on which one is meant; what data costs that
lies beyond them is the business of `cost.py`, which asks the table of the processor.
"""

from __future__ import annotations

from cannery.target.isa import Isa

#: Caches of current cores.
L1_BYTES, L2_BYTES = 32 * 1024, 512 * 1024

#: Second-level cache that processors have at least, per lane of their vectors.
L2_BYTES_PER_LANE = 64 * 1024

#: What is larger comes from the third level or from memory, which no prefetching hides.
FAR_BYTES = 4 * 1024 * 1024


def near_bytes(isa: Isa) -> int:
    """What stays in the second-level cache of processors that have such vectors."""
    return L2_BYTES_PER_LANE * isa.widest
