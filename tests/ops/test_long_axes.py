"""Borders, vectors and blocks of long axes are found without visiting each element, and are those
that visiting each would give.
"""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cannery.ops.shared.axes import balanced
from cannery.ops.shared.gemm import make_blocks
from cannery.ops.shared.lanes import Cut, split_lanes, vector_runs
from cannery.ops.shared.window_axis import WindowAxis
from cannery.target.isa import Isa, isa

SMALL = st.integers(1, 7)
AXES = st.builds(
    WindowAxis, size=st.integers(1, 40), out=st.integers(0, 60), taps=SMALL, stride=SMALL,
    dilation=SMALL, pad=st.integers(-9, 30),
)  # fmt: skip
ISAS = st.sampled_from([isa(name) for name in ("generic", "ssse3", "avx2", "avx512", "neon64")])
COUNTS = st.integers(1, 300)
WIDEST = st.sampled_from([0, 4, 8])


@given(AXES)
def test_spans(axis: WindowAxis) -> None:
    """Each output's taps, as the definition has them; neighbouring spans differ."""
    spans = axis.spans()
    found = [(s.first, s.last) for s in spans for _ in range(s.count)]
    inside = [
        [k for k in range(axis.taps) if 0 <= axis.source(o, k) < axis.size] for o in range(axis.out)
    ]
    assert found == [(taps[0], taps[-1] + 1) if taps else (0, 0) for taps in inside]
    assert [s.start for s in spans] == [sum(t.count for t in spans[:k]) for k in range(len(spans))]
    assert all((a.first, a.last) != (b.first, b.last) for a, b in itertools.pairwise(spans))


def test_spans_of_a_long_axis() -> None:
    spans = WindowAxis(10**9, 10**9, 3, 1, 1, 1).spans()
    assert [(s.start, s.count, s.taps) for s in spans] == [
        (0, 1, 2), (1, 10**9 - 2, 3), (10**9 - 1, 1, 2)
    ]  # fmt: skip


@given(COUNTS, ISAS, WIDEST, st.booleans())
def test_cuts(count: int, target: Isa, widest: int, partial: bool) -> None:
    vectors = split_lanes(count, target, widest, partial=partial)
    cut = Cut.of(count, target, widest, partial=partial)
    assert [cut[k] for k in range(len(cut))] == list(vectors)
    runs = vector_runs(count, target, widest, partial=partial)
    starts = [(vec.start + k * vec.lanes, vec.valid) for vec, times in runs for k in range(times)]
    assert starts == [(vec.start, vec.valid) for vec in vectors]


@given(COUNTS, ISAS, WIDEST, st.integers(1, 6), st.integers(1, 5))
def test_blocks(count: int, target: Isa, widest: int, nr: int, k: int) -> None:
    """Groups of vectors, one after the other, with their columns and weights."""
    vectors = split_lanes(count, target, widest)
    expected, weight = [], 0
    for size, groups, first in balanced(len(vectors), nr):
        for at in range(first, first + size * groups, size):
            group = vectors[at : at + size]
            expected.append((group[0].start, weight, [(v.lanes, v.valid) for v in group]))
            weight += k * sum(v.lanes for v in group)
    found = []
    for block in make_blocks(count, target, widest, nr, k):
        for number in range(block.count):
            at = block.weight + number * k * block.width
            lanes = [(v.lanes, v.valid) for v in block.vecs]
            found.append((block.channel + number * block.valid, at, lanes))
    assert found == expected


def test_a_matrix_of_millions_of_columns_has_few_blocks() -> None:
    blocks = make_blocks(10**9, isa("avx512"), 16, 6, 2)
    assert len(blocks) <= 4
    assert sum(block.count * block.valid for block in blocks) == 10**9
