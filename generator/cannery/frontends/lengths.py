"""Sequences of any length up to a maximum: finds the time axes, and checks that it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TypeVar

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.time_axis import FINAL, Time, Use, one_step
from cannery.ir.graph import Graph, Length
from cannery.ops.recurrent.base import Recurrent

#: What you may have meant if there is no recurrent layer.
_OTHERWISE = {"--streaming": "; --state names inputs and outputs that are its state"}

#: At most this many combinations of the inputs' axes are tried.
_MAX_TRIED = 256

_T = TypeVar("_T")


def step_count(graph: Graph, option: str) -> int:
    """How many steps all recurrent layers take. Raises CanneryError if they differ."""
    found = {graph.types[n.inputs[0]].shape[1] for n in graph.nodes if isinstance(n.op, Recurrent)}
    if not found:
        raise OptionError(
            "the network has no recurrent layer", where=option,
            cure="leave it out" + _OTHERWISE.get(option, ""),
        )  # fmt: skip
    if len(found) > 1:
        raise UnsupportedError(
            f"its recurrent layers take {', '.join(map(str, sorted(found)))} steps", where=option
        )
    return found.pop()


def first_that_works(
    graph: Graph, steps: int, attempt: Callable[[dict[str, Time]], _T], cure: str
) -> _T:
    """Calls `attempt` with the inputs' time axes, likeliest first: axis 1 of three or more axes.

    Raises the first attempt's UnsupportedError, with `cure`.
    """
    first_error: CanneryError | None = None
    for times in _guesses(graph, steps):
        try:
            return attempt(dict(zip(graph.inputs, times, strict=True)))
        except UnsupportedError as error:
            first_error = first_error or error
    assert first_error is not None
    first_error.cure = first_error.cure or cure
    raise first_error


def _guesses(graph: Graph, steps: int) -> list[tuple[Time, ...]]:
    choices: list[list[Time]] = []
    for value in graph.inputs:
        shape = graph.types[value].shape
        axes: list[Time] = [a for a, d in enumerate(shape) if d == steps]
        axes.sort(key=lambda a: (a != 1, a))
        choices.append([*axes, None] if len(shape) > 2 else [None, *axes])
    if steps == 1:
        return [tuple(None for _ in graph.inputs)]
    found = []
    for times in product(*choices):
        found.append(times)
        if len(found) == _MAX_TRIED:
            break
    return found


def to_variable_length(graph: Graph) -> Graph:
    """The same network, whose sequences may be shorter than its present number of steps.

    Raises OptionError or UnsupportedError, with the layer's name, if it cannot stop early.
    """
    steps = step_count(graph, "--variable-length")
    if steps < 2:
        raise OptionError(
            "the sequences have one step", where="--variable-length",
            cure="give the largest number of steps by --dim",
        )  # fmt: skip
    cure = "without --variable-length sequences have a fixed length"
    times = first_that_works(graph, steps, lambda inputs: _times(graph, steps, inputs), cure)
    return replace(graph, length=Length(steps, times))


def with_times(graph: Graph) -> Graph:
    """The network with the time axes of its values after its nodes were rewritten."""
    if graph.length is None:
        return graph
    known = graph.length
    try:
        times = _times(graph, known.steps, {v: known.times.get(v) for v in graph.inputs})
    except UnsupportedError:  # a pass has made it: then kernels compute all steps
        times = {v: t for v, t in known.times.items() if v in graph.types}
    return replace(graph, length=Length(known.steps, times))


def _times(graph: Graph, steps: int, inputs: dict[str, Time]) -> dict[str, int]:
    """The time axis of every value that has one."""
    times = dict(inputs)
    for node in graph.nodes:
        types = [graph.types[v] if v else None for v in node.inputs]
        given = [times.get(v) if v else None for v in node.inputs]
        output = graph.types[node.outputs[0]]
        try:
            time, _ = one_step(Use(node.op, given, types, output, steps, whole=True))
        except CanneryError as error:
            error.where = error.where or f"layer {node.name!r} ({node.op.kind})"
            raise
        results = node.op.returns if isinstance(node.op, Recurrent) else ("sequence",)
        for value, what in zip(node.outputs, results, strict=False):
            times[value] = time if what == "sequence" else FINAL
    return {v: t for v, t in times.items() if t is not None and t != FINAL}
