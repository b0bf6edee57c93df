"""Plans of shuffles, carried out on numbers."""

from __future__ import annotations

import random

import pytest

from cannery.ops.shared.shuffles import ZERO, ShufflePlan, plan

Lanes = tuple[int | None, ...]


def carry_out(found: ShufflePlan, registers: int, lanes: int) -> list[Lanes]:
    """The targets; place p of the input is the number p, zero is None."""
    vectors: list[Lanes] = [tuple(range(r * lanes, r * lanes + lanes)) for r in range(registers)]
    for pick in found.picks:
        zero: Lanes = (None,) * lanes
        both = vectors[pick.a] + (zero if pick.b == ZERO else vectors[pick.b])
        vectors.append(tuple(both[k] for k in pick.lanes))
    return [vectors[number] for number in found.targets]


@pytest.mark.parametrize("registers", [1, 2, 3, 7])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_any_targets(registers: int, zeros: float) -> None:
    rng = random.Random(registers)
    targets = []
    for _ in range(20):
        places: list[int | None] = [rng.randrange(registers * 4) for _ in range(4)]
        targets.append((places[0], *(None if rng.random() < zeros else p for p in places[1:])))
    assert carry_out(plan(registers, 4, targets), registers, 4) == targets


def test_a_register_needs_no_pick() -> None:
    assert plan(2, 4, [(4, 5, 6, 7)]) == ShufflePlan((), (1,))


def test_parts_of_other_targets_take_one_pick() -> None:
    """Columns of a 4 x 4 image and the same one row lower: two joins, two columns, two parts."""
    columns: list[Lanes] = [tuple(4 * row + column for row in range(4)) for column in range(2)]
    lower: list[Lanes] = [(*column[1:], None) for column in columns]
    found = plan(4, 4, [*lower, *columns])
    assert carry_out(found, 4, 4) == [*lower, *columns]
    assert len(found.picks) == 6
