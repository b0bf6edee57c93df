"""Turns a network for whole sequences into one for a step, with its state as inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cannery.errors import CanneryError, OptionError, UnsupportedError, one_of
from cannery.frontends.lengths import first_that_works, step_count
from cannery.frontends.time_axis import FINAL, Time, Use, one_step, shrunk
from cannery.ir.graph import Graph, Node, State, free_name
from cannery.ir.tensor import TensorType
from cannery.ops.movement.op import Identity
from cannery.ops.recurrent.base import SEQUENCE, Recurrent


def to_streaming(graph: Graph) -> Graph:
    """The network for one step: recurrent layers read and return their states.

    The time axis of inputs shrinks to one step. A value of a whole sequence, such as the last
    output of a layer, becomes the value for a sequence that ends at this step.

    Raises UnsupportedError, with the layer's name, for layers that cannot be computed step by step.
    """
    steps = step_count(graph, "--streaming")
    return first_that_works(
        graph, steps, lambda times: _Stepper(graph, steps, times).run(),
        "without --streaming it runs on whole sequences",
    )  # fmt: skip


@dataclass
class _Stepper:
    """Rewrites the nodes in order; `times` grows with the values, `types` are the new types."""

    graph: Graph
    steps: int
    times: dict[str, Time]
    types: dict[str, TensorType] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def run(self) -> Graph:
        """The network for one step."""
        graph = self.graph
        self.types = {v: graph.types[v] for v in graph.constants}
        self.types |= {v: shrunk(graph.types[v], self.times[v]) for v in graph.inputs}
        for node in graph.nodes:
            try:
                self._node(node)
            except CanneryError as error:
                error.where = error.where or f"layer {node.name!r} ({node.op.kind})"
                raise
        return replace(
            graph,
            nodes=tuple(self.nodes),
            inputs=(*graph.inputs, *(s.input for s in self.states)),
            outputs=(*graph.outputs, *(s.output for s in self.states)),
            types=self.types,
            states=(*graph.states, *self.states),
        )

    def _node(self, node: Node) -> None:
        graph = self.graph
        inputs = [graph.types[v] if v else None for v in node.inputs]
        times = [self.times.get(v) if v else None for v in node.inputs]
        use = Use(node.op, times, inputs, graph.types[node.outputs[0]], self.steps)
        time, op = one_step(use)
        if isinstance(op, Recurrent):
            if self.steps > 1 and time != 1:
                raise UnsupportedError("its steps are not those of the input")
            self._recurrent(replace(node, op=op), op, time)
            return
        self._add(replace(node, op=op))
        self.times[node.output] = time

    def _add(self, node: Node) -> None:
        types = node.op.infer(*(self.types[v] if v else None for v in node.inputs))
        self.types.update(zip(node.outputs, types, strict=True))
        self.nodes.append(node)

    def _recurrent(self, node: Node, op: Recurrent, time: Time) -> None:
        """A layer that begins with its state, and returns the next one."""
        known = dict(zip(op.returns, node.outputs, strict=True))
        outputs = {
            what: known.get(what) or self._fresh(f"{node.name}/{what}") for what in op.results
        }
        self.times |= {v: time if what == SEQUENCE else FINAL for what, v in outputs.items()}
        rest = (*node.inputs[2:], *[""] * (op.states + op.others))
        n, d = self.types[node.inputs[0]].shape[0], op.directions * op.cells
        given = list(rest[: op.states])
        owned = [k for k, value in enumerate(given) if self._is_own(value)]
        for k in owned:
            initial = self._initial(given[k])
            given[k] = self._fresh(f"{node.name}/{'hc'[k]}")
            self.types[given[k]] = TensorType((n, d))
            self.states.append(State(given[k], f"{given[k]}/next", initial))
        others = rest[op.states : op.states + op.others]
        inputs = (*node.inputs[:2], *given, *others)
        full = replace(op, returns=op.results)
        self._add(replace(node, op=full, inputs=inputs, outputs=tuple(outputs.values())))
        for k in owned:
            state, value = f"{given[k]}/next", outputs[op.results[1 + k]]
            self._add(Node(Identity(), state, (value,), (state,)))

    def _is_own(self, value: str) -> bool:
        """Whether a layer's own state passes from step to step; not if an initial state is
        computed.
        """
        if not value or value in self.graph.constants:
            return True
        if value in {s.input for s in self.graph.states}:
            return False
        raise UnsupportedError(
            f"its state begins with {value!r}, which is computed or an input",
            cure="--state IN=OUT names the input and the output that are its state",
        )

    def _initial(self, value: str) -> tuple[float, ...]:
        if not value:
            return ()
        array = np.asarray(self.graph.constants[value], np.float32).reshape(-1)
        return tuple(map(float, array)) if array.any() else ()

    def _fresh(self, name: str) -> str:
        return free_name(name, {*self.graph.types, *self.types})


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
    return replace(
        graph,
        inputs=_last(graph.inputs, [s.input for s in found]),
        outputs=_last(graph.outputs, [s.output for s in found]),
        states=tuple(found),
    )


def _last(values: Sequence[str], moved: Sequence[str]) -> tuple[str, ...]:
    return (*(v for v in values if v not in moved), *moved)
