"""The cache sizes that determine how generated code is blocked.

They are the same for every processor, because code must not depend on which one is meant. What data
beyond them costs is the business of `cost.py`, which uses the processor's table.
"""

from __future__ import annotations

from cannery.target.isa import Isa

#: Caches of current cores.
L1_BYTES, L2_BYTES = 32 * 1024, 512 * 1024

#: The least second-level cache of processors, per lane of their vectors.
L2_BYTES_PER_LANE = 64 * 1024

#: Larger data comes from the third level or from memory, which no prefetching hides.
FAR_BYTES = 4 * 1024 * 1024


def near_bytes(isa: Isa) -> int:
    """How much stays in the second-level cache of processors with such vectors."""
    return L2_BYTES_PER_LANE * isa.widest
