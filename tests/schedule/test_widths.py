"""What a candidate costs depends on the width of its vectors, and on what registers hold."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.lowering.lower import cut
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Tanh
from cannery.ops.matmul.op import MatMul
from cannery.schedule.program import Step
from cannery.schedule.schedule import Params, Schedule, legal
from cannery.target.isa import ISAS, Isa
from cannery.target.targets import parse_isa
from ops.cases import Net

AVX512 = ISAS["avx512"]


def one_layer(op: Op, shape: tuple[int, ...], weight: tuple[int, ...]) -> Graph:
    """A layer with constant weights."""
    net = Net()
    return net.graph(net.node(op, [net.input("x", shape), net.weight(*weight)]))


@cache
def graphs() -> dict[str, Graph]:
    """Layers whose time goes into multiply-accumulates."""
    same, once = ((1, 1), (1, 1)), (1, 1)
    conv, up = Conv(once, same, once), ConvTranspose((2, 2), ((0, 0), (0, 0)), once, (0, 0))
    return {
        "conv": one_layer(conv, (1, 32, 32, 32), (3, 3, 32, 32)),
        "small": one_layer(conv, (1, 5, 5, 32), (3, 3, 32, 32)),
        "depthwise": one_layer(Conv(once, same, once, 32), (1, 32, 32, 32), (3, 3, 1, 32)),
        "transposed": one_layer(up, (1, 32, 32, 32), (2, 2, 32, 32)),
        "dense": one_layer(MatMul(), (64, 64), (64, 64)),
    }


def with_macs(lanes: int, macs: float) -> Isa:
    """AVX-512 on a processor that does this many multiply-accumulates of one width per cycle."""
    core = AVX512.core
    vectors = {**core.vectors, lanes: replace(core.rates(lanes), macs=macs)}
    return AVX512.meant_for(replace(core, vectors=vectors))


def candidates(layer: str, schedule: str, lanes: int) -> tuple[Graph, Step, Schedule, list[Params]]:
    """Those of a schedule with vectors of one width, of single inputs."""
    graph = graphs()[layer]
    (step,) = cut(graph)
    (found,) = [s for s in legal(graph, step, AVX512) if s.id == schedule]
    kept = [
        params
        for params in found.candidates(graph, step, AVX512)
        if params.get("lanes") == lanes and params.get("broadcast") != "pairs"
    ]
    assert kept
    return graph, step, found, kept


#: Layers and schedules; of `conv.gemm` only the cheapest candidates are kept, the wide ones.
FAMILIES = (
    ("conv", "conv.direct_oc"), ("small", "conv.direct_peeled"), ("conv", "conv.direct_px"),
    ("conv", "conv.unrolled"), ("conv", "conv.gemm"), ("conv", "conv.winograd_oc"),
    ("conv", "conv.winograd_planar"), ("depthwise", "conv.depthwise_px"),
    ("transposed", "conv_transpose.phases"), ("dense", "matmul.dense_n"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "schedule", "lanes"),
    [(*f, lanes) for f in FAMILIES for lanes in (8, 16) if (f[1], lanes) != ("conv.gemm", 8)],
)
def test_slow_multiplications_cost_those_who_use_them(
    layer: str, schedule: str, lanes: int
) -> None:
    graph, step, found, kept = candidates(layer, schedule, lanes)
    slow, other = with_macs(lanes, 0.1), with_macs(24 - lanes, 0.1)
    for params in kept:
        now = found.cost(graph, step, params, AVX512).cycles
        assert found.cost(graph, step, params, slow).cycles > 1.5 * now, params
        assert found.cost(graph, step, params, other).cycles == now, params


def test_tiles_of_several_vectors_spill_where_registers_are_few() -> None:
    """Of straight-line code: 8 registers hold the sums, but not the pixels as well."""
    graph = one_layer(Conv((1, 1), ((2, 2), (2, 2)), (1, 1)), (1, 28, 28, 1), (5, 5, 1, 6))
    (step,) = cut(graph)

    def ratio(name: str) -> float:
        """How much more two vectors at a time cost than one, for each multiplication."""
        isa = parse_isa(name)
        (unrolled,) = [s for s in legal(graph, step, isa) if s.id == "conv.unrolled"]
        one, two = (
            unrolled.cost(graph, step, {"order": "planar", "lanes": 4, "mr": mr}, isa).cycles
            for mr in (1, 2)
        )
        return two / one

    assert ratio("ssse3-32") > max(1.2, ratio("ssse3"))


def test_single_steps_take_vectors_that_are_not_halved() -> None:
    """Where wide vectors do no more per cycle, a step that waits for itself takes narrower ones."""
    net = Net()
    x, once = net.input("x", (1, 1, 9, 16)), (1, 1)
    conv = Conv(once, ((0, 0), (0, 0)), (1, 4))
    graph = net.graph(net.node(Tanh(), [net.node(conv, [x, net.weight(1, 3, 16, 16)])]))
    (step,) = cut(graph)
    chosen = []
    for isa in (AVX512, AVX512.meant_for("zen4")):
        (single,) = [s for s in legal(graph, step, isa) if s.id == "conv.single"]
        tried = single.candidates(graph, step, isa)
        best = min(tried, key=lambda p: single.cost(graph, step, p, isa).total(isa))
        chosen.append(best["lanes"])
    assert chosen == [16, 8]
