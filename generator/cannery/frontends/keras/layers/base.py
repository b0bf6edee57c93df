"""The registry of Keras layers, and the tools of their functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.custom import OWN
from cannery.frontends.json_values import mapping, text
from cannery.frontends.keras.arguments import Arguments, Call
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.refused import REFUSED
from cannery.ir.graph import Array, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.movement.op import Cast, Transpose
from cannery.plugins import OPS, plugins

#: Names of a layer from the top of the model, `("outer", "inner")`; if a layer holds another one as
#: an attribute, then the attribute's name, as in `("conv", "activation")`.
LayerPath = tuple[str, ...]


class WeightStore(Protocol):
    """The source of a model's weights."""

    def read(self, path: LayerPath, variable: str, shapes: Sequence[tuple[int, ...]]) -> Array:
        """A float32 weight; ModelError unless it is stored with one of `shapes`."""

    def count(self, path: LayerPath) -> int:
        """How many weights are stored for a layer, as far as known."""


#: A value's mask: called when a layer needs it, it makes the nodes, and returns their value.
Mask = Callable[[], str]


@dataclass
class Given:
    """What an application gets besides its inputs, and the mask that its results have.

    `masks` are those of the inputs; of a layer that is called with one, that.
    """

    arguments: Arguments
    masks: Sequence[Mask | None] = ()
    result_mask: Mask | None = None


def nothing_given() -> Given:
    """A call with nothing but inputs."""
    return Given(Arguments(Call((), {}), (), {}))


class Scope:
    """One application of a layer: makes its nodes and gives them names.

    `name` names the application, `path` the layer (applications of one layer share its constants).
    """

    def __init__(
        self,
        builder: GraphBuilder,
        store: WeightStore,
        name: str,
        path: LayerPath,
        constants: dict[tuple[LayerPath, str], str],
        given: Given | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.given = given or nothing_given()
        self._builder = builder
        self._store = store
        self._constants = constants

    def under(self, label: str, *, attribute: str | None = None) -> Scope:
        """The scope named `<name>/<label>`, for the layer held as `attribute` if that is given."""
        path = (*self.path, attribute) if attribute else self.path
        return Scope(self._builder, self._store, f"{self.name}/{label}", path, self._constants)

    def node(self, op: Op, inputs: Sequence[str], label: str = "") -> str:
        """Append a node named like this application, or `<name>/<label>`; returns its output."""
        return self.nodes(op, inputs, label)[0]

    def nodes(self, op: Op, inputs: Sequence[str], label: str = "") -> tuple[str, ...]:
        """The same for an operator with several outputs; absent inputs are the empty string."""
        name = f"{self.name}/{label}" if label else self.name
        return self._builder.nodes(op, inputs, name=self._builder.unique(name))

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value, batch included."""
        return self._builder.types[value].shape

    def rank(self, value: str) -> int:
        """The number of dimensions of a value, batch included."""
        return len(self.shape(value))

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self._builder.types[value]

    def mask(self, index: int = 0) -> str | None:
        """The mask of an input, by the name of its value; None if it has none."""
        found = self.given.masks[index] if index < len(self.given.masks) else None
        return None if found is None else found()

    def is_float(self, value: str) -> bool:
        """Whether a value is float32."""
        return self._builder.types[value].dtype is DType.FLOAT32

    def to_float(self, value: str) -> str:
        """`value` as float32, by a Cast `<value>/cast` that all its readers share."""
        if self.is_float(value):
            return value
        return self.shared(
            ("", value),
            lambda: self._builder.node(
                Cast(DType.FLOAT32), [value], name=self._builder.unique(f"{value}/cast")
            ),
        )

    def shared(self, key: tuple[str, str], make: Callable[[], str]) -> str:
        """The value made under `key`; makes it at the first use."""
        where = ((key[0],), key[1])
        if where not in self._constants:
            self._constants[where] = make()
        return self._constants[where]

    def weight(self, variable: str, *shapes: tuple[int, ...]) -> Array:
        """A stored weight; ModelError unless it has one of `shapes`."""
        return self._store.read(self.path, variable, shapes)

    def stored_weights(self) -> int:
        """How many weights are stored for this layer, as far as known."""
        return self._store.count(self.path)

    def constant(self, label: str, make: Callable[[], NDArray[np.generic]]) -> str:
        """The constant `<layer>/<label>`; `make` is called for the layer's first application."""
        key = (self.path, label)
        if key not in self._constants:
            hint = "/".join((*self.path, label))
            self._constants[key] = self._builder.constant(hint, make())
        return self._constants[key]

    def literal(self, label: str, array: NDArray[np.generic]) -> str:
        """The constant `<name>/<label>`, of this application alone."""
        return self._builder.constant(f"{self.name}/{label}", array)

    def stored(self, variable: str, shape: tuple[int, ...]) -> str:
        """The constant that is the stored weight itself."""
        return self.constant(variable, lambda: self.weight(variable, shape))

    def single(self, inputs: Sequence[str]) -> str:
        """The only input; ModelError if there are several."""
        if len(inputs) != 1:
            raise ModelError(f"takes one input, has {len(inputs)}")
        return inputs[0]

    def axis(self, value: str, axis: int) -> int:
        """`axis` counted from the front; the batch axis and axes out of range are errors."""
        rank = self.rank(value)
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is outside of its input {self.shape(value)}")
        if axis % rank == 0:
            raise UnsupportedError(
                "it works along the batch", cure="choose another axis: samples are independent"
            )
        return axis % rank

    def transposed(self, value: str, label: str, axes: tuple[int, ...]) -> str:
        """`value` with its dimensions permuted, by a node `<name>/<label>`."""
        return self.node(Transpose(axes), [value], label)

    def channels_last(self, value: str, first: bool) -> str:
        """`value` with its channels moved from axis 1 to the end, if they are `first`."""
        if not first:
            return value
        return self.transposed(value, "channels_last", (0, *range(2, self.rank(value)), 1))

    def channels_back(self, value: str, first: bool) -> str:
        """Undoes `channels_last`."""
        rank = self.rank(value)
        if not first:
            return value
        return self.transposed(value, "channels_first", (0, rank - 1, *range(1, rank - 1)))


#: One application: the inputs of a layer (flat) to its output, or to a list of several.
Build = Callable[[Scope, Sequence[str]], "str | list[str]"]


@dataclass(frozen=True)
class LayerPlan:
    """What a layer does and stores.

    `weights` are its trainable variables and `state` the others, in the order in which Keras makes
    them. `children` are the layers with weights that it holds, by attribute, or by attributes
    joined with `/`. A `stateful` layer continues in each run from its last state. The steps of an
    `unrolled` layer are nodes of their own. A layer that
    `trains_by_default` treats calls that do not say so as training. `signature` are the parameters
    of its call, where it takes more than inputs; it reads them from `Scope.given`. `settings` are
    arguments that all calls have. `reads_masks`: it asks for the masks of its inputs, so they may
    have some.
    """

    build: Build
    weights: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    children: Mapping[str, KerasLayer] | None = None
    stateful: bool = False
    unrolled: bool = False
    trains_by_default: bool = False
    signature: tuple[str, ...] = ()
    reads_masks: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class KerasLayer:
    """A layer that was read and is supported. `other_policy` is its dtype policy, if that has 16
    or 64 bits.
    """

    name: str
    class_name: str
    trainable: bool
    plan: LayerPlan
    other_policy: str = ""

    @property
    def children(self) -> Mapping[str, KerasLayer]:
        """Layers with weights that this one holds, by attribute."""
        return self.plan.children or {}

    @property
    def has_weights(self) -> bool:
        """Whether the layer, or a layer that it holds, stores anything."""
        own = bool(self.plan.weights or self.plan.state)
        return own or any(child.has_weights for child in self.children.values())


Read = Callable[[LayerConfig], LayerPlan]
ReadRank = Callable[[LayerConfig, int], LayerPlan]

_LAYERS: dict[str, Read] = {}
_ACTIVATIONS: set[str] = set()
_INERT: set[str] = set()


def layer(
    *class_names: str, activation: bool = False, inert: bool = False
) -> Callable[[Read], Read]:
    """Register a function for layers; `activation`: they may also be another layer's activation,
    `inert`: they do nothing unless a network is trained.
    """

    def register(read: Read) -> Read:
        for class_name in class_names:
            if class_name in _LAYERS:
                raise TypeError(f"layer {class_name} is registered twice")
            _LAYERS[class_name] = read
        if activation:
            _ACTIVATIONS.update(class_names)
        if inert:
            _INERT.update(class_names)
        return read

    return register


def layer_by_rank(
    *patterns: str, ranks: Sequence[int] = (1, 2, 3)
) -> Callable[[ReadRank], ReadRank]:
    """Register a function for layers with one to three spatial axes: `Conv{}D` for all of them."""

    def of_rank(read: ReadRank, rank: int) -> Read:
        return lambda config: read(config, rank)

    def register(read: ReadRank) -> ReadRank:
        for rank in ranks:
            layer(*(pattern.format(rank) for pattern in patterns))(of_rank(read, rank))
        return read

    return register


@cache
def _discover() -> None:
    package = import_module("cannery.frontends.keras.layers")
    for found in iter_modules(package.__path__, "cannery.frontends.keras.layers."):
        import_module(found.name)
    plugins(OPS)


def layer_names() -> tuple[str, ...]:
    """The class names of all layers that can be imported, sorted."""
    _discover()
    return tuple(sorted(_LAYERS))


def is_inert(class_name: str) -> bool:
    """Whether layers of a class do nothing unless a network is trained."""
    _discover()
    return class_name in _INERT


def is_activation(class_name: str) -> bool:
    """Whether the class may be another layer's activation."""
    _discover()
    return class_name in _ACTIVATIONS


def read_layer(config: LayerConfig) -> KerasLayer:
    """The layer of a config.

    Raises UnsupportedError for an unknown class or attribute, ModelError for a malformed one.
    """
    _discover()
    read = _LAYERS.get(config.class_name)
    if read is None:
        raise _unsupported(config.class_name)
    config.check_policy()
    plan = read(config)
    config.check_all_read()
    return KerasLayer(config.name, config.class_name, config.trainable, plan, config.other_policy)


def held_layer(config: LayerConfig) -> KerasLayer:
    """The layer that a wrapper holds as `layer`; it has the wrapper's name.

    Raises UnsupportedError and ModelError like `read_layer`.
    """
    given = mapping(config.raw("layer"), "layer")
    class_name = text(given.get("class_name"), "the class of its layer")
    values = mapping(given.get("config"), "the config of its layer")
    return read_layer(LayerConfig(config.name, class_name, values, config.version))


def _unsupported(class_name: str) -> UnsupportedError:
    """The error for a class without a reader; the same cure for several layers is given once."""
    if class_name in ("TFOpLambda", "TensorFlowOpLayer", "SlicingOpLambda"):
        return UnsupportedError(
            "this class is not supported",
            cure="use a layer instead of the operation, such as Add for x + y",
        )
    refused = REFUSED.get(class_name)
    if refused is None:
        return UnsupportedError(
            "this class is not supported",
            cure=f"use layers that `cannery list` names, {OWN.format(class_name)}",
        )
    return UnsupportedError(refused.reason, cure=refused.cure)
