"""The longest way through code with branches and loops, beside all ways that it can take."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from analysis.test_stack import functions
from cannery.analysis.disassembly import Function, Machine
from cannery.analysis.longest import most_cost
from cannery.analysis.loops import split_blocks


def most(text: str, **often: int) -> int:
    """The cost of a function whose instruction k ran `_k` times."""
    (function,) = functions(f"f:\n{text}")
    runs = {0x100 + 2 * int(k[1:]): times for k, times in often.items()}
    return most_cost(function, Machine.ARM, runs, ones(function))


def ones(function: Function) -> dict[int, int]:
    """A cost of 1 for each instruction."""
    return {i.address: 1 for i in function.instructions}


def test_the_longer_of_two_ways() -> None:
    code = "cbz r0, <f+8>\nmovs r1, #0\nmovs r2, #0\nb.n <f+10>\nmovs r1, #1\nbx lr"
    assert most(code, _0=1) == 5
    assert most(code, _0=7) == 35
    assert most(code) == 0


def test_a_branch_inside_a_loop() -> None:
    """1 + 10 times 4, of which the branch may skip one, + 1; what runs before does not matter."""
    code = "movs r0, #0\nadds r1, #1\nbmi.n <f+8>\nmovs r1, #0\nbne.n <f+2>\nbx lr"
    assert most(code, _0=1, _1=10) == 1 + 10 * 4 + 1


def test_nested_loops_and_padding() -> None:
    """Nothing leads to the nop, so that the loop after it has one entry."""
    code = """
        movs r0, #0
        b.n <f+6>
        nop
        movs r1, #0
        adds r1, #1
        bne.n <f+8>
        adds r0, #1
        bne.n <f+6>
        bx lr
    """
    assert most(code, _0=1, _3=5, _4=20) == 2 + 5 * (1 + 2) + 20 * 2 + 1


def test_loops_of_armv8_1_m() -> None:
    """WLS skips the loop if there is nothing to do, LE goes back."""
    code = "wls lr, r3, <f+8>\nadds r1, #1\nadds r1, #2\nle lr, <f+2>\nbx lr"
    assert most(code, _0=1, _1=9) == 2 + 9 * 3


def test_a_loop_with_two_entries() -> None:
    """Every block counts as often as the most frequent one."""
    code = "cbz r0, <f+6>\nadds r1, #1\nadds r1, #2\nadds r1, #3\nbne.n <f+2>\nbx lr"
    assert most(code, _0=1, _1=4, _2=4, _3=5, _4=5) == 1 + 5 * 4 + 1


@pytest.mark.parametrize("seed", range(40))
def test_random_code_never_costs_more(seed: int) -> None:
    """Structured code with random branches: what runs is at most what is computed from how often
    its loops begin; of the ways tried, the longest comes near.
    """
    rng = random.Random(seed)
    lines = [*_code(rng, 3), "bx lr"]
    (function,) = functions("f:\n" + "\n".join(_resolved(lines)))
    blocks = {b.instructions[0].address: b for b in split_blocks(function, Machine.ARM)}
    starts = [b.instructions[0].address for b in split_blocks(function, Machine.ARM)]
    for _ in range(20):
        runs: Counter[int] = Counter()
        at: int | None = starts[0]
        trips: Counter[int] = Counter()
        while at is not None:
            block = blocks[at]
            runs.update(i.address for i in block.instructions)
            ways = [starts[k] for k in block.successors]
            back = [way for way in ways if way <= at]
            if back and trips[at] % 3 < 2:
                way: int | None = back[0]
            else:
                ahead = [way for way in ways if way > at]
                way = rng.choice(ahead) if ahead else None
            trips[at] += bool(back)
            at = way
        costs = {i.address: rng.randrange(1, 9) for i in function.instructions}
        spent = sum(runs[address] * cost for address, cost in costs.items())
        assert spent <= most_cost(function, Machine.ARM, runs, costs)


def _code(rng: random.Random, depth: int) -> list[str]:
    """Lines with labels `n:` in them, and branches to `@n`."""
    found: list[str] = []
    for _ in range(rng.randrange(1, 4)):
        label = f"{rng.randrange(10**9)}"
        inner = _code(rng, depth - 1) if depth else ["adds r0, #1"]
        kind = rng.randrange(3)
        if kind == 0:
            found += [f"bmi.n @{label}", *inner, f"{label}:"]
        elif kind == 1:
            found += [f"{label}:", *inner, f"bne.n @{label}"]
        found.append("adds r1, #1")
    return found


def _resolved(lines: list[str]) -> list[str]:
    places, at = dict[str, int](), 0
    for line in lines:
        if line.endswith(":"):
            places[line[:-1]] = at
        else:
            at += 2
    return [
        f"{line.split('@')[0]}<f+{places[line.split('@')[1]]}>" if "@" in line else line
        for line in lines if not line.endswith(":")
    ]  # fmt: skip
