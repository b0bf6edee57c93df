"""Which blocks lie in a small, fast memory: those with most accesses that fit there together.

The search takes the blocks in the order in which their lives begin. All that later decisions depend
on is what is alive in the fast memory: of two partial choices with the same blocks alive, the one
with fewer accesses goes (dynamic programming, as for unsplittable flow on a path). Prices for a
byte at each step bound what the rest can add (Lagrangian relaxation, Polyak's step); what cannot
become better than the best choice known goes as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import floor, fsum

from cannery.lowering.memory_plan import Allocation, align, plan_memory

#: Partial choices that are kept at a time; where there are more, the best is perhaps not found.
MOST_CHOICES = 20_000

#: Steps towards good prices, and searches until what is chosen also has places.
PRICE_STEPS, SEARCHES = 200, 12


@dataclass(frozen=True)
class FastChoice:
    """The blocks that are chosen, their accesses, and a number that no choice exceeds."""

    names: frozenset[str]
    accesses: int
    most: int


def choose_fast(blocks: Sequence[Allocation], accesses: Mapping[str, int], room: int) -> FastChoice:
    """The blocks for a memory of `room` bytes, within which `plan_memory` places them.

    `accesses` are those of each block in a run. Where `most` is the same as the accesses that were
    reached, no choice is better.
    """
    items = [
        _Item(block, accesses[block.name])
        for block in sorted(blocks, key=lambda b: (b.first, b.last, b.name))
        if align(block.bytes) <= room and accesses.get(block.name, 0) > 0
    ]
    best = max((tuple(_filled(order, room)) for order in _orders(items)), key=_worth)
    found, most = _search(items, room, _worth(best))
    asked = room
    for _ in range(SEARCHES):
        if _worth(found) <= _worth(best):
            break
        excess = _placed(found) - room
        if excess <= 0:
            best = found
            break
        asked -= min(excess, align(room // SEARCHES))
        found, _ = _search(items, asked, _worth(best))
    return FastChoice(frozenset(item.block.name for item in best), _worth(best), most)


@dataclass(frozen=True)
class _Item:
    """A block that may be chosen, and its accesses."""

    block: Allocation
    accesses: int

    @property
    def bytes(self) -> int:
        return align(self.block.bytes)

    @property
    def per_byte(self) -> float:
        return self.accesses / self.bytes

    @property
    def per_byte_and_step(self) -> float:
        return self.per_byte / (self.block.last - self.block.first + 1)


def _worth(items: Sequence[_Item]) -> int:
    return sum(item.accesses for item in items)


def _placed(items: Sequence[_Item]) -> int:
    """Bytes from the first to the last of these blocks with their places."""
    return plan_memory([item.block for item in items]).bytes


def _orders(items: Sequence[_Item]) -> list[list[_Item]]:
    """The orders in which a memory is filled at first."""
    return [
        sorted(items, key=lambda item: -item.per_byte),
        sorted(items, key=lambda item: -item.per_byte_and_step),
        sorted(items, key=lambda item: -item.accesses),
    ]


def _filled(order: Sequence[_Item], room: int) -> list[_Item]:
    """The blocks that have places when they are taken one after the other."""
    taken: list[_Item] = []
    for item in order:
        if _placed([*taken, item]) <= room:
            taken.append(item)
    return taken


@dataclass(frozen=True)
class _Partial:
    """What was chosen so far, and its accesses."""

    items: tuple[_Item, ...]
    worth: int


def _search(items: Sequence[_Item], room: int, known: int) -> tuple[tuple[_Item, ...], int]:
    """The blocks with most accesses of which never more than `room` bytes are alive, and a number
    that no such choice exceeds; no blocks if none have more accesses than are `known`.
    """
    prices = _best_prices(items, room, known)
    rest = _rests(items, room, prices)
    kept: dict[tuple[int, ...], _Partial] = {(): _Partial((), 0)}
    complete = True
    for k, item in enumerate(items):
        found: dict[tuple[int, ...], _Partial] = {}
        for alive, partial in kept.items():
            left = tuple(j for j in alive if items[j].block.last >= item.block.first)
            _keep(found, left, partial)
            if sum(items[j].bytes for j in left) + item.bytes <= room:
                more = _Partial((*partial.items, item), partial.worth + item.accesses)
                _keep(found, (*left, k), more)
        bounds = {
            alive: partial.worth + rest[k + 1] - _paid(items, alive, prices, item.block.first)
            for alive, partial in found.items()
        }
        kept = {alive: found[alive] for alive, bound in bounds.items() if bound >= known + 0.5}
        if len(kept) > MOST_CHOICES:
            complete = False
            largest = sorted(kept, key=lambda alive: (-bounds[alive], alive))[:MOST_CHOICES]
            kept = {alive: kept[alive] for alive in largest}
    best = max(kept.values(), key=lambda partial: partial.worth, default=_Partial((), 0))
    bound = max(best.worth, known) if complete else max(floor(prices.bound), known)
    return best.items, bound


def _keep(found: dict[tuple[int, ...], _Partial], alive: tuple[int, ...], new: _Partial) -> None:
    """Keep the better of two with the same blocks alive."""
    old = found.get(alive)
    if old is None or old.worth < new.worth:
        found[alive] = new


@dataclass(frozen=True)
class _Prices:
    """A price of a byte at each step, summed up from the first step; no choice is worth more than
    `bound`.
    """

    sums: tuple[float, ...]
    bound: float

    def between(self, first: int, last: int) -> float:
        """The price of a byte from one step to another, both included."""
        return self.sums[last + 1] - self.sums[first]


def _paid(items: Sequence[_Item], alive: Sequence[int], prices: _Prices, start: int) -> float:
    """What the blocks that are alive pay from a step on."""
    return fsum(items[j].bytes * prices.between(start, items[j].block.last) for j in alive)


def _rests(items: Sequence[_Item], room: int, prices: _Prices) -> list[float]:
    """For each number of decided blocks, a bound of what the others add to the memory's price from
    the step of the last decided one on.
    """
    gains = [
        max(item.accesses - item.bytes * prices.between(item.block.first, item.block.last), 0.0)
        for item in items
    ]
    later = [*accumulate(reversed(gains), initial=0.0)][::-1]
    steps = len(prices.sums) - 2
    starts = [0, *(item.block.first for item in items)]
    return [
        gain + room * prices.between(start, steps)
        for gain, start in zip(later, starts, strict=True)
    ]


def _best_prices(items: Sequence[_Item], room: int, known: int) -> _Prices:
    """Prices for which what is gained beyond them, and the room's own price, is least."""
    steps = max((item.block.last for item in items), default=0) + 1
    each = [0.0] * steps
    best = _Prices(tuple([0.0] * (steps + 1)), float(_worth(items)))
    for _ in range(PRICE_STEPS):
        prices = _Prices(tuple(accumulate(each, initial=0.0)), 0.0)
        bought = [
            item for item in items
            if item.accesses > item.bytes * prices.between(item.block.first, item.block.last)
        ]  # fmt: skip
        gained = fsum(
            item.accesses - item.bytes * prices.between(item.block.first, item.block.last)
            for item in bought
        )
        bound = gained + room * prices.sums[-1]
        if bound < best.bound:
            best = _Prices(prices.sums, bound)
        over = [used - room for used in _used(bought, steps)]
        length = sum(value * value for value in over)
        if bound - known < 0.5 or not length:
            break
        pace = (bound - known) / length
        each = [max(price + pace * value, 0.0) for price, value in zip(each, over, strict=True)]
    return best


def _used(items: Sequence[_Item], steps: int) -> list[int]:
    """Bytes of these blocks that are alive at each step."""
    change = [0] * (steps + 1)
    for item in items:
        change[item.block.first] += item.bytes
        change[item.block.last + 1] -= item.bytes
    return [*accumulate(change)][:steps]
