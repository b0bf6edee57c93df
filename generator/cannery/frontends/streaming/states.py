"""Inputs and outputs of a model that are its state, as the user pairs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cannery.errors import OptionError, one_of
from cannery.ir.graph import Graph, State
from cannery.ir.rewrite import Rewriter


def declare_states(graph: Graph, pairs: Mapping[str, str]) -> Graph:
    """The network with those inputs and outputs as its state; they move after the others.

    Raises OptionError for names that are not an input and an output, and for types that differ.
    """
    found = []
    for input_, output in pairs.items():
        for kind, name, known in (
            ("input", input_, graph.inputs), ("output", output, graph.outputs),
        ):  # fmt: skip
            if name not in known:
                raise OptionError(
                    f"no {kind} is called {name!r}", where="--state",
                    cure=one_of(name, known, f"{kind}s"),
                )  # fmt: skip
        if graph.types[input_] != graph.types[output]:
            raise OptionError(
                f"{input_!r} is {graph.types[input_]}, {output!r} is {graph.types[output]}",
                where="--state", cure="a state has one type",
            )  # fmt: skip
        found.append(State(input_, output))
    states = (*found, *graph.states)
    return replace(
        graph,
        inputs=_last(graph.inputs, [s.input for s in states]),
        outputs=_last(graph.outputs, [s.output for s in states]),
        states=states,
    )


def finish_without(rewriter: Rewriter, states: Collection[State]) -> Graph:
    """The changed network without some of its states, which no other output needs any longer."""
    graph, inputs, outputs = rewriter.graph, {s.input for s in states}, {s.output for s in states}
    rewriter.outputs = tuple(v for v in graph.outputs if v not in outputs)
    rewriter.graph = replace(
        graph,
        inputs=tuple(v for v in graph.inputs if v not in inputs),
        states=tuple(s for s in graph.states if s not in states),
    )
    return replace(rewriter.finish(), outputs=rewriter.outputs)


def _last(values: Sequence[str], moved: Sequence[str]) -> tuple[str, ...]:
    return (*(v for v in values if v not in moved), *moved)
