"""The orders of register tiles for processors that issue in order: right, and as fast as the models
of a Cortex-A53 and A55 say.
"""

from __future__ import annotations

from collections import Counter

import pytest

from cannery.analysis.arm_pipeline import operation
from cannery.analysis.disassembly import Machine, parse_disassembly
from cannery.analysis.inorder import CORES, cycles_of_loop
from cannery.ops.shared import gemm
from cannery.ops.shared.dual import (
    BESIDE,
    DUAL,
    LANES,
    MOST,
    ORDERS,
    Action,
    Kind,
    fours_at_once,
    order,
    ways,
)
from cannery.target.isa import ISAS

REGISTERS = 32

#: Cycles of four inputs by the model, of which rows * vectors * 4 are multiply-adds: by order, the
#: processor, and tiles. gcc's order takes 117, 138, 154 and 136 for the first tiles on a
#: Cortex-A53, and 101, 113, 127 and 113 on a Cortex-A55.
CYCLES = {
    DUAL: (
        "cortex-a53",
        {(8, 2): 90, (4, 4): 96, (5, 4): 120, (6, 3): 107, (12, 1): 77, (1, 12): 109},
    ),
    BESIDE: (
        "cortex-a55",
        {(8, 2): 78, (4, 4): 77, (5, 4): 93, (6, 3): 83, (12, 1): 73, (1, 12): 125},
    ),
}
#: The same for sixteen inputs.
CYCLES_OF_SIXTEEN = {
    DUAL: ("cortex-a53", {(8, 2): 358, (4, 4): 348, (7, 2): 303, (6, 2): 258}),
    BESIDE: ("cortex-a55", {(8, 2): 270, (4, 4): 269, (7, 2): 238, (6, 2): 204}),
}
TILES = [
    (way, *tile, fours)
    for fours, table in ((1, CYCLES), (MOST, CYCLES_OF_SIXTEEN))
    for way, (_, tiles) in table.items()
    for tile in tiles
]


def operands(action: Action) -> list[str]:
    product = action.product
    return [product.input, product.weights] if action.kind is Kind.PRODUCT else [action.name]


@pytest.mark.parametrize(("way", "rows", "vectors", "fours"), TILES)
def test_every_product_is_added_once_to_what_has_arrived(
    way: str, rows: int, vectors: int, fours: int
) -> None:
    found = order(rows, vectors, REGISTERS, way, fours)
    done = Counter(a.product for a in found if a.kind is Kind.PRODUCT)
    assert set(done.values()) == {1}
    assert len(done) == LANES * fours * rows * vectors
    assert len({(p.input, p.lane) for p in done}) == LANES * fours * rows
    steps: dict[str, list[Kind]] = {}
    for action in found:
        if action.kind is not Kind.PRODUCT:
            steps.setdefault(action.name, []).append(action.kind)
            continue
        for name in operands(action):
            assert steps[name] in ([Kind.WHOLE], [Kind.LOW, Kind.HIGH, Kind.JOIN])


def registers(found: tuple[Action, ...], first: int) -> dict[str, int]:
    """A register for each vector, from `first` on, free again after its last product.

    Raises IndexError if there are too few.
    """
    last = {name: k for k, action in enumerate(found) for name in operands(action)}
    free, taken = list(range(first, REGISTERS)), dict[str, int]()
    for k, action in enumerate(found):
        if action.kind in (Kind.WHOLE, Kind.LOW):
            taken[action.name] = free.pop(0)
        free += [taken[name] for name in operands(action) if last[name] == k]
    return taken


def assembly(way: str, rows: int, vectors: int, fours: int) -> str:
    """An order as a loop; sums are the first registers."""
    found = order(rows, vectors, REGISTERS, way, fours)
    at = registers(found, rows * vectors)
    lines = []
    for k, action in enumerate(found):
        v, p = at.get(action.name), action.product
        match action.kind:
            case Kind.WHOLE:
                lines.append(f"ldr q{v}, [x0]")
            case Kind.LOW:
                lines.append(f"ldr d{v}, [x0]")
            case Kind.HIGH:
                lines.append(f"ldr x{2 + v % 24}, [x0, #8]" if v is not None else "")
            case Kind.JOIN:
                lines.append(f"ins v{v}.d[1], x{2 + v % 24}" if v is not None else "")
            case Kind.PRODUCT:
                acc = p.row * vectors + p.vector
                lines.append(f"fmla v{acc}.4s, v{at[p.weights]}.4s, v{at[p.input]}.s[{p.lane}]")
        assert lines[k]
    return "\n".join([*lines, "subs x1, x1, #1", "b.ne 0 <f>"])


@pytest.mark.parametrize(("way", "rows", "vectors", "fours"), TILES)
def test_tiles_take_few_cycles(way: str, rows: int, vectors: int, fours: int) -> None:
    cpu, most = (CYCLES if fours == 1 else CYCLES_OF_SIXTEEN)[way]
    lines = assembly(way, rows, vectors, fours).splitlines()
    listing = "\n".join(f"   {4 * k:x}:\t{line}" for k, line in enumerate(lines))
    (function,) = parse_disassembly(f"0 <f>:\n{listing}", Machine.AARCH64)
    core = CORES[cpu]
    cycles = cycles_of_loop([operation(i, core) for i in function.instructions], core)
    assert LANES * fours * rows * vectors < cycles <= most[rows, vectors]


@pytest.mark.parametrize("way", ORDERS)
def test_what_fits_for_four_inputs_fits_for_more(way: str) -> None:
    """Or `fours_at_once` would offer what `order` cannot make."""
    for rows, vectors in gemm.TILES[REGISTERS]:
        lengths = {bool(order(rows, vectors, REGISTERS, way, n)) for n in range(1, MOST + 1)}
        assert len(lengths) == 1, (rows, vectors)


def test_fours_at_once() -> None:
    assert [fours_at_once(DUAL, 8, 2, REGISTERS, left) for left in (1, 3, 9)] == [1, 3, MOST]
    assert fours_at_once("lane", 8, 2, REGISTERS, 9) == fours_at_once(DUAL, 8, 3, 32, 9) == 1


def test_only_tiles_that_fit_are_offered() -> None:
    assert [order(8, 3, REGISTERS, way) for way in ORDERS] == [(), ()]
    assert ways(ISAS["neon64"], (8, 3)) == ways(ISAS["neon32"], (1, 1)) == []
    assert ways(ISAS["neon64"], None) == ways(ISAS["avx512"], (4, 4)) == []
    assert ways(ISAS["neon64"], (8, 2)) == ["dual", "beside"]
