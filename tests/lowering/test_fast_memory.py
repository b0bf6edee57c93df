"""What lies in fast memory: the best choice that has places, and a proof that none is better."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.lowering import fast_memory, lifetimes
from cannery.lowering.accesses import accesses
from cannery.lowering.assign import assign
from cannery.lowering.fast_memory import choose_fast
from cannery.lowering.lifetimes import plan_workspace
from cannery.lowering.memory_plan import Allocation, plan_memory
from cannery.schedule.program import Program
from cannery.target.isa import isa
from choose.test_ram import inverted_net, plan, segments_of


def random_blocks(seed: int, most: int) -> tuple[list[Allocation], dict[str, int], int]:
    """Blocks, their accesses, and the room of a fast memory."""
    rng = np.random.default_rng(seed)
    blocks = []
    for k in range(int(rng.integers(1, most))):
        first, bytes_ = int(rng.integers(0, 8)), int(rng.integers(1, 4000))
        blocks.append(Allocation(f"b{k}", bytes_, first, first + int(rng.integers(0, 5))))
    touched = {block.name: int(rng.integers(0, 20000)) for block in blocks}
    return blocks, touched, 64 * int(rng.integers(1, 125))


def test_no_choice_is_better() -> None:
    """All subsets: of those that have places, none has more accesses, and `most` is what all that
    are never alive beyond the room reach.
    """
    proved = 0
    for seed in range(60):
        blocks, touched, room = random_blocks(seed, 10)
        found = choose_fast(blocks, touched, room)
        fits = placed = 0
        for chosen in range(1 << len(blocks)):
            some = [block for k, block in enumerate(blocks) if chosen >> k & 1]
            where, worth = plan_memory(some), sum(touched[block.name] for block in some)
            fits = max(fits, worth if where.lower_bound <= room else 0)
            placed = max(placed, worth if where.bytes <= room else 0)
        assert (found.accesses, found.most) == (placed, fits), f"seed {seed}"
        assert found.accesses == sum(touched[name] for name in found.names)
        assert plan_memory([b for b in blocks if b.name in found.names]).bytes <= room
        proved += found.accesses == found.most
    assert proved > 50


def test_many_blocks_that_live_all_the_time() -> None:
    """Prices cut off so much that the search ends, though any of 2**25 choices may be alive."""
    rng = np.random.default_rng(0)
    sizes = [int(n) for n in rng.integers(1, 40_000, 65)]
    blocks = [
        Allocation(f"b{k}", size, *((0, 40) if k >= 40 else (k, min(k + 2, 40))))
        for k, size in enumerate(sizes)
    ]
    touched = {b.name: b.bytes * int(rng.integers(1, 10)) for b in blocks}
    found = choose_fast(blocks, touched, 65536)
    assert 0.95 * found.most < found.accesses <= found.most < 0.9 * sum(touched.values())


def test_the_bound_holds_where_the_search_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(30):
        blocks, touched, room = random_blocks(seed, 20)
        whole = choose_fast(blocks, touched, room)
        with monkeypatch.context() as patch:
            patch.setattr(fast_memory, "MOST_CHOICES", 1)
            cut = choose_fast(blocks, touched, room)
        assert cut.accesses <= whole.accesses <= whole.most <= cut.most


def test_nothing_to_choose() -> None:
    assert choose_fast([], {}, 64) == choose_fast([Allocation("a", 65, 0, 0)], {"a": 9}, 64)
    assert choose_fast([Allocation("a", 64, 0, 0)], {}, 64).names == frozenset()


def program(graph: Graph) -> Program:
    target = isa("generic")
    steps = plan(graph, target, None).steps(segments_of(graph))
    choices = plan(graph, target, None).choices
    return assign(graph, steps, choices, target, nhwc.ORDER)


def test_windows_count_each_time() -> None:
    """A 3x3 layer reads each element nine times, a 1x1 layer once."""
    made = program(inverted_net())
    counts = accesses(made, [0] * len(made.steps))
    reads = {
        made.buffers[planned.reads[0]].root: planned.step.nodes[0].op
        for planned in made.steps if planned.step.macs(made.graph)
    }  # fmt: skip
    for root, op in reads.items():
        bytes_ = made.buffers[root].type.bytes
        if made.buffers[root].storage == "arena":
            wide = getattr(op, "group", 1) > 1
            assert counts[root] >= (10 if wide else 2) * bytes_


def test_halos_are_pinned_where_that_costs_no_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is kept all the time takes the place of others; with much room, it may."""
    made = program(inverted_net())
    scratch = [0] * len(made.steps)
    enough = plan_workspace(made, scratch, fast_ram=10**6)
    assert enough.pinned and enough.fast and enough.fast.share == "100.0 %"
    tight = enough.bytes // 2
    chosen = plan_workspace(made, scratch, fast_ram=tight)
    monkeypatch.setattr(lifetimes, "PINNED_BYTES", 0)
    without = plan_workspace(made, scratch, fast_ram=tight)
    assert chosen == without and without.fast_bytes <= tight
