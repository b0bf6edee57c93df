"""The graph: nodes in topological order over named values; every shape is known.

Channels are last (NHWC) everywhere. Operators are instances of the frozen dataclasses in
`cannery.ops`, so a node's attributes are typed fields: `node.op.strides`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cannery.errors import CanneryError, ModelError
from cannery.ir.tensor import DType, TensorType

if TYPE_CHECKING:
    from cannery.ir.registry import Op

#: A constant of the graph.
Array = NDArray[np.generic]

_T = TypeVar("_T")

#: Most elements of a constant that a builder computes.
MAX_EVALUATED = 2**16


@dataclass(frozen=True)
class Node:
    """One application of an operator. An absent optional input is the empty string."""

    op: Op
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def output(self) -> str:
        """The only output; most operators have one."""
        (value,) = self.outputs
        return value

    def renamed(self, new: Callable[[str], str]) -> Node:
        """The same node with its values renamed."""
        inputs, outputs = tuple(map(new, self.inputs)), tuple(map(new, self.outputs))
        return Node(self.op, self.name, inputs, outputs)


@dataclass(frozen=True)
class State:
    """An input that the network's next run takes from an output of this one.

    `initial` is the value for the first run, row-major; None: zeros.
    """

    input: str
    output: str
    initial: tuple[float, ...] = ()


#: Steps of silence for networks with recurrent layers, after those for their other states.
RECURRENT_STEPS = 4096


@dataclass(frozen=True)
class Calls:
    """A network that runs step by step: the steps of a call, and by how many outputs are late.

    Outputs come once in `every` calls: the network is what such a call computes. `periods` says of
    outputs, states included, in how many calls they change once, if not in each. Both are counted
    as if there had been `phase` calls, less than `every`, before the first one. After `settled`
    steps without a change of the inputs, states that are pasts do not change any more; `lasting`:
    there are others, as those of recurrent layers, which may.
    """

    steps: int = 1
    latency: int = 0
    every: int = 1
    periods: Mapping[str, int] = field(default_factory=dict)
    settled: int = 0
    lasting: bool = False
    phase: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "periods", MappingProxyType(dict(self.periods)))

    @property
    def round(self) -> int:
        """Calls after which all begins anew."""
        return lcm(*self.periods.values())

    @property
    def first_output(self) -> int:
        """The number of the first call with outputs, counted from 1."""
        return self.every - self.phase

    def changes(self, output: str, number: int) -> bool:
        """Whether an output changes in call `number`, counted from 1."""
        return (number + self.phase) % self.periods.get(output, 1) == 0


@dataclass(frozen=True)
class Length:
    """Sequences may end before the last of `steps`; `times` is the time axis of each value."""

    steps: int
    times: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", MappingProxyType(dict(self.times)))


@dataclass(frozen=True)
class Scale:
    """What integers q of an input or output mean: scale * (q - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class FloatLayer:
    """A layer that computes with floats in a quantised network, and the reason in a few words.

    `differs`: whether processors may disagree about the last bits of its result.
    """

    name: str
    reason: str
    differs: bool


@dataclass(frozen=True)
class WeightCodes:
    """Weights of few levels in a quantised network, whose codes microcontrollers store.

    `form` is the option's value, `layers` are those with codes, `kept` others that would lose too
    much, each with that; `bytes` are those of all weights with such codes.
    """

    form: str
    layers: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    bytes: int


@dataclass(frozen=True)
class Quantization:
    """The result of quantising a network's layers.

    `losses`: max|y - f| / max|f| of each output against the float network on the `samples` of
    calibration. `layers` are the integer ones, `floats` those that compute with floats (layers that
    only move numbers are neither). The bytes are those of all weights. `ranges` are bound and unit
    of each value that became integers, in the order in which they were asked for; before them,
    with a bound of 0, from which sensitivity on functions of one value stay floats. `codes`:
    weights have few levels.
    """

    dtype: DType
    samples: int
    losses: tuple[tuple[str, float], ...]
    layers: tuple[str, ...]
    float_bytes: int
    bytes: int
    floats: tuple[FloatLayer, ...] = ()
    ranges: tuple[tuple[int, float], ...] = ()
    codes: WeightCodes | None = None

    @property
    def differs(self) -> bool:
        """Whether processors may disagree about the last bits of the outputs."""
        return any(layer.differs for layer in self.floats)

    @property
    def float_names(self) -> dict[str, tuple[str, ...]]:
        """The names of the layers that compute with floats, by reason."""
        found: dict[str, tuple[str, ...]] = {}
        for layer in self.floats:
            found[layer.reason] = (*found.get(layer.reason, ()), layer.name)
        return found

    @property
    def by_output(self) -> dict[str, float]:
        """The losses by output."""
        return dict(self.losses)


@dataclass(frozen=True)
class HalfWeights:
    """The result of storing weights as float16.

    `layers` have them, `floats` are the others and why; `error` is max|y - r| / max|r| of the worst
    output on the `samples`. The bytes are those of all constants, before and after.
    """

    layers: tuple[str, ...]
    floats: tuple[tuple[str, str], ...]
    error: float
    samples: int
    float_bytes: int
    bytes: int


@dataclass(frozen=True)
class HalfLayers:
    """The result of computing in half precision, or in another `type`.

    `layers` do, `floats` are the others and why; `error` is max|y - r| / max|r| of the worst output
    on the `samples`, by a model of the rounding of exact schedules: what inexact ones add, such as
    Winograd's tiles of 4x4, is not in it. The bytes are those of all constants, before and after.
    """

    layers: tuple[str, ...]
    floats: tuple[tuple[str, str], ...]
    error: float
    samples: int
    float_bytes: int
    bytes: int
    type: str = "float16"


@dataclass(frozen=True)
class Graph:
    """An immutable network. `types` covers inputs, constants and every node's outputs.

    `channels_first` names the inputs and outputs that are images with channels first in the model,
    `files` are those read in addition to the model's own. `states` are the last inputs and outputs,
    in order. `length` is set if sequences may have fewer than all steps. `quantization` is set if
    layers were made integer. `integer_layers` are those that are integer in the model itself. Where
    results of float layers become integers of the model, a last bit may change one by a unit, and
    outputs may be off by `unit_error` of max|y|. `scales` are for inputs and outputs that are
    integers with a scale. `calls` is set if the network runs step by step. `notes`: what else users
    of the interface should know, a line each. `metadata` is what the file says of itself.
    `weights_vary`: the code has to serve other weights too. `class_names`: what the model calls the
    classes whose indices an output holds. `halves` are constants that are stored as float16: their
    numbers are such, in the type float32. `half_weights` says what that costs and saves.
    `half_layers` is set if layers compute in half precision: their values have the type HALF; or if
    they multiply bfloat16: their operators say so (`Op.of_bfloat`).
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array]
    channels_first: frozenset[str] = frozenset()
    files: tuple[Path, ...] = ()
    states: tuple[State, ...] = ()
    length: Length | None = None
    quantization: Quantization | None = None
    integer_layers: tuple[str, ...] = ()
    unit_error: float = 0.0
    scales: Mapping[str, Scale] = field(default_factory=dict)
    calls: Calls | None = None
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, compare=False)
    weights_vary: bool = False
    class_names: tuple[str, ...] = ()
    halves: frozenset[str] = frozenset()
    half_weights: HalfWeights | None = None
    half_layers: HalfLayers | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))
        object.__setattr__(self, "constants", MappingProxyType(dict(self.constants)))
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def producer(self, value: str) -> Node | None:
        """The node that computes `value`; None for inputs and constants."""
        return self._producers.get(value)

    def consumers(self, value: str) -> tuple[Node, ...]:
        """The nodes that read `value`, in topological order."""
        return self._consumers.get(value, ())

    def once(self, key: Hashable, about: Sequence[object], find: Callable[[], _T]) -> _T:
        """The result of `find`, which is called once per key and objects, because graphs never
        change.

        Objects are distinguished by identity, because comparing steps takes long.
        """
        place = (key, *map(id, about))
        if place not in self._found:
            self._found[place] = (about, find())
        return cast(_T, self._found[place][1])

    @cached_property
    def _found(self) -> dict[Hashable, tuple[Sequence[object], object]]:
        """By key; the objects are kept, so that no other object gets their identity."""
        return {}

    @property
    def steps_of_call(self) -> int:
        """Steps of a call of a network that runs step by step; else 0."""
        return self.calls.steps if self.calls else 0

    @property
    def prewarm_calls(self) -> int:
        """Calls after which silence changes nothing; of recurrent layers, and of states that the
        model names itself, that is never certain.
        """
        calls = self.calls
        if calls is None:
            return RECURRENT_STEPS if self.states else 0
        steps = calls.settled + (RECURRENT_STEPS if calls.lasting else 0)
        whole = calls.steps * calls.round
        return -(-steps // whole) * calls.round

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(array.nbytes for array in self.constants.values())

    @cached_property
    def _producers(self) -> dict[str, Node]:
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                found.setdefault(value, []).append(node)
        return {value: tuple(nodes) for value, nodes in found.items()}

    def error_bound(self, max_error: float) -> float:
        """How far the outputs of the whole network may be off, relative to max|y|.

        Where integers follow float layers, a last bit may change one by a unit. That is never more
        than quantisation loses anyway.
        """
        losses = self.quantization.by_output.values() if self.quantization else ()
        return max(max_error, self.unit_error, *losses)

    def with_nodes(self, nodes: Sequence[Node]) -> Graph:
        """The same graph with other nodes; types are kept."""
        return replace(self, nodes=tuple(nodes))


def _wide(array: Array) -> Array:
    """The input of references: float64 for floats."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def free_name(hint: str, taken: Container[str], suffixes: dict[str, int] | None = None) -> str:
    """`hint`, or `hint.1`, `hint.2` ... if it is taken; `suffixes` keeps the last of each."""
    name, k = hint, suffixes.get(hint, 0) if suffixes else 0
    while name in taken:
        k += 1
        name = f"{hint}.{k}"
    if suffixes is not None:
        suffixes[hint] = k
    return name


class GraphBuilder:
    """Builds a Graph node by node; it infers shapes at once, and errors name the layer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self._suffixes: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._inputs: list[str] = []
        self._outputs: list[str] = []

    def unique(self, hint: str) -> str:
        """`hint`, or `hint.1`, `hint.2` ... if it is taken."""
        return free_name(hint, self.types, self._suffixes)

    def input(self, name: str, shape: Sequence[int], dtype: DType = DType.FLOAT32) -> str:
        """Declare the next input of the model; its name must be free."""
        if name in self.types:
            raise ModelError(f"two tensors are named {name!r}")
        self.types[name] = TensorType(tuple(shape), dtype)
        self._inputs.append(name)
        return name

    def constant(self, hint: str, array: Array) -> str:
        """Add a constant; float64 and float16 become float32."""
        if array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        name = self.unique(hint)
        self.types[name] = TensorType(array.shape, DType(array.dtype.name))
        self.constants[name] = array
        return name

    def node(self, op: Op, inputs: Sequence[str], *, name: str) -> str:
        """Append a node with one output, named after the node; returns the output."""
        return self.nodes(op, inputs, name=name)[0]

    def nodes(self, op: Op, inputs: Sequence[str], *, name: str) -> tuple[str, ...]:
        """Append a node with any number of outputs; returns their names.

        Raises ModelError or UnsupportedError, with the layer's name, if the types do not fit.
        """
        try:
            types = op.infer(*(self.types[i] if i else None for i in inputs))
        except CanneryError as error:
            error.where = error.where or f"layer {name!r}"
            raise
        outputs = []
        for type_ in types:
            output = self.unique(name)
            self.types[output] = type_
            outputs.append(output)
        self._nodes.append(Node(op, name, tuple(inputs), tuple(outputs)))
        return tuple(outputs)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    def evaluated(self, op: Op, inputs: Sequence[str], *, name: str) -> tuple[str, ...]:
        """Like `nodes`, but if the inputs are constants, so are the results, unless they are
        large.
        """
        outputs = self.nodes(op, inputs, name=name)
        if sum(self.types[o].elements for o in outputs) > MAX_EVALUATED:
            return outputs
        self._nodes.pop()
        with np.errstate(all="ignore"):
            results = op.reference(*(_wide(self.constants[i]) if i else None for i in inputs))
            for output, result in zip(outputs, results, strict=True):
                dtype = self.types[output].dtype.numpy
                self.constants[output] = np.array(result, dtype, order="C")
        return outputs

    def output(self, value: str) -> None:
        """Declare the next output of the model."""
        self._outputs.append(value)

    def build(self) -> Graph:
        """The finished graph; raises ModelError if it has no outputs."""
        if not self._outputs:
            raise ModelError("the model has no outputs", where=self.name)
        return Graph(
            self.name,
            tuple(self._nodes),
            tuple(self._inputs),
            tuple(self._outputs),
            self.types,
            self.constants,
        )
