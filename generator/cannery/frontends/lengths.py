"""Sequences of any length up to a maximum: finds the time axes, and checks that it works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from math import inf
from typing import TypeVar

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.time_axis import FINAL, Time, Use, one_step
from cannery.ir.graph import Graph, Length
from cannery.ir.orders import model_axis
from cannery.ops.recurrent.base import Recurrent

#: More inputs than this many combinations of their axes are not tried.
_MAX_TRIED = 256

_T = TypeVar("_T")


def recurrent_steps(graph: Graph, option: str) -> int | None:
    """How many steps all recurrent layers take; None: there are none.

    Raises UnsupportedError if that is not one number.
    """
    found = {graph.types[n.inputs[0]].shape[1] for n in graph.nodes if isinstance(n.op, Recurrent)}
    if len(found) > 1:
        raise UnsupportedError(
            f"its recurrent layers take {', '.join(map(str, sorted(found)))} steps", where=option
        )
    return next(iter(found), None)


class AheadError(OptionError):
    """Outputs need later steps than the latency allows, with some times of the inputs."""


class StuckError(UnsupportedError):
    """A layer that does not work with some times of the inputs, after `done` that do."""

    def __init__(self, error: UnsupportedError, where: str, done: int) -> None:
        super().__init__(error.what, where=where, cure=error.cure)
        self.done = done


def first_that_works(
    graph: Graph, guesses: Iterable[dict[str, Time]], attempt: Callable[[dict[str, Time]], _T],
    cure: str, rank: Callable[[_T], int] = lambda found: 0,
) -> _T:  # fmt: skip
    """`attempt` with the times of the inputs, the likeliest first; of what works, the least `rank`.

    Raises the error of the attempt that came furthest, the first of them, with `cure`; it names the
    axes that were time if there were other attempts.
    """
    nearest: CanneryError = UnsupportedError("no axis of its inputs can be time", where="time")
    most, best, failed, tried = -1.0, None, dict[str, Time](), 0
    for times in guesses:
        tried += 1
        try:
            found = attempt(times)
        except (UnsupportedError, AheadError) as error:
            stuck = error.done if isinstance(error, StuckError) else 0
            done = inf if isinstance(error, AheadError) else stuck
            if done > most:
                nearest, most, failed = error, done, times
            continue
        if not rank(found):
            return found
        best = min(best or (rank(found), found), (rank(found), found), key=lambda b: b[0])
    if best:
        return best[1]
    if tried > 1 and most > 0:
        nearest.what += _where_time_is(graph, failed)
    nearest.cure = nearest.cure or cure
    raise nearest


def _where_time_is(graph: Graph, times: Mapping[str, Time]) -> str:
    """The axes of the inputs, as the model counts them."""
    found = [
        f"axis {model_axis(graph, value, time)} of {value!r}"
        for value, time in times.items()
        if time is not None
    ]
    return f", with {' and '.join(found)} as time" if found else ""


def guesses(
    graph: Graph, axes: Callable[[tuple[int, ...]], list[int]], known: Mapping[str, Time] = {}
) -> Iterator[dict[str, Time]]:
    """Where time may be in the inputs, each of which may have none; `axes` are those of a shape.

    Of `known` inputs it is known.
    """
    choices: list[list[Time]] = []
    for value in graph.inputs:
        if value in known:
            choices.append([known[value]])
            continue
        shape = graph.types[value].shape
        found: list[Time] = [*sorted(axes(shape), key=lambda a: (a != 1, a))]
        choices.append([*found, None] if len(shape) > 2 else [None, *found])
    for times in islice(product(*choices), _MAX_TRIED):
        yield dict(zip(graph.inputs, times, strict=True))


def steps_as_axes(steps: int) -> Callable[[tuple[int, ...]], list[int]]:
    """The axes of `steps` elements; a single step is not an axis."""
    return lambda shape: [a for a, d in enumerate(shape) if d == steps and steps > 1]


def to_variable_length(graph: Graph) -> Graph:
    """The same network, whose sequences may be shorter than its present number of steps.

    Raises OptionError or UnsupportedError, with the layer's name, if it cannot stop early.
    """
    steps = recurrent_steps(graph, "--variable-length")
    if steps is None:
        raise OptionError(
            "the network has no recurrent layer", where="--variable-length", cure="leave it out"
        )
    if steps < 2:
        raise OptionError(
            "the sequences have one step", where="--variable-length",
            cure="give the largest number of steps by --dim",
        )  # fmt: skip
    cure = "without --variable-length sequences have a fixed length"
    known = guesses(graph, steps_as_axes(steps))
    times = first_that_works(graph, known, lambda inputs: _times(graph, steps, inputs), cure)
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
