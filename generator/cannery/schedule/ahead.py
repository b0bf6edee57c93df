"""Prefetching for large networks: while a step computes, later steps' weights come nearer.

If the weights exceed the second-level cache, each run reads them from far away, and a step's first
tiles wait for them. It is known long before what will be read, so kernels that spend their time
multiplying (`Schedule.fetches`) prefetch a few cache lines of the following weights with each tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.schedule.caches import near_bytes
from cannery.schedule.program import Program
from cannery.schedule.schedule import own_bytes
from cannery.target.isa import Isa

#: Bytes of a cache line.
LINE = 64

#: From this many bytes of constants on, weights are in one array, in the order of use.
IN_ORDER_BYTES = 512 * 1024


def weights_ahead(program: Program, isa: Isa) -> Sequence[int]:
    """For each step, the bytes of weights right after its own that it should prefetch."""
    own = [own_bytes(program.graph, planned.step) for planned in program.steps]
    most = near_bytes(isa)  # it must hold the weights of one step and the next
    found = [0] * len(own)
    fetchers = [k for k, p in enumerate(program.steps) if p.choice.schedule.fetches]
    if sum(own) < max(most, IN_ORDER_BYTES) or not fetchers:
        return found
    for step, following in zip(fetchers, [*fetchers[1:], len(own) - 1], strict=True):
        found[step] = min(sum(own[step + 1 : following + 1]), most)
    return found
