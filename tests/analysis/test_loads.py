"""What a tile multiplies several times is loaded once: compilers like to load it for each use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.analysis.kernels import step_codes
from cannery.analysis.mix import Mix
from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering.assign import assign
from cannery.lowering.lower import cut
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.passes import run_passes
from cannery.schedule.program import Choice
from cannery.schedule.schedule import Params, all_schedules
from needs import need_program, need_toolchain


def convolution(size: int, ic: int, oc: int, kernel: int, group: int = 1) -> Graph:
    b = GraphBuilder("net")
    rng = np.random.default_rng(0)
    w = rng.standard_normal((kernel, kernel, ic // group, oc)).astype(np.float32)
    pad = (kernel // 2, kernel // 2)
    x = b.input("x", (1, size, size, ic))
    b.output(b.node(Conv((1, 1), (pad, pad), (1, 1), group), [x, b.constant("w", w)], name="y"))
    return run_passes(b.build())


def product(rows: int, k: int, n: int) -> Graph:
    b = GraphBuilder("net")
    w = np.random.default_rng(0).standard_normal((k, n)).astype(np.float32)
    b.output(b.node(MatMul(), [b.input("x", (rows, k)), b.constant("w", w)], name="y"))
    return run_passes(b.build())


def mix_of(graph: Graph, schedule: str, params: Params, target: str) -> Mix:
    """The instructions of the loop in which the step multiplies."""
    toolchain = need_toolchain(target)
    need_program("objdump", "llvm-objdump")
    isa = toolchain.target.isa
    steps = cut(graph)
    program = assign(graph, steps, [Choice(all_schedules()[schedule], params)], isa)
    source = make_source(program, isa, "net", {})
    _, codes = step_codes(source, output_files(source, "test"), toolchain)
    (hot,) = (code.hot for code in codes if code.schedule.startswith(schedule) and code.hot)
    return hot.mix


#: Graph, schedule, parameters, and the loads for each multiply-accumulate of the tile.
CASES = (
    (
        product(6, 64, 96), "matmul.dense_n",
        {"lanes": 16, "mr": 3, "nr": 3, "split": 1, "broadcast": "set1", "outside": "blocks",
         "unroll": 4, "joined": 0, "kc": 0},
        (3 + 3) / 9,
    ),
    (
        convolution(3, 128, 256, 1), "conv.gemm",
        {"lanes": 16, "mr": 3, "nr": 2, "broadcast": "set1", "outside": "blocks", "kc": 128,
         "panel": 32768},
        (3 + 2) / 6,
    ),
    (
        convolution(48, 16, 16, 3, 16), "conv.depthwise_px",
        {"lanes": 16, "mh": 6, "nr": 1, "broadcast": "load1", "unroll": "kh"},
        8 * 3 / 54,
    ),
    (
        convolution(48, 16, 16, 3, 16), "conv.depthwise_c",
        {"lanes": 16, "mh": 1, "mr": 12, "unroll": "kh", "inner": "px", "joined": 0},
        3 * 14 / 108,
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "schedule", "params", "loads"), CASES, ids=[case[1] for case in CASES]
)
def test_shared_vectors_are_loaded_once(
    graph: Graph, schedule: str, params: Params, loads: float, tmp_path: Path
) -> None:
    mix = mix_of(graph, schedule, params, "avx512")
    assert mix.multiplies and mix.loads <= 1.05 * loads * mix.multiplies
