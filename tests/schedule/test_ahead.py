"""Weights of following steps that kernels prefetch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add
from cannery.ops.matmul.op import MatMul
from cannery.ops.shared.fetch import Fetch
from cannery.schedule.ahead import LINE, weights_ahead
from cannery.schedule.schedule import ConstArray, Job
from cannery.target.targets import find_target
from nets.net_bench import make_net_source, reference_net
from nets.test_nets import run

KB = 1024


def pointwise(*channels: int) -> Graph:
    """Convolutions of one pixel on an image of 7x7, one after the other."""
    builder = GraphBuilder("pointwise")
    value = builder.input("x", (1, 7, 7, channels[0]))
    rng = np.random.default_rng(1)
    for k, (ic, oc) in enumerate(pairwise(channels)):
        weights = rng.standard_normal((1, 1, ic, oc)).astype(np.float32) / ic
        value = builder.node(
            Conv((1, 1), ((0, 0), (0, 0)), (1, 1), 1),
            (value, builder.constant("w", weights)),
            name=f"conv{k}",
        )
    builder.output(value)
    return builder.build()


def ahead(graph: Graph, target: str) -> list[int]:
    isa = find_target(target).isa
    return list(weights_ahead(make_net_source(graph, isa, "net").program, isa))


def test_weights_behind_a_step_are_asked_for_as_far_as_a_cache_reaches() -> None:
    graph = pointwise(256, 512, 512, 256)
    assert ahead(graph, "avx512") == [1024 * KB, 512 * KB, 0]
    assert ahead(graph, "avx2") == [512 * KB, 512 * KB, 0]


def test_weights_that_fit_into_the_cache_are_left_alone() -> None:
    assert ahead(pointwise(256, 256, 256), "avx512") == [0, 0]


def test_large_networks_without_a_kernel_that_prefetches() -> None:
    builder = GraphBuilder("table")
    table = builder.constant("table", np.zeros((1, 512 * KB), np.float32))
    builder.output(builder.node(Add(), (builder.input("x", (1, 512 * KB)), table), name="y"))
    assert ahead(builder.build(), "avx512") == [0]


@pytest.mark.parametrize(("tiles", "passes"), [(1, 0), (7, 0), (700, 3), (20, 144), (1, 100_000)])
def test_all_lines_are_shared_out(tiles: int, passes: int) -> None:
    source = make_net_source(pointwise(8, 8), find_target("generic").isa, "net")
    (planned,) = source.program.steps
    asked = 1000 * LINE - 8
    job = Job(source.graph, planned.step, source.isa, {}, "f", (), (), ahead=asked)
    fetch = Fetch.of(job, ConstArray("w", np.zeros(64, np.float32), ""), tiles, passes)
    assert fetch is not None
    assert fetch.start == 256
    each = fetch.per_tile + fetch.per_pass * passes
    assert asked <= tiles * each * LINE < asked + tiles * LINE + LINE


@pytest.mark.parametrize("target", ["generic", "avx2", "neon64"])
def test_networks_that_prefetch(target: str, tmp_path: Path) -> None:
    graph = pointwise(256, 512, 384, 8)
    isa = find_target(target).isa
    code = output_files(make_net_source(graph, isa, "net"), "test")["net.c"].decode()
    assert code.count("CANNERY_PREFETCH(net_L00") > 0
    run([reference_net("pointwise", graph)], target, tmp_path)


@pytest.mark.parametrize(
    ("target", "size", "fetched"),
    [("ssse3", 128, True), ("ssse3", 64, False), ("avx2", 128, False), ("atom32", 128, False)],
)
def test_a_matrix_that_one_vector_reads_from_the_second_level(
    target: str, size: int, fetched: bool
) -> None:
    """Without FMA, a processor does not look far enough ahead by itself."""
    builder = GraphBuilder("dense")
    weights = builder.constant("w", np.ones((size, size), np.float32))
    builder.output(builder.node(MatMul(), (builder.input("x", (1, size)), weights), name="y"))
    source = make_net_source(builder.build(), find_target(target).isa, "net")
    code = output_files(source, "test")["net.c"].decode()
    assert ("CANNERY_PREFETCH_NEAR(" in code) == fetched


def test_the_last_step_that_prefetches_asks_for_all_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights of steps that prefetch nothing are asked for by the one before them."""
    graph = pointwise(256, 512, 512, 256)
    program = make_net_source(graph, find_target("avx512").isa, "net").program
    fetches = [SimpleNamespace(fetches=k in (0, 1)) for k in range(3)]
    steps = [
        SimpleNamespace(step=p.step, choice=SimpleNamespace(schedule=s))
        for p, s in zip(program.steps, fetches, strict=True)
    ]
    some = SimpleNamespace(graph=graph, steps=steps)
    found = weights_ahead(cast(Any, some), find_target("avx512").isa)
    assert list(found) == [1024 * KB, 512 * KB, 0]
    fetches[1].fetches = False
    assert list(weights_ahead(cast(Any, some), find_target("avx512").isa))[1:] == [0, 0]
