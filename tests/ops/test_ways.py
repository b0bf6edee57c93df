"""The quicker of several ways is taken wherever it may be: what nothing but a clock would see."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.lowering.lower import chains, cut
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.ops.chains.rows import RowChain
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.product import ENOUGH_GROUPS, Cut
from cannery.ops.movement.op import Pad
from cannery.ops.quantized.depthwise_bytes import chains_of
from cannery.ops.quantized.groups import matrix_pays
from cannery.ops.quantized.ways import choose_way
from cannery.ops.reduce.op import ReduceMean
from cannery.schedule.schedule import legal
from cannery.target.isa import isa
from ops.cases import all_cases
from ops.cases_quantized import convolution

#: Weights of which no pair leaves int16, some do, and one is -128.
WEIGHTS = {"small": 30, "large": 127, "lowest": -128}


@pytest.mark.parametrize(
    ("name", "dtype", "ways"),
    [
        ("ssse3", "int8", ("dot4u", "dot4", "dot4w")),
        ("avx2", "uint8", ("dot4u", "dot4", "dot4w")),
        ("avx512", "int8", ("dot4u", "dot4", "dot4w")),
        ("avx512vnni", "int8", ("dot4u", "dot4u", "dot4u")),
        ("neon64dot", "int8", ("dot4", "dot4", "dot4")),
        ("neon64", "int8", ("dot4", "dot4", "dot4w")),
        ("neon64i8mm", "int8", ("dot4", "dot4", "dot4")),
        ("neon32", "uint8", ("dot4", "dot4", "dot4w")),
        ("riscv64v128", "int8", ("dot4", "dot4", "dot4")),
        ("avx2", "int16", ("dot", "dot", "dot")),
    ],
)
def test_ways_to_multiply_bytes(name: str, dtype: str, ways: tuple[str, ...]) -> None:
    b = GraphBuilder("bytes")
    x = b.input("x", (1, 8), DType(dtype))
    b.output(x)
    found = []
    for number in WEIGHTS.values():
        w = np.full((8, 4), 1, np.int8)
        w[0:2, 0] = number
        found.append(choose_way(b.build(), x, w, isa(name)).dot)
    assert tuple(found) == ways


@pytest.mark.parametrize(
    ("k", "runs", "nr", "pays"),
    [(5, 5, 2, True), (9, 3, 2, False), (24, 3, 3, True), (4, 1, 4, False)],
)
def test_two_rows_at_once_where_that_is_quicker(k: int, runs: int, nr: int, pays: bool) -> None:
    """Counted: five numbers take one group of eight, nine take two and need as many shuffles."""
    assert matrix_pays(k, runs, nr) is pays
    b = GraphBuilder("bytes")
    x = b.input("x", (1, 8), DType.INT8)
    b.output(x)
    w = np.ones((8, 4), np.int8)
    assert choose_way(b.build(), x, w, isa("neon64i8mm"), rows=2).matrix
    assert not choose_way(b.build(), x, w, isa("neon64dot"), rows=2).matrix


@pytest.mark.parametrize(
    ("weights", "largest", "chains"),
    [
        ([-128] * 4, 128, [1, 1, 1, 1]),
        ([-128] * 4, 127, [2, 2]),
        ([127, -127, 127, 127, 1, 1], 128, [2, 3, 1]),
        ([60, -60, 60, 60, 60], 128, [4, 1]),
        ([60, -60, 60, 60, 60], 100, [5]),
    ],
)
def test_products_of_bytes_add_up_in_int16(
    weights: list[int], largest: int, chains: list[int]
) -> None:
    """Whatever their signs, and the more of them the fewer additions of int32."""
    w = np.stack([np.array(weights, np.int8), np.ones(len(weights), np.int8)], axis=1)
    assert [len(chain) for chain in chains_of(w, largest)] == chains


@pytest.mark.parametrize("stops", [False, True])
def test_products_are_cut_along_columns_where_there_are_enough(stops: bool) -> None:
    """Sequences that end early in any case, as the last rows would be no work."""
    job: Any = SimpleNamespace(cut=True, rows_stop=stops)
    enough = 2 if stops else ENOUGH_GROUPS
    for groups in range(1, 12):
        for tiles in range(1, 12):
            found = Cut.of(job, [groups - 1, 1], [tiles])
            if max(groups, tiles) < 2:
                assert found == Cut()
            elif groups >= enough or (groups >= tiles and not stops):
                assert found == Cut(columns=True, units=groups)
            else:
                assert found == Cut(rows=True, units=tiles)
    assert Cut.of(SimpleNamespace(cut=False, rows_stop=stops), [9], [9]) == Cut()  # type: ignore[arg-type]


def test_chains_compute_as_many_rows_as_their_first_part_makes_of_one() -> None:
    """Or all rows."""
    target, strides = isa("ssse3"), []
    for case in all_cases():
        graph = case.make()
        for step in chains(graph, cut(graph)):
            for way in legal(graph, step, target):
                if isinstance(way, RowChain):
                    op, height = step.anchor.op, graph.types[step.output].shape[1]
                    stride = op.strides[0] if isinstance(op, ConvTranspose) else 1
                    rows = {int(p["rows"]) for p in way.candidates(graph, step, target)}
                    assert all(r % stride == 0 or r == height for r in rows), case.name
                    assert min(stride, height) in rows, case.name
                    strides.append(stride)
    assert {1, 2} <= {*strides}


@pytest.mark.parametrize("axes", [(3,), (2, 3), (1, 2), (1, 2, 3)])
def test_reductions_read_vectors(axes: tuple[int, ...]) -> None:
    """Of the kept axes, or of the reduced ones if these are contiguous."""
    b = GraphBuilder("reduce")
    b.output(b.node(ReduceMean(axes, True), [b.input("x", (1, 4, 5, 32))], name="y"))
    graph, target = b.build(), isa("avx2")
    (step,) = cut(graph)
    (data,) = all_data(graph, [step], random_inputs(graph))
    (way,) = (s for s in legal(graph, step, target) if s.id == "reduce.nest")
    trial = make_trial(graph, step, way, way.candidates(graph, step, target)[0], target, data)
    assert trial
    assert "f32x8_load" in way.kernel(trial.job("y")).code


def test_positions_of_winograd_on_bytes_do_not_share_cache_sets() -> None:
    """Neither of inputs (int16) nor of sums, whose distances in numbers the code shows."""
    graph = convolution(DType.INT8, (1, 32, 32, 16), (3, 3), 16, 127, pads=((1, 1), (1, 1)))
    target = isa("avx2")
    (step,) = cut(graph)
    (data,) = all_data(graph, [step], random_inputs(graph))
    (way,) = (s for s in legal(graph, step, target) if s.id == "quantized.winograd")
    batches = set()
    for params in way.candidates(graph, step, target):
        trial = make_trial(graph, step, way, params, target, data)
        assert trial
        code = way.kernel(trial.job("y")).code
        ends = re.findall(r"(inputs|sums) \+ \(e \* (\d+)", code)
        assert {name for name, _ in ends} == {"inputs", "sums"}
        for name, numbers in ends:
            assert int(numbers) * {"inputs": 2, "sums": 4}[name] % 512, params
        batches.add(params["batch"])
    assert {64} < batches


def test_padding_on_the_right_alone_sets_nothing_before() -> None:
    """g++ warns of a memset of constant length 0."""
    b = GraphBuilder("pad")
    pads = ((0, 0), (0, 1), (0, 1), (0, 0))
    b.output(b.node(Pad(pads, -128.0), [b.input("x", (1, 4, 5, 8), DType.INT8)], name="y"))
    graph, target = b.build(), isa("avx2")
    (step,) = cut(graph)
    (data,) = all_data(graph, [step], random_inputs(graph))
    (way,) = (s for s in legal(graph, step, target) if s.id == "movement.pad_bytes")
    trial = make_trial(graph, step, way, way.candidates(graph, step, target)[0], target, data)
    assert trial
    assert not re.search(r"memset\(yr, \d+, \(size_t\)0\)", way.kernel(trial.job("y")).code)


#: Schedules whose vectors are not a tunable, so that only a clock would see narrow ones.
WIDE = {
    "matmul.general", "movement.general", "movement.strided", "normalization.channels",
    "normalization.nest", "quantize.stream", "quantized.quantize", "quantized.softmax",
    "reduce.nest", "resize.direct_c", "softmax.across", "softmax.row",
}  # fmt: skip


def test_vectors_are_as_wide_as_the_processor_s() -> None:
    """Of each schedule in some case at least."""
    target, missing = isa("avx2"), set(WIDE)
    for case in all_cases():
        graph = case.make()
        steps = cut(graph)
        ways = [(k, way) for k, s in enumerate(steps) for way in legal(graph, s, target)]
        wanted = [(k, way) for k, way in ways if way.id in missing]
        if not wanted:
            continue
        with np.errstate(all="ignore"):
            data = all_data(graph, steps, random_inputs(graph))
        for k, way in wanted:
            params = way.candidates(graph, steps[k], target)[0]
            made = make_trial(graph, steps[k], way, params, target, data[k])
            if made and re.search(r"\b[fi]32x8_", way.kernel(made.job("k")).code):
                missing.discard(way.id)
    assert not missing
