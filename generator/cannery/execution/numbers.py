"""What is certain about a network's numbers: sums of integers, equal bits, errors of floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.execution.error_bounds import ErrorBound, error_bounds
from cannery.execution.program import NetworkProgram, Sample
from cannery.execution.samples import reference_outputs
from cannery.ir.graph import FloatLayer, Graph
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType
from cannery.measure.trial import random_inputs
from cannery.ops.quantized.sums import SumBound, integer_sums
from cannery.ops.same_bits import differing_layers
from cannery.target.runner import Runner

#: Where inputs lie if nobody says it.
UNIT_BOX = (-1.0, 1.0)


@dataclass(frozen=True)
class Numbers:
    """Facts about numbers.

    `sums` are those of integer layers. `differing` layers may give other last bits on other
    processors. `errors` bound the outputs for inputs in the `box`, `seen` are the largest errors of
    the samples that ran, in the order of `errors`.
    """

    sums: tuple[SumBound, ...]
    differing: tuple[FloatLayer, ...]
    box: tuple[float, float]
    errors: tuple[ErrorBound, ...]
    seen: tuple[float, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """What contradicts a bound, as text."""
        overflows = [f"sums of {each.layer!r} may overflow" for each in self.sums if not each.fits]
        wrong = [
            f"output {bound.output!r} is off by {seen:.3g}, the bound is {bound.error:.3g}"
            for bound, seen in zip(self.errors, self.seen, strict=True)
            if bound.error is not None and seen > bound.error
        ]
        return (*overflows, *wrong)


def box_samples(graph: Graph, count: int, box: tuple[float, float]) -> list[Sample]:
    """Random inputs: floats within the box, integers of their whole range."""
    low, high = box
    return [_within(random_inputs(graph, seed), low, high, seed) for seed in range(count)]


def _within(sample: Sample, low: float, high: float, seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(low, high, value.shape).astype(value.dtype)
        if value.dtype.kind == "f" else value
        for name, value in sample.items()
    }  # fmt: skip


def numbers_of(
    program: NetworkProgram, runner: Runner, samples: Sequence[Sample], box: tuple[float, float]
) -> Numbers:
    """Bounds for inputs in a box, and the errors that the program has on samples from there.

    Raises ToolchainError if the program fails.
    """
    source = program.source
    graph = source.graph
    outputs = [
        name for name in graph.outputs
        if graph.types[name].dtype is DType.FLOAT32 and not graph.integer_layers
        and graph.quantization is None
    ]  # fmt: skip
    errors: tuple[ErrorBound, ...] = ()
    if outputs:
        errors = tuple(each for each in error_bounds(source, *box) if each.output in outputs)
    return Numbers(
        integer_sums(graph), differing_layers(graph), box, errors,
        _seen(program, runner, samples, [each.output for each in errors]),
    )  # fmt: skip


def _seen(
    program: NetworkProgram, runner: Runner, samples: Sequence[Sample], outputs: Sequence[str]
) -> tuple[float, ...]:
    """The largest absolute error of each output."""
    if not outputs:
        return ()
    exact = reference_outputs(program.source.graph, samples)
    found = program.run(runner)
    return tuple(
        max(_difference(y[name], r[name]) for y, r in zip(found, exact, strict=True))
        for name in outputs
    )


def _difference(y: RefArray, exact: RefArray) -> float:
    wrong = np.asarray(y, np.float64) - np.asarray(exact, np.float64)
    return float(np.max(np.abs(wrong), initial=0.0))
