"""Layers in another precision than float32: those that bear it, by the error of the outputs.

Which layers there are, and what becomes of the network, is the business of each precision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.choose.bisect import longest
from cannery.choose.rounding import MARGIN, rounded_outputs
from cannery.errors import OptionError
from cannery.execution.samples import errors_by_output
from cannery.ir.graph import Graph, HalfLayers
from cannery.lowering.lower import cut
from cannery.quantization.halves import enough
from cannery.quantization.judge import Judge
from cannery.schedule.program import Step

OPTION = "--compute-as"

#: The error where numbers overflow; its square is a float.
WORST = 1e100


@dataclass(frozen=True)
class Precision:
    """Another precision: its type, and what texts call it; `none` and `refused` say that no layer,
    or not a layer, computes in it.

    `able` are the steps of a graph that kernels can compute so, `worthwhile` those of some steps
    that gain by it; `applied` is the graph with some steps in this precision, `stored` the inputs
    of a step that then take half of the memory.
    """

    type: str
    words: str
    none: str
    refused: str
    able: Callable[[Graph], tuple[Step, ...]]
    worthwhile: Callable[[Graph, Sequence[Step]], tuple[Step, ...]]
    applied: Callable[[Graph, Sequence[Step]], Graph]
    stored: Callable[[Step], Collection[str]]


def compute_as(
    precision: Precision, graph: Graph, max_error: float, samples: Path | None = None
) -> Graph:
    """The graph with those layers in a precision that bear it, and `Graph.half_layers`.

    `samples` is a .npz file of typical inputs (None: seeded ones). Raises OptionError if there are
    no such layers, and if the error cannot be kept.
    """
    able = precision.worthwhile(graph, precision.able(graph))
    if not able:
        raise OptionError(
            precision.none, where=OPTION,
            cure="leave it out, or take --weights-as float16",
        )  # fmt: skip
    judge = _Errors(precision, Judge.of(graph, samples))
    chosen, kept = able, dict[str, str]()
    error = judge.error(able)
    if not MARGIN * error <= max_error:
        chosen, kept = _bearable(judge, able, max_error, error)
        error = judge.error(chosen)
    for step in able:
        if step not in chosen and step.name not in kept:
            kept[step.name] = "only its neighbours would gain"
    return _marked(judge, chosen, kept, error)


@dataclass(frozen=True)
class _Errors:
    """What steps in a precision cost the outputs."""

    precision: Precision
    judge: Judge

    def error(self, steps: Sequence[Step]) -> float:
        """The largest error of an output with these steps in it."""
        made = self.precision.applied(self.judge.graph, steps)
        outputs = [rounded_outputs(made, sample) for sample in self.judge.samples]
        return _finite(max(errors_by_output(outputs, self.judge.expected).values()))

    def alone(self, step: Step) -> float:
        """The same for one step, on the last sample."""
        made = self.precision.applied(self.judge.graph, [step])
        found = rounded_outputs(made, self.judge.samples[-1])
        return _finite(max(errors_by_output([found], self.judge.expected[-1:]).values()))


def _finite(error: float) -> float:
    return error if np.isfinite(error) else WORST


def _bearable(
    judge: _Errors, able: Sequence[Step], max_error: float, error: float
) -> tuple[tuple[Step, ...], dict[str, str]]:
    """The steps to compute in the precision if all together, with this error, lose too much; why
    not the others.

    Those that lose least per multiply-accumulate come first; errors of layers add up like random
    numbers, by their squares.
    """
    graph, precision = judge.judge.graph, judge.precision
    alone = {step.name: judge.alone(step) for step in able}
    work = {step.name: step.macs(graph) + 1 for step in able}
    order = sorted(able, key=lambda step: (alone[step.name] ** 2 / work[step.name], step.name))

    def joined(some: Sequence[Step]) -> tuple[Step, ...]:
        return precision.worthwhile(graph, [step for step in able if step in some])

    def bears(some: Sequence[Step]) -> bool:
        tried = joined(some)
        return bool(tried) and MARGIN * judge.error(tried) <= max_error

    most = longest(order, bears)
    chosen = joined(most)
    if not chosen:
        raise OptionError(
            f"layers in {precision.words} cost the outputs {error:.2g}, with a margin more than "
            f"--max-error {max_error:g}",
            where=OPTION, cure=f"allow more, such as --max-error {enough(error):g}",
        )  # fmt: skip
    kept = {step.name: f"alone it loses {alone[step.name]:.2g}" for step in order[len(most) :]}
    return chosen, kept


def _marked(judge: _Errors, steps: Sequence[Step], kept: Mapping[str, str], error: float) -> Graph:
    graph, precision = judge.judge.graph, judge.precision
    made = precision.applied(graph, steps)
    floats = {step.name for step in cut(graph) if step.macs(graph)}
    others = floats - {step.name for step in steps} - kept.keys()
    reasons = dict.fromkeys(sorted(others), precision.refused) | {**kept}
    before = sum(int(array.nbytes) for array in graph.constants.values())
    stored = {name for step in steps for name in precision.stored(step)} & graph.constants.keys()
    saved = sum(int(graph.constants[name].nbytes) // 2 for name in stored)
    facts = HalfLayers(
        tuple(step.name for step in steps), tuple(reasons.items()), error, len(judge.judge.samples),
        before, before - saved, precision.type,
    )  # fmt: skip
    return replace(made, half_layers=facts)
