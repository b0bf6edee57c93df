"""Plans shuffles: vectors made of a few registers' lanes in any order, some lanes zero.

A *pick* makes one vector of the lanes of two (`f32x16_pick`, vpermt2ps). Lanes from more than two
registers are joined in pairs; vectors that need the same two share the join while lanes are left. A
vector that is part of another one, as a neighbouring window is, is one pick from that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

#: The number of the vector of zeros.
ZERO = -1

#: Where each of a vector's lanes comes from; None is zero.
Places = tuple[int | None, ...]


@dataclass(frozen=True)
class Pick:
    """Lane i is lane lanes[i] of vector `a`, or lane lanes[i] - L of vector `b`, where L is the
    number of lanes. Vectors are numbered: the registers, then the picks in their order; ZERO.
    """

    a: int
    b: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class ShufflePlan:
    """The picks, and the vector that each target is."""

    picks: tuple[Pick, ...]
    targets: tuple[int, ...]


def plan(registers: int, lanes: int, targets: Sequence[Places]) -> ShufflePlan:
    """How to make `targets` from `registers` full vectors: place p is lane p % lanes of p // lanes.

    Targets have at least one lane that is not zero.
    """
    planner = _Planner(lanes)
    for first in range(0, registers * lanes, lanes):
        planner.values.append(tuple(range(first, first + lanes)))
    wanted = {target: frozenset(p for p in target if p is not None) for target in targets}
    whole = [t for t, places in wanted.items() if not any(places < of for of in wanted.values())]
    planner.join({target: _registers(wanted[target], lanes) for target in whole})
    for target in sorted(wanted, key=lambda t: -len(wanted[t])):
        planner.part(target, wanted[target])
    return ShufflePlan(tuple(planner.picks), tuple(planner.values.index(t) for t in targets))


def _registers(places: frozenset[int], lanes: int) -> list[int]:
    return sorted({place // lanes for place in places})


@dataclass
class _Planner:
    """`values`: the lanes of every vector so far."""

    lanes: int
    values: list[Places] = field(default_factory=list)
    picks: list[Pick] = field(default_factory=list)

    def pick(self, a: int, b: int, places: Places) -> int:
        """The vector of these places, each of which is in a or b, or zero."""
        if places in self.values:
            return self.values.index(places)
        first = self.values[a]
        second = self.values[b] if b != ZERO else (None,) * self.lanes
        lanes = [first.index(p) if p in first else self.lanes + second.index(p) for p in places]
        self.picks.append(Pick(a, b, tuple(lanes)))
        self.values.append(places)
        return len(self.values) - 1

    def join(self, sources: dict[Places, list[int]]) -> None:
        """Make these targets, each from the registers that it needs, by pairs of them."""
        while any(len(registers) > 2 for registers in sources.values()):
            users: dict[tuple[int, int], list[Places]] = {}
            for target, registers in sources.items():
                if len(registers) > 2:
                    for a, b in zip(registers[::2], registers[1::2], strict=False):
                        users.setdefault((a, b), []).append(target)
            joined = {pair: self._share(*pair, targets) for pair, targets in users.items()}
            for target, registers in sources.items():
                if len(registers) > 2:
                    pairs = list(zip(registers[::2], registers[1::2], strict=False))
                    rest = registers[-1:] if len(registers) % 2 else []
                    sources[target] = [joined[pair][target] for pair in pairs] + rest
        for target, registers in sources.items():
            self._finish(target, registers)

    def _share(self, a: int, b: int, targets: Sequence[Places]) -> dict[Places, int]:
        """Vectors with what the targets need of a and b, shared while there is room."""
        held = {p for p in (*self.values[a], *self.values[b]) if p is not None}
        groups: list[tuple[list[int], list[Places]]] = []
        for target in targets:
            needed = [p for p in target if p in held]
            if not groups or len({*groups[-1][0], *needed}) > self.lanes:
                groups.append(([], []))
            places, members = groups[-1]
            places += [p for p in dict.fromkeys(needed) if p not in places]
            members.append(target)
        found: dict[Places, int] = {}
        for places, members in groups:
            filled = (*places, *(places[:1] * (self.lanes - len(places))))
            number = self.pick(a, b, filled)
            found |= dict.fromkeys(members, number)
        return found

    def _finish(self, target: Places, registers: list[int]) -> None:
        """A target from one or two vectors."""
        a, b = registers[0], registers[1] if len(registers) > 1 else ZERO
        if b != ZERO and None in target:
            some = next(p for p in target if p is not None)
            a, b = self.pick(a, b, tuple(some if p is None else p for p in target)), ZERO
        self.pick(a, b, target)

    def part(self, target: Places, places: frozenset[int]) -> None:
        """A target whose places another vector already holds."""
        holder = next(k for k, value in enumerate(self.values) if places <= set(value))
        self.pick(holder, ZERO, target)
