"""In which calls outputs come, where layers with strides need several calls for one.

Outputs come with the last call of a round. A layer that looks ahead would wait for the end of the
next round, even for a single step. So rounds may begin before the first call: the network works as
if some calls had been made, with steps that do not exist, and the last call of each round is the
one that brings the last step an output needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.lengths import AheadError
from cannery.frontends.streaming.stream import Stream
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Calls, Graph, State
from cannery.ir.registry import RefArray


@dataclass(frozen=True)
class Found:
    """A network for a call, whose outputs come as `flows` and are `apart` steps from each other.

    `pasts` are the states that are the last elements of streams. `fixed`: rounds begin
    with the first call, as calls of several sizes, states of the model's own and what a sequence
    is worth that ends with a call need it.
    """

    graph: Graph
    apart: int
    flows: Sequence[Stream | None]
    pasts: Mapping[str, Stream]
    fixed: bool

    @property
    def calls(self) -> Calls:
        """Those of the network."""
        assert self.graph.calls is not None
        return self.graph.calls


#: The network with so many calls before the first one, whose outputs are so many steps late.
InPhase = Callable[[int, int | str], Found]


def least_late(found: Found, in_phase: InPhase) -> Found:
    """The network of least latency, from that whose first round begins with the first call.

    Later calls know more: what is possible with a latency is so with each larger one. So this
    bisects the latencies between one round less and that of `found`.
    """
    calls = found.calls
    if calls.every == 1 or found.fixed:
        return found
    unit = gcd(found.apart, calls.steps)
    enough = calls.latency // unit
    too_early = max(0, enough - calls.every * calls.steps // unit)
    while enough - too_early > 1:
        middle = (enough + too_early) // 2
        earlier = so_late(found, middle * unit, in_phase)
        if earlier:
            found, enough = earlier, middle
        else:
            too_early = middle
    return found


def so_late(known: Found, latency: int, in_phase: InPhase) -> Found | None:
    """The network whose outputs are so many steps late, if that is late enough; `known` is the same
    with any latency.
    """
    calls = known.calls
    if latency % calls.steps == 0:
        phases = [-(latency // calls.steps) % calls.every]
    else:
        phases = [q for q in range(calls.every) if (latency + q * calls.steps) % known.apart == 0]
    for phase in phases:
        try:
            found = in_phase(phase, latency)
        except (UnsupportedError, AheadError):
            continue
        if not found.fixed:
            return found
    return None


def begun(found: Found) -> Graph:
    """The network with the states that it has after the calls before the first one.

    Pasts stay as they are if all elements that those calls bring do not exist: nobody reads them.
    """
    graph, calls, pasts = found.graph, found.calls, found.pasts
    known = {s.input: _first(graph, s) for s in graph.states}
    zeros = {
        value: np.zeros(graph.types[value].shape, graph.types[value].dtype.numpy)
        for value in graph.inputs if value not in known
    }  # fmt: skip
    for number in range(1, calls.phase + 1):
        with np.errstate(all="ignore"):
            values = evaluate(graph, {**zeros, **known})
        for state in graph.states:
            stream = pasts.get(state.input)
            unused = stream and stream.delay >= calls.phase // stream.every * stream.count
            if number % calls.periods.get(state.output, 1) == 0 and not unused:
                known[state.input] = values[state.output]
    states = tuple(replace(s, initial=_flat(known[s.input])) for s in graph.states)
    return replace(graph, states=states)


def _first(graph: Graph, state: State) -> RefArray:
    type_ = graph.types[state.input]
    values = np.array(state.initial) if state.initial else np.zeros(type_.elements)
    return values.reshape(type_.shape).astype(type_.dtype.numpy)


def _flat(values: RefArray) -> tuple[float, ...]:
    """Numbers of a state; those that are none come from steps that do not exist."""
    numbers = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=inf, neginf=-inf)
    return tuple(map(float, numbers.flat)) if numbers.any() else ()
