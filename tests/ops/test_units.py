"""Kernels that are asked to be cut say truly into how many units, and take the bounds of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cannery.lowering.lower import cut
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.ops.recurrent.base import Recurrent
from cannery.schedule.schedule import Job, Schedule, legal
from cannery.target.isa import Isa, isa
from ops.cases import all_cases

#: Schedules some of whose kernels can be cut.
CUT = {
    "attention.rows", "conv.gemm", "conv.winograd_oc", "matmul.dense_k", "matmul.dense_n",
    "quantized.gates", "quantized.matmul_n", "recurrent.gates",
}  # fmt: skip


def jobs(target: Isa) -> Iterator[tuple[Schedule, Job]]:
    """Of all cases, with the schedule."""
    for case in all_cases():
        graph = case.make()
        steps = cut(graph)
        able = [(k, s) for k, step in enumerate(steps) for s in legal(graph, step, target)]
        able = [(k, schedule) for k, schedule in able if schedule.id in CUT]
        if not able:
            continue
        with np.errstate(all="ignore"):
            data = all_data(graph, steps, random_inputs(graph))
        for k, schedule in able:
            params = schedule.candidates(graph, steps[k], target)[0]
            trial = make_trial(graph, steps[k], schedule, params, target, data[k])
            if trial is not None:
                yield schedule, trial.job("k")


def test_units() -> None:
    counts = Counter[str]()
    for schedule, job in jobs(isa("avx2")):
        whole, parts = (schedule.kernel(replace(job, cut=asked)) for asked in (False, True))
        head = "int first_unit, int end_unit"
        assert not whole.units and head not in whole.code
        assert [c.name for c in parts.constants] == [c.name for c in whole.constants]
        if isinstance(op := job.step.anchor.op, Recurrent):
            samples = job.type(job.step.anchor.inputs[0]).shape[0]
            assert max(parts.units, 1) == (samples if samples > 1 else op.directions)
        if parts.units:
            assert head in parts.code, (schedule.id, job.step.name)
            counts[schedule.id] += 1
        else:
            assert parts.code == whole.code
        assert replace(parts, code="", constants=(), units=0) == replace(
            whole, code="", constants=()
        )
    assert set(counts) == CUT
