"""Sequences of any length up to a maximum: finds the time axes, and checks that it works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Generic, TypeVar

from cannery.errors import CanneryError, OptionError, UnsupportedError, warn
from cannery.frontends.time_axis import FINAL, Time, Use, one_step
from cannery.ir.graph import Graph, Length
from cannery.ir.orders import model_axis
from cannery.ir.registry import Elementwise
from cannery.ops.movement.op import Pad, Transpose
from cannery.ops.recurrent.base import Recurrent

#: Of how many other axes an error says why they are not time.
_MAX_TOLD = 2

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


#: The rank of images that move.
_OF_FRAMES = 5


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

    Raises an error with `cure`: of an attempt that would work with more latency, else of that with
    the longest axes as time, else of that which came furthest. If there were other attempts, it
    names the axes that were time, and says why some others are not. Warns where what is taken is
    not the longest axis that was tried.
    """
    done, failed = list[_Done[_T]](), list[_Failure]()
    for times in guesses:
        try:
            found = attempt(times)
        except (UnsupportedError, AheadError) as error:
            failed.append(_Failure(error, times))
            continue
        done.append(_Done(rank(found), found, times))
        if not rank(found):
            break
    if done:
        best = min(done, key=lambda each: each.rank)
        tried = [*(each.times for each in done), *(each.times for each in failed)]
        _require_frames(graph, best.times, failed)
        _warn_of_longer(graph, best.times, tried)
        return best.found
    if not failed:
        raise UnsupportedError("no axis of its inputs can be time", where="time", cure=cure)
    raise _told(graph, failed, alone=len(failed) == 1, cure=cure)


def _require_frames(
    graph: Graph, taken: Mapping[str, Time], failed: Sequence[_Failure]
) -> None:  # fmt: skip
    """Raise UnsupportedError if rows or columns of images were taken as time because the frames
    cannot be: then the network is hardly meant to stream along them.
    """
    for value, time in taken.items():
        first = _axis_of_frames(graph, value)
        frames = next((each for each in failed if each.times[value] == first), None)
        if time is None or time == first or graph.types[value].rank < _OF_FRAMES or not frames:
            continue
        own, first = (model_axis(graph, value, axis) for axis in (time, first))
        raise UnsupportedError(
            f"axis {first} of {value!r}, the frames, cannot be time: {frames.error.where}: "
            f"{frames.error.what}", where="--streaming",
            cure=f"--time-axis {value}={own} takes axis {own}, which can",
        )  # fmt: skip


def _axis_of_frames(graph: Graph, value: str) -> int:
    """1, as of [N,T,H,W,C]; another if the graph brings that axis there, as from [N,C,T,H,W]."""
    reached = {value}
    for node in graph.nodes:
        if reached.isdisjoint(node.inputs):
            continue
        if isinstance(node.op, Transpose):
            return node.op.perm[1]
        if isinstance(node.op, Elementwise | Pad):
            reached |= {*node.outputs}
    return 1


def _warn_of_longer(
    graph: Graph, taken: Mapping[str, Time], tried: Sequence[Mapping[str, Time]]
) -> None:
    """Warn of each input of which a longer axis was tried than that which is time."""
    for value, time in taken.items():
        if time is None:
            continue
        shape = graph.types[value].shape
        axes = {other for times in tried if (other := times[value]) is not None}
        longest = max(axes, key=lambda axis: shape[axis])
        if shape[longest] > shape[time]:
            own, longer = (model_axis(graph, value, axis) for axis in (time, longest))
            warn(
                f"--streaming takes axis {own} of {value!r} for time ({shape[time]} steps), not "
                f"axis {longer}, which is longer ({shape[longest]}): --time-axis {value}={longer} "
                f"makes that time or says why it cannot be, {value}={own} confirms what is taken"
            )


def _told(graph: Graph, failed: Sequence[_Failure], *, alone: bool, cure: str) -> CanneryError:
    """The error of the likeliest attempt, with what is wrong with others."""
    nearest, *others = sorted(failed, key=lambda each: each.likeliness(graph), reverse=True)
    found = nearest.error
    if not alone:
        found.what += _where_time_is(graph, nearest.times)
        if not isinstance(found, AheadError):
            found.what += "".join(each.described(graph) for each in others[:_MAX_TOLD])
    found.cure = found.cure or cure
    return found


@dataclass(frozen=True)
class _Done(Generic[_T]):
    """What an attempt with some times of the inputs gave."""

    rank: int
    found: _T
    times: Mapping[str, Time]


@dataclass(frozen=True)
class _Failure:
    """An attempt with some times of the inputs, and what was wrong with it."""

    error: CanneryError
    times: Mapping[str, Time]

    def likeliness(self, graph: Graph) -> tuple[bool, int, int]:
        """How likely these are the times that were meant: that of two may be features."""
        types = [(graph.types[v], t) for v, t in self.times.items()]
        steps = [type_.shape[t] for type_, t in types if t is not None and type_.rank > 2]
        done = self.error.done if isinstance(self.error, StuckError) else 0
        return isinstance(self.error, AheadError), sum(steps), done

    def described(self, graph: Graph) -> str:
        """For an error about another attempt; empty if this one has no axis of time."""
        axes = _where_time_is(graph, self.times).removeprefix(", ")
        return f"; {axes}: {self.error.where}: {self.error.what}" if axes else ""


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
            "the network has no recurrent layer", where="--variable-length",
            cure="leave it out; --streaming computes a network that looks back, as causal "
            "convolutions do, on sequences of any length",
        )  # fmt: skip
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
