"""The cost model: what it makes of the table of a processor."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from cannery.ir.graph import GraphBuilder
from cannery.ops.matmul.op import MatMul
from cannery.schedule.cost import (
    busy_cycles,
    conflict_cycles,
    load_way,
    reorder_cycles,
    tile_cycles,
    waiting_cycles,
    weights_cycles,
)
from cannery.schedule.schedule import Estimate
from cannery.target.isa import ISAS, Isa
from cannery.target.machine import Machine
from cannery.target.targets import find_target

AVX2 = ISAS["avx2"]
A53 = ISAS["neon64"].meant_for("cortex-a53")
KB = 1024


def changed(isa: Isa, **figures: object) -> Isa:
    """The instruction set on a machine with other figures."""
    return isa.meant_for(replace(isa.core, **figures))


def with_caches(machine: Machine, **figures: float) -> Isa:
    return AVX2.meant_for(replace(machine, caches=replace(machine.caches, **figures)))


def test_what_is_done_at_once_takes_as_long_as_the_slowest() -> None:
    core = AVX2.rates()
    assert busy_cycles(AVX2, 10.0, 0.0) == 10.0 / core.arithmetic
    assert busy_cycles(AVX2, 0.0, 10.0) == 10.0 / core.loads
    assert busy_cycles(AVX2, 0.0, 0.0, 10.0) == 10.0 / core.stores
    assert busy_cycles(AVX2, 1.0, 1.0, 1.0, beside=37.0) == 40.0 / AVX2.core.issue


def test_multiply_accumulates_have_a_rate_of_their_own() -> None:
    slow = {lanes: replace(rates, macs=0.5) for lanes, rates in AVX2.core.vectors.items()}
    isa = changed(AVX2, vectors=slow)
    assert busy_cycles(isa, 10.0, 0.0, macs=8.0) == 16.0
    assert busy_cycles(isa, 10.0, 0.0) == busy_cycles(AVX2, 10.0, 0.0)


def test_friction_adds_a_part_of_the_second_slowest() -> None:
    rubs = changed(AVX2, friction=0.25)
    loads, sums = 20.0 / AVX2.rates().loads, 8.0 / AVX2.rates().arithmetic
    beside = 28.0 / AVX2.core.issue
    assert sums < beside < loads == busy_cycles(AVX2, 8.0, 20.0)
    assert busy_cycles(rubs, 8.0, 20.0) == loads + 0.25 * beside
    assert tile_cycles(rubs, 6, 2, 8, 100) > tile_cycles(AVX2, 6, 2, 8, 100)


def test_a_core_in_order_waits_for_each_chain_of_sums() -> None:
    slow = {lanes: replace(rates, latency=9.0) for lanes, rates in AVX2.core.vectors.items()}
    in_order, others = (changed(AVX2, window=window, vectors=slow) for window in (0.0, 96.0))
    gap = AVX2.core.chain_gap * 9.0
    assert tile_cycles(in_order, 1, 1, 1, 1000) == pytest.approx(1000 * gap)
    assert tile_cycles(others, 1, 1, 1, 10) < tile_cycles(in_order, 1, 1, 1, 10)


def test_a_core_in_order_does_nothing_beside_loads() -> None:
    core = AVX2.rates()
    in_order = changed(AVX2, window=0.0)
    assert busy_cycles(in_order, 10.0, 6.0, 4.0) == pytest.approx(
        10.0 / core.arithmetic + 6.0 / core.loads + 4.0 / core.stores
    )
    assert busy_cycles(in_order, 0.0, 0.0, beside=40.0) == 40.0 / AVX2.core.issue
    alone, more = (tile_cycles(in_order, 6, 2, loads, 10) for loads in (8, 12))
    assert more - alone == pytest.approx(10 * 4 / core.loads)
    assert load_way(in_order).waits == 0.0 < load_way(A53).waits


def test_loads_by_halves_pay_only_in_order() -> None:
    for isa, pays in ((ISAS["neon64"], False), (A53, True)):
        whole, halves = (
            tile_cycles(isa, 8, 2, 4, 64, early=7, broadcast=way) for way in ("", "dual")
        )
        assert (halves < whole) is pays
    few, more = (tile_cycles(A53, 8, 2, loads, 1, broadcast="dual") for loads in (4, 5))
    assert more - few == 1.0
    near, far = (
        tile_cycles(A53, rows, 2, 4, 1, early=rows - 1, broadcast="dual") for rows in (8, 10)
    )
    assert far - near > 4.0 + 3.0


def test_registers_of_the_processor_count_where_it_has_others() -> None:
    fits = tile_cycles(AVX2, 6, 2, 8, 100)
    assert tile_cycles(changed(AVX2, registers=32), 6, 2, 8, 100) == fits
    assert tile_cycles(changed(AVX2, registers=8), 6, 2, 8, 100) > fits


@pytest.mark.parametrize(("pitch", "lost"), [(4096, 26), (2048, 16), (1024, 0), (4096 + 128, 0)])
def test_lines_that_share_sets_displace_one_another(pitch: int, lost: int) -> None:
    """Of 36 positions: eight ways of 4 KB, and a few more lines than there is room for."""
    expected = lost * 10 * AVX2.core.caches.l2_latency
    assert conflict_cycles(AVX2, 36, pitch, 10) == expected


def test_more_ways_keep_more_lines() -> None:
    wide = with_caches(AVX2.core, l1_bytes=48.0 * KB, l1_ways=12.0)
    assert conflict_cycles(wide, 36, 2048, 10) < conflict_cycles(AVX2, 36, 2048, 10)


def test_weights_come_from_where_the_whole_network_lets_them_stay() -> None:
    isa = with_caches(
        AVX2.core, l2_bytes=512.0 * KB, l3_rate=10.0, far_bytes=4096.0 * KB, far_rate=5.0
    )
    size = 100.0 * KB
    assert weights_cycles(isa, size, 400 * KB) == 0.0
    assert weights_cycles(isa, size, 600 * KB) == size / 10.0
    assert weights_cycles(isa, size, 5000 * KB) == size / 5.0
    assert weights_cycles(isa, 600.0 * KB, 400 * KB) == 60.0 * KB


def test_products_wait_for_registers_until_they_were_added() -> None:
    """Renaming, or an instruction that multiplies and adds, spares that."""
    bonnell = find_target("atom32").isa
    held = bonnell.core.product_held
    assert waiting_cycles(bonnell, 6.0, 3.0) == 2.0 * held > 0.0
    assert waiting_cycles(bonnell, 6.0, -1.0) == waiting_cycles(bonnell, 6.0, 1.0) == 6.0 * held
    assert waiting_cycles(ISAS["ssse3"], 6.0, 1.0) == 0.0
    assert waiting_cycles(changed(AVX2, product_held=7.0), 6.0, 1.0) == 0.0


def test_tiles_leave_registers_for_products_where_they_have_to_wait() -> None:
    """Six sums of eight registers leave one for products, four leave three."""
    bonnell = find_target("atom32").isa

    def each(isa: Isa, sums: int) -> float:
        return tile_cycles(isa, 1, sums, sums + 1.0, 64) / sums

    assert each(bonnell, 6) > 2 * each(bonnell, 4)
    assert each(find_target("ssse3-32").isa, 6) <= each(find_target("ssse3-32").isa, 4)


def test_reorders_cost_what_their_stores_do() -> None:
    slow = {lanes: replace(rates, stores=0.25) for lanes, rates in AVX2.core.vectors.items()}
    more = reorder_cycles(changed(AVX2, vectors=slow), 16000)
    assert more > 2 * reorder_cycles(AVX2, 16000)


def test_code_of_small_networks_stays_where_the_cache_has_room_for_their_weights() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (1, 80))
    b.output(b.node(MatMul(), [x, b.constant("w", np.zeros((80, 64), np.float32))], name="y"))
    graph, step = b.build(), Estimate(1000.0, 4000.0)
    small, large = (with_caches(AVX2.core, l1_bytes=size * KB) for size in (26.0, 27.0))
    assert graph.constant_bytes == 20 * KB
    assert step.total_in(graph, small) == step.total(small)
    assert step.total_in(graph, large) < step.total(large)
