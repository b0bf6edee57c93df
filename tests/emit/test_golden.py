"""Generated C under review: a tiny network per family of instruction sets, stored as it should be.

Choices are made here, not by the cost model, so that only changes of kernels and of emission show.
After a change that is meant, run `pytest tests/emit/test_golden.py --update-golden` and read the
diff.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.emit.making import make_source
from cannery.emit.source import render_model
from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering.assign import assign
from cannery.lowering.lower import cut
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Relu
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape
from cannery.ops.softmax.op import Softmax
from cannery.passes import run_passes
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Params, all_schedules
from cannery.target.isa import Isa, isa

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
ISAS = ("generic", "ssse3", "avx2", "avx512", "neon64")

#: The schedule of each kind of step; its first candidate is taken, unless parameters are given.
SCHEDULES = {
    "Conv": "conv.direct_oc",
    "MaxPool": "max_pool.direct_c",
    "Reshape": "movement.reshape",
    "MatMul": "matmul.dense_k",
    "Softmax": "softmax.row",
}


def tiny() -> Graph:
    """A 4x4x1 `image` -> convolution with ReLU, pooling, dense layer, softmax -> 2 `scores`."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("tiny")

    def weight(*shape: int) -> str:
        return b.constant("w", rng.integers(-8, 9, shape).astype(np.float32) / 8)

    x = b.input("image", (1, 4, 4, 1))
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    x = b.node(conv, [x, weight(3, 3, 1, 3), weight(3)], name="conv")
    x = b.node(Relu(), [x], name="relu")
    x = b.node(MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)), [x], name="pool")
    x = b.node(Reshape((1, 12)), [x], name="flat")
    x = b.node(MatMul(), [x, weight(12, 2), weight(2)], name="dense")
    b.output(b.node(Softmax(1), [x], name="scores"))
    return run_passes(b.build())


def choose(graph: Graph, step: Step, target: Isa) -> Choice:
    """The schedule of SCHEDULES."""
    schedule = all_schedules()[SCHEDULES[step.kind]]
    if step.kind == "Conv":
        lanes = min(target.widest, 4)
        params: Params = {"lanes": lanes, "mr": 2, "nr": 1, "unroll": "none", "broadcast": "set1"}
        return Choice(schedule, params)
    return Choice(schedule, schedule.candidates(graph, step, target)[0])


@pytest.mark.parametrize("name", ISAS)
def test_generated_c_is_as_stored(name: str, update_golden: bool) -> None:
    graph, target = tiny(), isa(name)
    steps = cut(graph)
    choices = [choose(graph, step, target) for step in steps]
    source = make_source(assign(graph, steps, choices, target), target, "tiny", {})
    text = render_model(replace(source, version="0"), "golden test")
    file = GOLDEN / f"{name}.c"
    if update_golden:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.is_file(), "run with --update-golden once"
    assert text == file.read_text()


def test_golden_files_stay_small() -> None:
    files = sorted(GOLDEN.iterdir())
    assert [f.name for f in files] == sorted(f"{name}.c" for name in ISAS)
    assert sum(f.stat().st_size for f in files) < 60_000
