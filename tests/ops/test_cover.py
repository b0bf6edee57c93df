"""Tiles that cover any number of elements: all, none outside, in few calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cannery.ops.shared.cover import Span, spans, tile_counts
from cannery.ops.shared.lanes import split_lanes, vector_runs
from cannery.target.isa import isa


def calls(total: int, tiles: tuple[Span, ...]) -> list[tuple[int, Span]]:
    """What the loops of cover.c.j2 do."""
    found: list[tuple[int, Span]] = []
    q = 0
    for k, span in enumerate(tiles):
        below = tiles[k + 1].width if k + 1 < len(tiles) else 0
        while q + span.width <= total:
            found.append((q, span))
            q += span.width
        if q + below < total and total >= span.width:
            found.append((total - span.width, span))
            q = total
    return found


@pytest.mark.parametrize("name", ["generic", "ssse3", "avx512"])
@pytest.mark.parametrize("vectors", [1, 3])
@pytest.mark.parametrize("least", [1, 3, 4, 9, 40])
def test_every_count_from_the_least_on_is_covered(name: str, vectors: int, least: int) -> None:
    target = isa(name)
    for usual in range(least, 130, 7):
        tiles = spans(usual, least, vectors, target.widest, target)
        for total in range(least, 140):
            done = calls(total, tiles)
            cells = {q + k for q, span in done for k in range(span.width)}
            assert cells == set(range(total)), (tiles, total)


def test_the_usual_count_takes_few_calls() -> None:
    target = isa("avx512")
    assert spans(1229, 40, 3, 16, target) == (Span(3, 16), Span(2, 16), Span(1, 4))
    assert calls(1229, spans(1229, 40, 3, 16, target))[-1] == (1229 - 32, Span(2, 16))
    assert spans(20, 5, 1, 16, target) == (Span(1, 16), Span(1, 4))
    assert spans(32, 8, 2, 16, target) == (Span(2, 16), Span(1, 16), Span(1, 4))


@pytest.mark.parametrize("total", [1, 5, 16, 20, 47, 48, 100, 1229])
def test_tile_counts_are_those_of_the_code(total: int) -> None:
    target = isa("avx512")
    tiles = spans(total, min(total, 10), 3, 16, target)
    done = calls(total, tiles)
    counted = [(span, n) for span, n in tile_counts(total, tiles)]
    assert sum(n for _, n in counted) == len(done)
    for span, n in counted:
        assert n == sum(span == s for _, s in done)


@pytest.mark.parametrize("name", ["generic", "ssse3", "avx2", "avx512", "neon64"])
@pytest.mark.parametrize("partial", [True, False])
def test_runs_are_the_vectors_counted(name: str, partial: bool) -> None:
    found = isa(name)
    for count in [*range(1, 100), 1000, 1023]:
        listed = [
            replace(vec, start=vec.start + k * vec.lanes, packed=vec.packed + k * vec.lanes)
            for vec, times in vector_runs(count, found, partial=partial)
            for k in range(times)
        ]
        assert tuple(listed) == split_lanes(count, found, partial=partial)
