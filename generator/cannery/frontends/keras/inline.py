"""Flattens a tree of models into one list of layer applications, in an order that can be computed.

An application is named `outer/inner` for a layer of a nested model; if a layer is applied several
times, later applications get `.1`, `.2` ... after the name of what is applied again.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cannery.errors import ModelError, OptionError, closest
from cannery.frontends.keras.arguments import Call
from cannery.frontends.keras.calls import Structure, TensorRef, flatten
from cannery.frontends.keras.layers.base import KerasLayer, LayerPath
from cannery.frontends.keras.model import Entry, InputSpec, ModelConfig
from cannery.frontends.unsupported import Problem
from cannery.ir.graph import free_name

#: More would be an attempt to exhaust memory with nested shared models.
_MAX_APPLICATIONS = 20_000


@dataclass(frozen=True)
class Value:
    """Output `output` of application number `application`."""

    application: int
    output: int


@dataclass(frozen=True)
class Application:
    """One use of a layer, or an input of the model. Its inputs are applications before it.

    `shapes` are those that Keras inferred for the inputs, if the file says so. `call` are its
    arguments, where there are more than inputs.
    """

    name: str
    path: LayerPath
    target: InputSpec | KerasLayer | Problem
    inputs: tuple[Value, ...] = ()
    shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    call: Call | None = None


@dataclass(frozen=True)
class Network:
    """A flat model. `outputs` have the names of the top-level layers that return them.

    `named` are the values of every application, and of every application of a nested model.
    """

    name: str
    applications: tuple[Application, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[str, Value], ...]
    named: Mapping[str, tuple[Value, ...]]


def inline(model: ModelConfig) -> Network:
    """The flat form of a model; ModelError for cycles and for absurd sizes."""
    flattener = _Flattener()
    names = [ref.layer for ref in flatten(model.inputs)]
    if len(set(names)) != len(names):
        raise ModelError("has the same input twice", where=f"model {model.name!r}")
    inputs = [flattener.add_input(name, model) for name in names]
    bound = {app.path[-1]: Value(i, 0) for i, app in enumerate(flattener.applications)}
    values = flattener.expand(model, "", (), bound)
    refs = flatten(model.outputs)
    outputs = tuple((ref.layer, value) for ref, value in zip(refs, values, strict=True))
    applications = tuple(flattener.applications)
    return Network(model.name, applications, tuple(inputs), outputs, flattener.named)


class _Flattener:
    """Appends applications; `named` collects what they return."""

    def __init__(self) -> None:
        self.applications: list[Application] = []
        self.named: dict[str, tuple[Value, ...]] = {}

    def add_input(self, name: str, model: ModelConfig) -> int:
        """Append an input of the whole model."""
        target = next(e.target for e in model.entries if e.name == name)
        assert isinstance(target, InputSpec | Problem)
        return self._append(Application(free_name(name, self.named), (name,), target))

    def _append(self, application: Application) -> int:
        if len(self.applications) >= _MAX_APPLICATIONS:
            raise ModelError(f"applies more than {_MAX_APPLICATIONS} layers")
        self.applications.append(application)
        number = len(self.applications) - 1
        self.named[application.name] = (Value(number, 0),)
        return number

    def expand(
        self, model: ModelConfig, prefix: str, path: LayerPath, bound: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """Append the applications of a model whose InputLayers mean `bound`; returns its
        outputs.
        """
        results: dict[tuple[str, int], tuple[Value, ...]] = {
            (name, 0): (value,) for name, value in bound.items()
        }
        for entry, k in _ordered(model, bound):
            arguments = _Arguments(entry.calls[k], results)
            name = free_name(f"{prefix}{entry.name}", self.named)
            inner = (*path, entry.name)
            target = entry.target
            if isinstance(target, ModelConfig):
                self.named[name] = ()
                values = self.expand(target, f"{name}/", inner, arguments.bind(target))
                self.named[name] = values
            else:
                given = entry.calls[k]
                shapes = tuple(ref.shape for ref in flatten(given))
                call = given if isinstance(given, Call) else None
                application = Application(name, inner, target, arguments.flat(), shapes, call)
                values = (Value(self._append(application), 0),)
            results[entry.name, entry.first_node + k] = values
        return tuple(_lookup(results, ref) for ref in flatten(model.outputs))


def _lookup(results: Mapping[tuple[str, int], tuple[Value, ...]], ref: TensorRef) -> Value:
    values = results[ref.layer, ref.node]
    if ref.tensor < len(values):
        return values[ref.tensor]
    source = values[0]
    # Only an unsupported layer may have outputs that are unknown here.
    return Value(source.application, ref.tensor)


class _Arguments:
    """The tensors of one call."""

    def __init__(
        self, call: Structure, results: Mapping[tuple[str, int], tuple[Value, ...]]
    ) -> None:
        self._call = call
        self._results = results

    def flat(self) -> tuple[Value, ...]:
        """All tensors in order."""
        return tuple(_lookup(self._results, ref) for ref in flatten(self._call))

    def bind(self, model: ModelConfig) -> dict[str, Value]:
        """Values by the name of the InputLayer that represents them in a nested model."""
        refs = self._matched(model)
        names = [ref.layer for ref in flatten(model.inputs)]
        if len(refs) != len(names):
            raise ModelError(
                f"is called with {len(refs)} inputs and has {len(names)}",
                where=f"model {model.name!r}",
            )
        return {n: _lookup(self._results, r) for n, r in zip(names, refs, strict=True)}

    def _matched(self, model: ModelConfig) -> Sequence[TensorRef]:
        """The call's references in the order of the model's inputs; mappings are matched by
        name.
        """
        call, inputs = self._call, model.inputs
        if isinstance(call, tuple) and len(call) == 1:
            call = call[0]
        if not isinstance(call, Mapping) or isinstance(inputs, Mapping):
            return flatten(call)
        names = [ref.layer for ref in flatten(inputs)]
        if set(names) != set(call):
            return flatten(call)
        return [ref for name in names for ref in flatten(call[name])]


def _ordered(model: ModelConfig, bound: Mapping[str, Value]) -> list[tuple[Entry, int]]:
    """All calls, each after those on which it depends, otherwise in the order of the file."""
    calls = [(e, k) for e in model.entries if e.name not in bound for k in range(len(e.calls))]
    numbers = {(e.name, e.first_node + k): i for i, (e, k) in enumerate(calls)}
    waiting: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for i, (entry, k) in enumerate(calls):
        needed = {
            _source(ref, numbers, entry)
            for ref in flatten(entry.calls[k])
            if ref.layer not in bound
        }
        waiting.append(needed)
        for source in needed:
            readers.setdefault(source, []).append(i)
    return [calls[i] for i in _topological(waiting, readers, model)]


def _source(ref: TensorRef, numbers: Mapping[tuple[str, int], int], entry: Entry) -> int:
    source = numbers.get((ref.layer, ref.node))
    if source is None:
        raise ModelError(
            f"reads {ref.layer!r}, which is not an input of the model",
            where=f"layer {entry.name!r}",
        )
    return source


def _topological(
    waiting: list[set[int]], readers: Mapping[int, list[int]], model: ModelConfig
) -> list[int]:
    """Kahn's algorithm; among those that are ready, the first in the file comes first."""
    ready = [i for i, needed in enumerate(waiting) if not needed]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for reader in readers.get(i, ()):
            waiting[reader].discard(i)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) != len(waiting):
        raise ModelError(
            "its layers depend on each other in a circle",
            where=f"model {model.name!r}",
            cure="save the model again",
        )
    return order


def select_outputs(network: Network, names: Sequence[str]) -> Network:
    """The network with the values of the layers `names` as outputs; unchanged if there are none.

    Raises OptionError for a name that no layer has.
    """
    if not names:
        return network
    outputs: list[tuple[str, Value]] = []
    for name in names:
        if name not in network.named:
            near, last = closest(name, network.named), ", ".join(list(network.named)[-8:])
            cure = f"did you mean {near!r}?" if near else f"the last ones are: {last}"
            raise OptionError(f"no layer is called {name!r}", where="--outputs", cure=cure)
        outputs += [(name, value) for value in network.named[name]]
    return Network(
        network.name, network.applications, network.inputs, tuple(outputs), network.named
    )


def needed_applications(network: Network, *, all_inputs: bool) -> tuple[int, ...]:
    """The numbers of the applications on which the outputs depend, ascending."""
    needed = {value.application for _, value in network.outputs}
    needed.update(network.inputs if all_inputs else ())
    for number in range(len(network.applications) - 1, -1, -1):
        if number in needed:
            needed.update(v.application for v in network.applications[number].inputs)
    return tuple(sorted(needed))
