"""The network for a call: with the axes of time that fit, and as few steps late as it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import lcm

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.lengths import AheadError, first_that_works, guesses
from cannery.frontends.streaming.axes import axes_of, known_times
from cannery.frontends.streaming.carried import keep_in_layers
from cannery.frontends.streaming.groups import groups_of
from cannery.frontends.streaming.joined import join_by_padding
from cannery.frontends.streaming.past import Key, RateError
from cannery.frontends.streaming.phases import Found, InPhase, begun, least_late, so_late
from cannery.frontends.streaming.spelled import spell_out_attention
from cannery.frontends.streaming.stepper import AUTO, Stepper, late_cure
from cannery.frontends.streaming.stream import Stream
from cannery.frontends.streaming.unfolded import unfold_by_slices
from cannery.frontends.time_axis import Time
from cannery.ir.graph import Graph, Node, State, free_name
from cannery.ir.tensor import TensorType
from cannery.ops.movement.op import Identity
from cannery.ops.recurrent.base import Recurrent
from cannery.option_values import NO_TIME

#: What to do about a network that does not stream, by whether the model has states.
_NO_STATES = (
    "without --streaming it runs on whole sequences; --state names inputs and outputs that are "
    "its state, --time-axis the axis of an input that is time"
)
_OWN_STATES = (
    "it keeps states of its own: leave out --streaming, and each call is one of the model; "
    "--time-axis names the axis of an input that is time"
)


def to_streaming(
    graph: Graph, block: int = 1, latency: int | str = 0, blocks: Sequence[int] = (),
    time_axis: Mapping[str, int | str] = {},
) -> Graph:  # fmt: skip
    """The network for the next `block` steps, which reads and returns what it needs of the past.

    Networks for the other `blocks` of a library have the same state: the steps may come in calls of
    any of them.

    Inputs have `block` steps along their axis of time. What follows from a whole sequence, as the
    last output of a recurrent layer, becomes what it would be if the sequence ended there; means
    over all steps, and what mixes steps with features, are those of the last steps, as many as the
    sequence has. Outputs are `latency` steps late, see `Calls`. `time_axis` are the axes of inputs
    that are time, in the model's order, or NO_TIME; those of others are found.

    Raises UnsupportedError for what cannot be computed step by step, with the layer's name, and
    OptionError where `block`, `latency` or `time_axis` do not fit.
    """
    blocks = (block, *(size for size in blocks if size != block))
    known_inputs = graph.inputs
    graph = unfold_by_slices(spell_out_attention(keep_in_layers(graph)))
    kept = {v for v in known_inputs if v not in graph.inputs and time_axis.get(v) == NO_TIME}
    time_axis = {v: axis for v, axis in time_axis.items() if v not in kept}
    graph, caches = join_by_padding(graph)
    wish = _Wish(graph, blocks, latency, caches, frozenset(time_axis))
    known = guesses(graph, axes_of(graph), known_times(graph, time_axis))
    _, found = first_that_works(
        graph, known, lambda times: _run(wish, times), _OWN_STATES if graph.states else _NO_STATES,
        rank=lambda found: found[0],
    )  # fmt: skip
    return found


@dataclass(frozen=True)
class _Wish:
    """What `to_streaming` is asked for, whatever the axes of time. `caches` are the values whose
    axes must be time, `named` the inputs of which the user says what is time.
    """

    graph: Graph
    blocks: Sequence[int]
    latency: int | str
    caches: Mapping[str, int]
    named: Set[str]


def _run(wish: _Wish, times: dict[str, Time]) -> tuple[int, Graph]:
    """The network for a call; it knows what layers make of padding only if it is later without.

    Before the network, how unlikely these times are: 0 if outputs have steps and none is late.
    """
    found: list[tuple[int, Graph]] = []
    failed: CanneryError | None = None
    for folds in (False, True):
        try:
            found.append(_rewritten(wish, times, folds=folds))
        except (UnsupportedError, AheadError) as error:
            failed = error if failed is None or isinstance(error, AheadError) else failed
        else:
            if wish.latency != AUTO or not _latency_of(found[-1][1]):
                return found[-1]
    if found:
        return min(found, key=lambda rated: _latency_of(rated[1]))
    assert failed is not None
    raise failed


def _latency_of(graph: Graph) -> int:
    return graph.calls.latency if graph.calls else 0


def _rewritten(wish: _Wish, times: dict[str, Time], *, folds: bool) -> tuple[int, Graph]:
    """The network for a call; around that for whole groups where some calls are less than one."""
    try:
        return _at_once(wish, times, folds=folds)
    except RateError as error:
        steps = _whole_steps(wish.graph, times)
        groups = groups_of(steps, wish.blocks)
        if groups is None:
            error.cure = f"give multiples of {steps}, and at most one size that divides {steps}"
            raise
    inside = replace(wish, blocks=groups.sizes(wish.blocks))
    rank, found = _at_once(inside, times, folds=folds, alone=False)
    return rank, groups.around(found, wish.blocks[0], times)


def _at_once(
    wish: _Wish, times: dict[str, Time], *, folds: bool, alone: bool = True
) -> tuple[int, Graph]:
    """The network for a call; with outputs once in some calls, in those that make it least late.

    Unless `alone`, other calls keep steps for those of whole groups, which are a state.
    """

    def in_phase(phase: int, latency: int | str) -> Found:
        late = replace(wish, latency=latency)
        return _in_phase(late, times, phase, folds=folds, alone=alone)

    try:
        found = in_phase(0, wish.latency)
    except OptionError as error:
        if wish.latency == AUTO or isinstance(error, RateError):
            raise
        found = _in_phase_of(wish, in_phase, error)
    else:
        found = least_late(found, in_phase) if wish.latency == AUTO else found
    steps = any(stream and not stream.final for stream in found.flows)
    graph = begun(found) if found.calls.phase else found.graph
    return 2 * (not steps) + (_latency_of(graph) > 0), graph


def _in_phase_of(wish: _Wish, in_phase: InPhase, error: OptionError) -> Found:
    """The network with this latency, if outputs come in other calls than usual; else the error,
    which gives the least latency.
    """
    assert isinstance(wish.latency, int)
    usual = in_phase(0, AUTO)
    found = None if usual.fixed else so_late(usual, wish.latency, in_phase)
    if found:
        return found
    least = least_late(usual, in_phase).calls
    if isinstance(error, AheadError) and least.phase:
        error.cure = late_cure(least.latency)
    raise error


def _in_phase(
    wish: _Wish, times: dict[str, Time], phase: int, *, folds: bool, alone: bool
) -> Found:
    """Twice: first to see how far readers of one value look back, in calls of any block."""
    graph, blocks, latency = wish.graph, wish.blocks, wish.latency
    if not any(isinstance(node.op, Recurrent) for node in graph.nodes) and not any(
        time is not None for time in times.values()
    ):
        raise UnsupportedError("no axis of its inputs is time", where="--streaming")
    reaches: dict[Key, int] = {}
    for block in blocks:
        trial = Stepper(graph, times, block, {}, blocks, folds, phase)
        trial.run(latency)
        reaches = {key: max(reaches.get(key, 0), trial.builder.asked.get(key, 0))
                   for key in {**reaches, **trial.builder.asked}}  # fmt: skip
    steppers = [Stepper(graph, times, n, reaches, blocks, folds, phase) for n in blocks]
    found, *others = (stepper.run(latency) for stepper in steppers)
    if any(_state_types(other) != _state_types(found) for other in others):
        raise OptionError(
            "calls of these sizes need different states", where="--block", cure="give one size"
        )
    if not found.states:
        if alone and not any(times[value] is not None for value in wish.named):
            raise UnsupportedError(
                "none of its layers looks further back than a call: there is no state",
                where="--streaming",
                cure="leave it out: a network for so many steps (--dim) gives the same; or say by "
                "--time-axis which axis is time, and calls have a state that never changes",
            )  # fmt: skip
        found = _with_unused_state(found)
    streams = steppers[0].streams
    _check_caches(wish, streams)
    _check_inputs(wish, times, streams)
    fixed = len(blocks) > 1 or bool(graph.states) or any(s.final for s in streams.values())
    flows = [streams.get(v) for v in graph.outputs]
    return Found(found, steppers[0].apart, flows, steppers[0].builder.pasts, fixed)


def _with_unused_state(graph: Graph) -> Graph:
    """The network of a call with a number as its state, which stays 0: for programs that take any
    network step by step.
    """
    value = free_name("unused", graph.types)
    after = f"{value}/next"
    type_ = TensorType((1, 1))
    assert graph.calls is not None
    return replace(
        graph,
        nodes=(*graph.nodes, Node(Identity(), value, (value,), (after,))),
        inputs=(*graph.inputs, value),
        outputs=(*graph.outputs, after),
        types={**graph.types, value: type_, after: type_},
        states=(State(value, after),),
        calls=replace(graph.calls, lasting=False),
    )


def _check_caches(wish: _Wish, streams: Mapping[str, Stream]) -> None:
    for value, axis in wish.caches.items():
        if value not in streams or streams[value].time != axis:
            raise UnsupportedError("its cache is not along the axis of time", where=f"{value!r}")


def _check_inputs(wish: _Wish, times: Mapping[str, Time], streams: Mapping[str, Stream]) -> None:
    """Raise UnsupportedError for an output that would be that of a whole sequence in each call,
    unless the user says that its inputs have no steps.
    """
    types = wish.graph.types
    steps = {types[v].shape[time] for v, time in times.items() if time is not None}
    for output in wish.graph.outputs:
        if output in streams:
            continue
        for value in _inputs_of(wish.graph, output) - wish.named:
            if times[value] is None and steps.intersection(types[value].shape):
                raise UnsupportedError(
                    f"output {output!r} would be that of all steps of {value!r}",
                    where="--streaming",
                    cure=f"--time-axis {value}=AXIS says which axis is time, {value}=none that "
                    "none is",
                )  # fmt: skip


def _inputs_of(graph: Graph, output: str) -> Set[str]:
    """The inputs on which an output depends."""
    needed = {output}
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return needed.intersection(graph.inputs)


def _whole_steps(graph: Graph, times: dict[str, Time]) -> int:
    """How many steps make whole elements of all values."""
    alone = Stepper(graph, times, 1, {}, (1,))
    alone.run(AUTO)
    return lcm(*(stream.every for stream in alone.streams.values()))


def _state_types(graph: Graph) -> list[tuple[State, TensorType]]:
    return [(state, graph.types[state.input]) for state in graph.states]
