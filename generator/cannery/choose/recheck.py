"""Judges inexact schedules in numpy, for steps and networks, without building anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from cannery.choose.signature import step_text
from cannery.ir.evaluate import Values, evaluate, widen
from cannery.ir.graph import Graph
from cannery.ir.numeric import quick_products
from cannery.ir.registry import RefArray
from cannery.measure.cache import Environment, Measurement, MeasurementCache, environment_text
from cannery.measure.trial import random_inputs, step_data
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Schedule

#: Steps with more multiply-accumulates are not emulated: it would take longer than compiling.
MAX_MACS = 100_000_000

#: How many inputs a network is judged on; a network with as many products as such a step gets one.
SAMPLES = 2

#: Where errors of emulations are remembered, among the measurements.
_HERE = Environment("numpy", environment_text(), "", "emulation")


@runtime_checkable
class Emulates(Protocol):
    """A schedule that can compute in numpy what its float32 arithmetic makes of a step's inputs."""

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The output, rounded as the kernels round it."""


def emulated_error(graph: Graph, step: Step, schedule: Schedule) -> float | None:
    """max|y - r| / max|r| of a step on normal inputs; None if unknown.

    Results are kept in the user's cache, by operator and weights.
    """
    if not isinstance(schedule, Emulates) or step.macs(graph) > MAX_MACS:
        return None
    cache = MeasurementCache(_HERE)
    cache.load()
    key = _key(graph, step, schedule)
    known = cache.get(key)
    if known is None:
        known = Measurement(_emulate(graph, step, schedule))
        cache.add({key: known})
    return known.error


def network_error(graph: Graph, choices: Sequence[tuple[Step, Choice]]) -> float:
    """max|y - r| / max|r| over the outputs, emulating only inexact choices.

    It uses normal inputs; the choices' schedules must be exact or able to emulate.
    """
    worst = 0.0
    macs = sum(step.macs(graph) for step, _ in choices)
    for seed in range(1 if macs > MAX_MACS else SAMPLES):
        inputs = random_inputs(graph, seed)
        with np.errstate(all="ignore"), quick_products():
            expected = evaluate(graph, inputs)
            found = _emulated_values(graph, choices, inputs)
        for name in graph.outputs:
            worst = max(worst, _distance(found[name], expected[name]))
    return worst


def _emulated_values(
    graph: Graph, choices: Sequence[tuple[Step, Choice]], inputs: Mapping[str, RefArray]
) -> Values:
    values = Values(graph, inputs, only=graph.outputs)
    for step, choice in choices:
        if choice.inexact and isinstance(choice.schedule, Emulates):
            values[step.output] = widen(
                choice.schedule.emulate(graph, step, [values[v] for v in step.inputs])
            )
            for node in step.nodes:
                values.done(node)
            continue
        for node in step.nodes:
            values.compute(node)
    return values


def _distance(found: RefArray, expected: RefArray) -> float:
    """max|y - r| / max|r|; large if it is NaN."""
    wide, right = found.astype(np.float64), expected.astype(np.float64)
    largest = float(np.max(np.abs(right), initial=0.0))
    error = float(np.max(np.abs(wide - right), initial=0.0)) / (largest or 1.0)
    return error if np.isfinite(error) else 1e300


def _key(graph: Graph, step: Step, schedule: Schedule) -> str:
    digest = hashlib.sha256(f"{schedule.id} {schedule.version}\n{step_text(graph, step)}".encode())
    for node in step.nodes:
        for value in node.inputs:
            if value in graph.constants:
                digest.update(np.ascontiguousarray(graph.constants[value]).tobytes())
    return digest.hexdigest()


def _emulate(graph: Graph, step: Step, schedule: Emulates) -> float:
    rng = np.random.default_rng(0)
    values: dict[str, RefArray] = {
        v: rng.standard_normal(graph.types[v].shape) for v in step.inputs
    }
    data = step_data(graph, step, values)
    with np.errstate(all="ignore"):
        found = schedule.emulate(graph, step, data.inputs)
    return _distance(found, data.outputs[0])
