"""Graphs are placed in rows, each edge downwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.reporting.placing import EDGE_WIDTH, NODE_WIDTH, Link, ascending, place


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Link]]:
    """Up to twelve nodes and any links from one to a later one."""
    count = draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    return count, draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []


@given(graphs())
def test_nothing_overlaps_and_all_goes_down(graph: tuple[int, list[Link]]) -> None:
    count, links = graph
    placed = place(count, links)
    assert set(placed.points) == set(range(count)) and set(placed.routes) == set(links)
    for (source, target), route in placed.routes.items():
        assert route[0] == placed.points[source] and route[-1] == placed.points[target]
        assert [row for _, row in route] == [*range(route[0][1], route[-1][1] + 1)]
        assert len(route) > 1
    for one in range(count):
        column, row = placed.points[one]
        assert column >= -1e-9 and row >= 0
        for other in range(one):
            if placed.points[other][1] == row:
                assert abs(column - placed.points[other][0]) >= NODE_WIDTH - 1e-9
        for route in placed.routes.values():
            for x, y in route[1:-1]:
                assert y != row or abs(x - column) >= (NODE_WIDTH + EDGE_WIDTH) / 2 - 1e-9


def test_a_chain_is_straight() -> None:
    placed = place(4, [(0, 1), (1, 2), (2, 3)])
    assert [placed.points[k] for k in range(4)] == [(0.0, k) for k in range(4)]


def test_branches_are_symmetric_and_not_crossed() -> None:
    placed = place(6, [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)])
    x = {k: column for k, (column, _) in placed.points.items()}
    assert (x[1] < x[2]) == (x[3] < x[4])
    assert x[0] == x[5] == (x[1] + x[2]) / 2 == (x[3] + x[4]) / 2


def test_what_only_a_later_layer_reads_stands_above_that() -> None:
    assert place(4, [(0, 1), (1, 2), (3, 2)]).points[3][1] == 1


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 3)), max_size=9))
def test_rows_are_as_near_to_their_neighbours_as_can_be(pairs: list[tuple[int, int]]) -> None:
    """Of ascending sequences the nearest: a maximum of minima of means (Barlow et al., 1972)."""
    wishes, needed = [float(w) for w, _ in pairs], [float(n) for _, n in pairs]
    left = [w - n for w, n in zip(wishes, needed, strict=True)]

    def mean(first: int, last: int) -> float:
        return sum(left[first : last + 1]) / (last - first + 1)

    expected = [
        max(min(mean(a, b) for b in range(k, len(left))) for a in range(k + 1))
        for k in range(len(left))
    ]
    assert ascending(wishes, needed) == pytest.approx(expected)
