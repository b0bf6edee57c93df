"""Samples for networks that keep states: without arrays for the states, the steps of a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np

from cannery.errors import OptionError
from cannery.execution.program import Sample
from cannery.execution.samples import Samples, read_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, model_type, noted_time
from cannery.ir.registry import RefArray
from cannery.npz import read_arrays

#: What the axes of sequences have to be.
_SEQUENCES = "that is a call; the steps of one sequence are a multiple of it along "


def input_steps(graph: Graph, given: Samples) -> list[dict[str, RefArray]]:
    """The inputs of each sample, in the graph's order of axes; all except states if none is given.

    Samples without states are the steps of one sequence, which an array may also hold along its
    axis of time. Raises OptionError like `read_samples`.
    """
    return _steps(graph, given, graph.inputs, {state.input for state in graph.states})


def input_samples(graph: Graph, given: Samples) -> list[Sample]:
    """The same with all inputs: the references compute the states that are not given."""
    return [*each_sample(graph, input_steps(graph, given))]


def each_sample(
    graph: Graph, steps: Sequence[Sample], *, prewarm: bool = False
) -> Iterable[Sample]:
    """The same from what `input_steps` returns, one after the other: states may be large. With
    `prewarm`, the sequence begins after silence.
    """
    left_out = bool(steps) and steps[0].keys() != set(graph.inputs)
    return _with_states(graph, steps, prewarm=prewarm) if left_out else steps


def output_samples(graph: Graph, given: Samples) -> list[Sample]:
    """Expected outputs of each sample, in the graph's order of axes; all except states if none is
    given. Raises OptionError like `read_samples`.
    """
    return [*_steps(graph, given, graph.outputs, {state.output for state in graph.states})]


def join_calls(calls: Sequence[Sample], graph: Graph, larger: Graph) -> list[Sample]:
    """Calls of the `larger` network from those of `graph`, which is the same with fewer steps.

    Both are samples without states, in the graphs' order of axes. A tensor without steps is that of
    the last of the calls that become one. Steps that do not fill a call are left out. Raises
    OptionError if none is full.
    """
    times = {name: _time(graph, larger, name) for name in (calls[0] if calls else ())}
    counts = {
        name: len(calls) * graph.types[name].shape[time] // larger.types[name].shape[time]
        for name, time in times.items() if time is not None
    }  # fmt: skip
    count = min(counts.values(), default=0)
    if not count:
        raise OptionError(
            f"too few steps for a call of {_steps_of(larger)}",
            where="samples", cure="give a longer sequence, or leave that size out",
        )  # fmt: skip
    whole = {
        name: np.concatenate([call[name] for call in calls], axis=time)
        for name, time in times.items() if time is not None
    }  # fmt: skip
    return [_call(k, calls, whole, times, (_steps_of(graph), larger)) for k in range(count)]


def _call(
    k: int, calls: Sequence[Sample], whole: Mapping[str, RefArray], times: Mapping[str, int | None],
    sizes: tuple[int, Graph],
) -> Sample:  # fmt: skip
    """Call `k` of a sequence, of which the values with an axis of time are whole. `sizes` are the
    steps of each of `calls`, and the network of those that are made.
    """
    before, larger = sizes
    found = {}
    for name, time in times.items():
        if time is None:
            found[name] = calls[(k + 1) * _steps_of(larger) // before - 1][name]
        else:
            steps = larger.types[name].shape[time]
            found[name] = whole[name].take(range(k * steps, (k + 1) * steps), axis=time)
    return found


def _steps_of(graph: Graph) -> int:
    return graph.calls.steps if graph.calls else 1


def _time(graph: Graph, larger: Graph, name: str) -> int | None:
    """The axis along which a value of the larger call is longer."""
    a, b = graph.types[name].shape, larger.types[name].shape
    return next((k for k in range(len(a)) if a[k] != b[k]), None)


def first_state(graph: Graph) -> dict[str, RefArray]:
    """The states before the first step."""
    found = {}
    for state in graph.states:
        type_ = graph.types[state.input]
        initial = np.array(state.initial or 0, type_.dtype.numpy)
        found[state.input] = np.broadcast_to(
            initial.reshape(type_.shape) if state.initial else initial, type_.shape
        )
    return found


def silent_state(graph: Graph) -> dict[str, RefArray]:
    """The states after as many calls with zeros as `<name>_prewarm` makes by default."""
    state, states = first_state(graph), {state.input for state in graph.states}
    zeros = {name: _zeros(graph, name) for name in graph.inputs if name not in states}
    every = graph.calls.round if graph.calls else 1
    before = state
    for number in range(1, graph.prewarm_calls + 1):
        with np.errstate(all="ignore"):
            found = evaluate(graph, {**state, **zeros})
        state = state | next_state(graph, state, found, number)
        if number % every == 0:
            if all(np.array_equal(state[name], before[name]) for name in state):
                break  # and so would all calls that follow
            before = state
    return state


def _zeros(graph: Graph, name: str) -> RefArray:
    """An input that is silent: what zero is among integers with a scale."""
    type_, scale = graph.types[name], graph.scales.get(name)
    return np.full(type_.shape, scale.zero_point if scale else 0, type_.dtype.numpy)


def next_state(
    graph: Graph, state: Mapping[str, RefArray], values: Mapping[str, RefArray], number: int
) -> dict[str, RefArray]:
    """The states that change after call `number`, counted from 1, which computed these values."""
    calls = graph.calls
    due = [s for s in graph.states if calls is None or calls.changes(s.output, number)]
    return {s.input: values[s.output].astype(state[s.input].dtype, copy=False) for s in due}


def _with_states(graph: Graph, steps: Sequence[Sample], *, prewarm: bool) -> Iterator[Sample]:
    """These calls of one sequence with the states before each, which the references compute."""
    state = silent_state(graph) if prewarm else first_state(graph)
    for number, step in enumerate(steps, 1):
        sample = {**state, **step}
        yield sample
        with np.errstate(all="ignore"):
            found = evaluate(graph, sample)
        state |= next_state(graph, state, found, number)


def _steps(
    graph: Graph, given: Samples, names: Sequence[str], states: Set[str]
) -> list[dict[str, RefArray]]:
    arrays = read_arrays(given) if isinstance(given, Path) else given
    where = str(given) if isinstance(given, Path) else "samples"
    left_out = bool(states) and not states & arrays.keys()
    types = {n: model_type(graph, n) for n in names if not (left_out and n in states)}
    if left_out:
        for name in (n for n in types if n in arrays):
            _require_one(arrays[name], types[name].shape, f"{where}, {name!r}")
        arrays = {n: _cut(a, types[n].shape) if n in types else a for n, a in arrays.items()}
    axes = [_SEQUENCES + _noted(graph)] if left_out else []
    samples = read_samples(arrays, types, where, *axes)
    return [from_model(graph, sample) for sample in samples]


def _noted(graph: Graph) -> str:
    """The axes of time of its inputs, as far as notes say them."""
    found = {value: noted_time(graph, value) for value in graph.inputs}
    axes = [f"axis {axis} of {value!r}" for value, axis in found.items() if axis is not None]
    return ", ".join(axes) or "time"


def _require_one(array: RefArray, shape: tuple[int, ...], where: str) -> None:
    """Raises OptionError for several sequences of more steps than a call of this shape has."""
    if array.ndim != len(shape) or shape[0] != 1:
        return
    longer = [k for k in range(1, array.ndim) if array.shape[k] != shape[k]]
    if len(longer) == 1 and array.shape[0] > 1 and array.shape[longer[0]] > shape[longer[0]]:
        raise OptionError(
            f"{array.shape[0]} sequences of shape {(1, *array.shape[1:])}, one is needed",
            where=where, cure=f"join them along axis {longer[0]}, or give one",
        )  # fmt: skip


def _cut(array: RefArray, shape: tuple[int, ...]) -> RefArray:
    """The steps of a sequence one after the other along the first axis.

    Time is the axis that is longer than in a call of this shape, if only one is.
    """
    if array.ndim != len(shape):
        return array
    other = [k for k in range(array.ndim) if array.shape[k] != shape[k]]
    if len(other) != 1 or not shape[other[0]] or array.shape[other[0]] % shape[other[0]]:
        return array
    parts = array.shape[other[0]] // shape[other[0]]
    return np.concatenate(np.split(array, parts, other[0])) if parts else array
