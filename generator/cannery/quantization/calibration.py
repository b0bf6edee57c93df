"""Samples for calibration, and the ranges of a network's values on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from cannery.errors import OptionError, warn
from cannery.execution.sequences import first_state, input_steps, next_state
from cannery.ir.evaluate import evaluate_all, widen
from cannery.ir.graph import Graph
from cannery.ir.numeric import f32
from cannery.ir.registry import RefArray
from cannery.lowering.periods import value_periods
from cannery.quantization.flow import pasts_of

#: The option that names the file.
OPTION = "--calibration"

#: Magnitudes up to this count as zero: float32 holds neither their integers' unit nor its inverse.
NOTHING = 2.0**-100

#: How many layers a message names.
_NAMED = 3


@dataclass(frozen=True)
class Spread:
    """The largest magnitude of a value on all samples, and the root of its mean square."""

    largest: float
    rms: float


@dataclass(frozen=True)
class Observed:
    """Samples in the graph's form, the outputs of each, and the spread of every float value.

    Of a sequence, calls have the outputs and values that they are needed for.
    """

    samples: Sequence[Mapping[str, RefArray]]
    outputs: Sequence[Mapping[str, RefArray]]
    spreads: Mapping[str, Spread]

    def is_finite(self, value: str) -> bool:
        """Whether a value is float and was finite on all samples."""
        spread = self.spreads.get(value)
        return spread is not None and bool(np.isfinite(spread.largest))


def observe(graph: Graph, file: Path) -> Observed:
    """Runs the references on the samples of a .npz file: an array for each input, by its name.

    Arrays have the model's order; one may hold k samples, one after the other along its first axis.
    States may be omitted: samples are then the steps of one sequence (`input_steps`). Raises
    OptionError for files that do not fit, for samples of zeros, and if the network computes NaN;
    numbers that float32 cannot hold are infinite. Warns (CanneryWarning) about inputs that are the
    same everywhere, and about layers whose results are 0: their ranges are unknown.
    """
    where = f"{OPTION} {file}"
    given = input_steps(graph, file)
    for sample in given:
        for name, array in sample.items():
            if not np.isfinite(array).all():
                raise OptionError(
                    f"{name!r} is not finite everywhere", where=where,
                    cure="leave out infinities and NaN",
                )  # fmt: skip
    needed = _needed(graph, given, where)
    _check_variety(given, {state.input for state in graph.states}, where)
    largest: dict[str, float] = {}
    squares: dict[str, list[float]] = {}
    samples, outputs = [], []
    # States are not rounded from step to step: so a whole sequence has the same ranges.
    state = {name: widen(value) for name, value in first_state(graph).items()}
    pasts, phase = pasts_of(graph), graph.calls.phase if graph.calls else 0
    for number, step in enumerate(given, 1):
        sample = {**state, **step}
        samples.append(sample)
        with np.errstate(all="ignore"):
            values = evaluate_all(graph, sample)
        state |= next_state(graph, state, values, number)
        values = {n: v for n, v in values.items() if not (number + phase) % needed.get(n, 1)}
        outputs.append({name: values[name] for name in graph.outputs if name in values})
        for name, value in values.items():
            # What lies before the first step and never is a maximum, integers hold in their way.
            array = value[value != -inf] if name in pasts else value
            if array.dtype.kind == "f" and array.size and name not in graph.constants:
                largest[name] = max(largest.get(name, 0.0), _in_range(np.abs(array).max()))
                squares.setdefault(name, []).append(float(np.square(array).mean()))
    spreads = {
        name: Spread(value, float(np.mean(squares[name])) ** 0.5) for name, value in largest.items()
    }
    for name in graph.outputs:
        if name in spreads and not np.isfinite(spreads[name].largest):
            raise OptionError(
                f"output {name!r} is not finite on these samples", where=where,
                cure="use inputs like those in training",
            )  # fmt: skip
    _tell_silent(graph, spreads, where)
    return Observed(samples, outputs, spreads)


def _needed(
    graph: Graph, samples: Sequence[Mapping[str, RefArray]], where: str
) -> Mapping[str, int]:
    """In how many calls of a sequence values are needed once, if not in each: those that layers
    with strides compute before their steps are there are nothing. Samples with states are calls
    that need all. Raises OptionError for a sequence that ends before all values were needed.
    """
    states = {state.input for state in graph.states}
    if not samples or graph.calls is None or states <= samples[0].keys():
        return {}
    if len(samples) < graph.calls.round:
        raise OptionError(
            f"{len(samples)} calls of {graph.calls.steps} steps, but what layers with strides "
            f"compute comes after {graph.calls.round}",
            where=where, cure="give a longer sequence",
        )  # fmt: skip
    return value_periods(graph)


def _in_range(number: float) -> float:
    """The number; infinity if it is too large for float32."""
    return float(number) if isfinite(f32(number)) else inf


def _check_variety(samples: Sequence[Mapping[str, RefArray]], states: Set[str], where: str) -> None:
    """Samples of zeros say nothing, another constant says little. States may be zeros."""
    same: dict[str, float] = {}
    for name in samples[0].keys() - states if samples else ():
        values = np.stack([np.asarray(sample[name]) for sample in samples])
        if np.abs(values.astype(np.float64)).max(initial=0.0) <= NOTHING:
            same[name] = 0.0
        elif values.size > 1 and np.all(values == values.flat[0]):
            same[name] = float(values.flat[0])
    if same and len(same) == len(samples[0].keys() - states) and not any(same.values()):
        raise OptionError(
            f"all samples are 0 (of {', '.join(map(repr, sorted(same)))}), which gives no ranges",
            where=where, cure="use typical inputs",
        )  # fmt: skip
    for name in sorted(same):
        text = f"{where}: {name!r} is {same[name]:g} in all samples, so its range is not known"
        warn(f"{text} (use typical inputs)")


def _tell_silent(graph: Graph, spreads: Mapping[str, Spread], where: str) -> None:
    """Warn about layers that turned something else into 0: their results will be cut off at 1."""

    def silent(value: str) -> bool:
        return value in spreads and spreads[value].largest <= NOTHING

    found = [
        node.name
        for node in graph.nodes
        if any(map(silent, node.outputs)) and not any(map(silent, node.inputs))
    ]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        names = ", ".join(map(repr, found[:_NAMED])) + more
        text = f"{where}: results of {names} are 0 in all samples, so their ranges are not known"
        warn(f"{text} (use typical inputs)")
