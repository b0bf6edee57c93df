"""Variables: what a network keeps from one run to the next, as states of the graph.

There are resources, which VAR_HANDLE names, and tensors that are variables themselves, as those of
recurrent operators. Both begin with zeros, or with what a graph assigns that runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.ir.graph import Array, Graph, GraphBuilder, State
from cannery.ir.tensor import TensorType

#: Elements of all initial values.
_MOST_INITIAL = 2**22


@dataclass(frozen=True)
class Variable:
    """A variable that was read or assigned: its first value and its last one."""

    name: str
    start: str
    value: str


class Variables:
    """The variables of a file, by their keys."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._found: dict[str, Variable] = {}
        self._initial: dict[str, Array] = {}

    def read(self, key: str, name: str, type_: TensorType) -> str:
        """The value that a variable has now."""
        found = self._found.get(key)
        if found is None:
            start = self._builder.unique(name)
            self._builder.input(start, type_.shape, type_.dtype)
            found = self._found[key] = Variable(name, start, start)
        if self._builder.types[found.value] != type_:
            what = f"variable {name!r} is {self._builder.types[found.value]}, read as {type_}"
            raise ModelError(what)
        return found.value

    def assign(self, key: str, name: str, value: str) -> None:
        """Give a variable another value."""
        found = self._found.get(key)
        if found is None:
            self.read(key, name, self._builder.types[value])
            found = self._found[key]
        if self._builder.types[value] != self._builder.types[found.start]:
            had, has = (self._builder.types[v] for v in (found.start, value))
            raise ModelError(f"variable {name!r} is {had}, but becomes {has}")
        self._found[key] = replace(found, value=value)

    def now(self) -> dict[str, str]:
        """The value of each variable that was assigned, by its key."""
        return {key: v.value for key, v in self._found.items() if v.value != v.start}

    def begin(self, key: str, array: Array) -> None:
        """What a variable holds before the first run."""
        if key in self._found:
            raise UnsupportedError("a variable is used before it is initialised")
        self._initial[key] = array
        if sum(a.size for a in self._initial.values()) > _MOST_INITIAL:
            raise ModelError("the initial values of variables are too large")

    @property
    def inputs(self) -> list[str]:
        """Names of the states as inputs."""
        return [v.start for v in self._found.values()]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Names and values of the states as outputs."""
        return [(f"{v.name}/next", v.value) for v in self._found.values()]

    def in_graph(self, graph: Graph) -> Graph:
        """The graph with its last inputs and outputs as states."""
        count = len(self._found)
        if not count:
            return graph
        states = []
        pairs = zip(graph.inputs[-count:], graph.outputs[-count:], strict=True)
        for key, (start, end) in zip(self._found, pairs, strict=True):
            array, variable = self._initial.get(key), self._found[key]
            if array is None and variable.value == variable.start:
                what = f"variable {start!r} is read, but nothing gives it a value"
                raise ModelError(what, cure="convert the network with its weights")
            if array is not None and array.shape != graph.types[start].shape:
                what = f"variable {start!r} is {graph.types[start]}, but begins as {array.shape}"
                raise ModelError(what)
            zeros = array is None or not np.any(array)
            flat: Sequence[float] = () if zeros or array is None else array.reshape(-1).tolist()
            states.append(State(start, end, tuple(flat)))
        return replace(graph, states=tuple(states))
