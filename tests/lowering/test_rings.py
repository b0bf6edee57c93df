"""Pasts that stay in place: which states are such, and that windows move over the right rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.frontends.streaming import to_streaming
from cannery.ir.graph import Graph, State
from cannery.layouts import Halo, nhwc
from cannery.lowering.assign import assign
from cannery.lowering.rings import Ring, find_rings, share_rings
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Slice, Transpose
from cannery.passes import run_passes
from cannery.schedule.program import Program
from cannery.target.isa import isa
from ops.cases import Net

Array = NDArray[Any]


def program(graph: Graph, name: str = "generic") -> Program:
    graph = run_passes(graph)
    segments = make_segments(graph)
    best = Defaults(graph, segments, isa(name), nhwc.ORDER, 1e-4).plan({})
    return assign(graph, best.steps(segments), best.choices, isa(name))


def rings(graph: Graph, name: str = "generic") -> tuple[Ring, ...]:
    return find_rings(program(graph, name))


def moved(calls: Sequence[Ring]) -> list[Array]:
    """What the windows of successive calls hold where rows are numbered from 0; past rows are -1.

    As `emit/step.c.j2` moves them, row by row.
    """
    (rows,) = {ring.bytes // ring.pitch_bytes for ring in calls}
    memory = np.full(rows, -9)
    memory[calls[0].first : calls[0].first + calls[0].reach] = -1
    found, at, number = [], 0, 0
    for ring in calls:
        first = ring.first + at
        assert first + ring.reach + ring.count <= rows
        window = memory[first : first + ring.reach + ring.count]
        window[ring.reach :] = range(number, number + ring.count)
        number += ring.count
        found.append(window.copy())
        if not ring.begins_anew:
            memory[at : at + ring.count] = window[ring.reach :]
            at = (at + ring.count) % ring.back
        else:
            memory[ring.first : ring.first + ring.reach] = window[-ring.reach :].copy()
            at = 0
    return found


@pytest.mark.parametrize("reach", [1, 2, 3, 4, 5, 7, 8, 12, 13])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_windows_hold_the_last_rows(reach: int, count: int) -> None:
    layout = nhwc.make((1, reach + count, 4))
    ring = Ring(0, "w", reach, count, 4, layout, frozenset(), frozenset())
    assert ring.bytes <= 4 * ring.pitch * (2 * reach + 2 * count)
    check_windows([ring] * 40)


def check_windows(calls: Sequence[Ring]) -> None:
    last = 0
    for ring, window in zip(calls, moved(calls), strict=True):
        last += ring.count
        right = [max(row, -1) for row in range(last - ring.count - ring.reach, last)]
        assert window.tolist() == right


@pytest.mark.parametrize("reach", [1, 2, 3, 5, 8, 13, 40])
@pytest.mark.parametrize("counts", [(1, 2), (1, 64), (2, 3), (4, 6, 16), (3, 7, 8), (1, 12, 13)])
def test_calls_of_several_sizes_share_a_ring(reach: int, counts: tuple[int, ...]) -> None:
    """Whatever their order; no call writes where its window is not."""
    layouts = [nhwc.make((1, reach + count, 4)) for count in counts]
    room = max(layout.elements for layout in layouts)
    rings = [
        Ring(0, "w", reach, count, 4, layout, frozenset(), frozenset(), counts, room)
        for count, layout in zip(counts, layouts, strict=True)
    ]
    assert rings[0].bytes <= 16 * (2 * reach + 5 * max(counts))
    for seed in range(20):
        check_windows(Random(seed).choices(rings, k=60))


def test_programs_that_disagree_share_no_ring() -> None:
    b = Net()
    x = convolution(b, b.input("x", (1, 32, 4)))
    graph = b.graph(b.node(Tanh(), [convolution(b, x)]))
    programs = [program(to_streaming(graph, block, 0, (1, 4))) for block in (1, 4)]
    both = share_rings(programs)
    assert [[ring.counts for ring in rings] for rings in both] == [[(1, 4)] * 2] * 2
    assert both[0][0].bytes == both[1][0].bytes
    first = find_rings(programs[0])[0]
    wider = replace(first, pitch=first.pitch + 4)
    assert first.alike != wider.alike
    assert first.alike != replace(first, reach=first.reach + 1).alike
    assert share_rings([programs[0], program(cached(read_again=True))]) == [(), ()]


def convolution(b: Net, x: str, dilation: int = 2) -> str:
    op = Conv((1,), ((2 * dilation, 0),), (dilation,))
    return b.node(op, [x, b.weight(3, b.types[x].shape[-1], 4)])


@pytest.mark.parametrize("name", ["generic", "sse2", "avx512", "neon64"])
def test_every_past_of_a_chain_is_in_place(name: str) -> None:
    b = Net()
    x = b.input("x", (1, 32, 4))
    for dilation in (1, 2, 4, 8):
        x = b.node(Tanh(), [convolution(b, x, dilation)])
    whole = b.graph(x)
    for block in (1, 4, 32):
        graph = to_streaming(whole, block)
        found = rings(graph, name)
        assert [ring.state for ring in found] == [0, 1, 2, 3]
        assert [ring.reach for ring in found] == [2, 4, 8, 16]
        assert {ring.count for ring in found} == {block}


def cached(*, read_again: bool = False, turned: bool = False, late: bool = False) -> Graph:
    """A convolution with its past as a state of the model."""
    b = Net()
    x = b.input("x", (1, 2, 4))
    given = past = b.input("past", (1, 4, 6) if turned else (1, 6, 4))
    if turned:
        past = b.node(Transpose((0, 2, 1)), [past])
    window = b.node(Concat(1), [past, x], name="window")
    y = b.node(Conv((1,), ((0, 0),), (3,)), [window, b.weight(3, 4, 4)])
    if read_again:
        first = b.node(Slice((0, 0, 0), (1, 2, 4), (1, 1, 1)), [given])
        y = b.node(Add(), [y, b.node(MatMul(), [first, b.weight(4, 4)])])
    start = 1 if late else 2
    next_ = b.node(Slice((0, start, 0), (1, start + 6, 4), (1, 1, 1)), [window])
    if turned:
        next_ = b.node(Transpose((0, 2, 1)), [next_])
    graph = b.graph(b.node(Tanh(), [y]), next_)
    return replace(graph, states=(State("past", graph.outputs[1]),))


def test_pasts_that_the_model_keeps() -> None:
    for turned in (False, True):
        (ring,) = rings(cached(turned=turned))
        assert (ring.reach, ring.count, ring.window) == (6, 2, "window")
        assert len(ring.spared) == (4 if turned else 2)


def test_other_states_are_copied() -> None:
    """Those that are read besides, those whose window moves by another number of rows."""
    assert not rings(cached(read_again=True))
    assert not rings(cached(late=True))
    beginning = cached(turned=True)
    (state,) = beginning.states
    assert not rings(replace(beginning, states=(replace(state, initial=(1.0,) * 24),)))


def test_rows_of_images_with_a_halo() -> None:
    """Columns around a row move with it."""
    b = Net()
    x = b.input("x", (1, 8, 5, 4))
    y = b.node(Conv((1, 1), ((2, 0), (1, 1)), (1, 1)), [x, b.weight(3, 3, 4, 4)])
    y = b.node(Conv((1, 1), ((2, 0), (1, 1)), (1, 1)), [y, b.weight(3, 3, 4, 4)])
    graph = to_streaming(b.graph(y))
    found = rings(graph, "sse2")
    assert found
    for ring in found:
        halo = ring.layout.halo
        assert ring.gaps == (halo != Halo())
        assert ring.pitch == ring.layout.row
