"""The text of run functions, run on labels: pointers, strides, cleared halos, several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cannery.emit import many
from cannery.emit.source import Source
from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering import lifetimes
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Mul
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.ops.reduce.op import ReduceMean
from cannery.passes import run_passes
from cannery.target.isa import ISAS, isa
from emit.test_many import stacked_source, two_heads
from lowering.interpreter import FaultError
from lowering.run_functions import check_run_functions
from nets.net_bench import make_net_source
from nets.random_graphs import random_graph


@pytest.fixture(params=[lifetimes.PINNED_BYTES, 0], ids=["halos kept", "halos shared"])
def pinned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much separate memory halos may have."""
    monkeypatch.setattr(lifetimes, "PINNED_BYTES", request.param)


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("name", ISAS)
def test_random_networks(name: str) -> None:
    for seed in range(2):
        graph = run_passes(random_graph(2 * list(ISAS).index(name) + seed))
        check_run_functions(make_net_source(graph, isa(name), "net", views=bool(seed % 2)))


def gated(batch: int = 1) -> Graph:
    """Twice an image that windows read before and after a matrix product, which is stacked."""
    rng = np.random.default_rng(3)
    b = GraphBuilder("net")

    def weight(*shape: int) -> str:
        return b.constant("w", rng.standard_normal(shape).astype(np.float32))

    same = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    x = b.input("image", (batch, 6, 5, 8))
    for k in range(2):
        x = b.node(same, [x, weight(3, 3, 8, 8)], name=f"first{k}")
        mean = b.node(ReduceMean((1, 2), False), [x], name=f"mean{k}")
        gate = b.node(MatMul(), [mean, weight(8, 8)], name=f"gate{k}")
        gate = b.node(Reshape((batch, 1, 1, 8)), [gate], name=f"shaped{k}")
        y = b.node(same, [x, weight(3, 3, 8, 8)], name=f"second{k}")
        x = b.node(Mul(), [y, gate], name=f"product{k}")
    b.output(x)
    return b.build()


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("make", [two_heads, gated])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", ["sse2", "avx2", "neon64"])
def test_several_at_once(make: Callable[[int], Graph], batch: int, name: str) -> None:
    source = stacked_source(make(batch), name, (5, 2))
    assert [chunk.images for chunk in source.many.chunks] == [5, 2]
    check_run_functions(source)


def test_halos_of_several_images_are_cleared() -> None:
    """The workspace of many is not kept zero."""
    source = stacked_source(gated(), "sse2", (3,))
    (chunk,) = source.many.chunks
    spread = [source.program.buffers[root].layout.halo for root in chunk.offsets]
    assert any(spread)
    assert any("memset" in line for line in many.chunk_lines(source, chunk))


def test_what_has_a_halo_is_not_stacked() -> None:
    """A matrix product of pixels that a window reads, too."""
    b = GraphBuilder("net")
    same = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    window = b.constant("w", np.ones((3, 3, 8, 8), np.float32))
    x = b.node(same, [b.input("image", (1, 6, 5, 8)), window], name="first")
    matrix = b.constant("m", np.ones((8, 8), np.float32))
    b.output(b.node(MatMul(), [x, matrix], name="pixels"))
    b.output(b.node(same, [x, window], name="second"))
    found = set()
    for name in ISAS:
        source = stacked_source(b.build(), name, (3,))
        for chunk in source.many.chunks:
            for index in chunk.steps:
                planned = source.program.steps[index]
                roots = [source.program.buffers[n].root for n in (*planned.reads, *planned.writes)]
                assert not any(source.program.buffers[root].layout.halo for root in roots)
        buffers = source.program.buffers.values()
        found.add(any(b.layout.halo for b in buffers if b.value == "first"))
        check_run_functions(source)
    assert True in found


def _moved(source: Source) -> Source:
    offsets = {root: at + 64 for root, at in source.workspace.offsets.items()}
    return replace(source, workspace=replace(source.workspace, offsets=offsets))


def _spread(source: Source) -> Source:
    (chunk,) = source.many.chunks
    chunk = replace(chunk, offsets=dict.fromkeys(chunk.offsets, 0))
    return replace(source, many=replace(source.many, chunks=(chunk,)))


@pytest.mark.parametrize("wrong", [_moved, _spread])
def test_wrong_offsets_are_seen(wrong: Callable[[Source], Source]) -> None:
    source = stacked_source(two_heads(), "avx2", (3,))
    with pytest.raises(FaultError):
        check_run_functions(wrong(source))
