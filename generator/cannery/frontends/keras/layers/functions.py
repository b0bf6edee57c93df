"""Activation functions by name, and activations of layers in all the forms that files hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import (
    KerasLayer,
    LayerPath,
    Scope,
    is_activation,
    read_layer,
)
from cannery.frontends.keras.layers.curves import (
    glu,
    hard_shrink,
    sparse_plus,
    sparsemax,
    squareplus,
)
from cannery.frontends.keras.version import KerasVersion
from cannery.ir.graph import Array, GraphBuilder
from cannery.ir.registry import Elementwise, Op
from cannery.ops.elementwise.activations import (
    Celu,
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    Relu,
    Selu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
    Tanh,
)
from cannery.ops.elementwise.binary import Sub
from cannery.ops.elementwise.unary import Exp, Neg
from cannery.ops.softmax.op import LogSoftmax, Softmax

#: Slope of the function leaky_relu, in both Keras 2 and 3; the layer LeakyReLU has another one.
_LEAKY_SLOPE = 0.2
_SHRINK = 0.5


@dataclass(frozen=True)
class Activation:
    """`apply` adds the nodes, the last one under the scope's own name.

    `pointwise`: it acts on each element separately, so it commutes with a transposition. `child` is
    set if it is a layer.
    """

    label: str
    apply: Callable[[Scope, str], str]
    pointwise: bool = True
    child: KerasLayer | None = None


#: The names and serialized forms that mean no activation.
_LINEAR = (None, "linear")

_SIMPLE: Mapping[str, Callable[[], Op]] = {
    "relu": Relu,
    "relu6": lambda: Clip(0.0, 6.0),
    "leaky_relu": lambda: LeakyRelu(_LEAKY_SLOPE),
    "elu": Elu,
    "selu": Selu,
    "celu": Celu,
    "gelu": Gelu,
    "silu": Silu,
    "mish": Mish,
    "softplus": Softplus,
    "softsign": Softsign,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "hard_silu": HardSwish,
    "hard_tanh": lambda: Clip(-1.0, 1.0),
    "exponential": Exp,
    "sparse_sigmoid": lambda: HardSigmoid(0.5, 0.5),
}

_ALIASES = {
    "swish": "silu",
    "hard_swish": "hard_silu",
    "softmax_v2": "softmax",
    "log_softmax_v2": "log_softmax",
}


def _log_sigmoid(scope: Scope, x: str) -> str:
    negated = scope.node(Neg(), [x], "negated")
    return scope.node(Neg(), [scope.node(Softplus(), [negated], "softplus")])


def _tanh_shrink(scope: Scope, x: str) -> str:
    return scope.node(Sub(), [x, scope.node(Tanh(), [x], "tanh")])


def _soft_shrink(scope: Scope, x: str) -> str:
    return scope.node(Sub(), [x, scope.node(Clip(-_SHRINK, _SHRINK), [x], "clip")])


_COMPOSED: Mapping[str, Callable[[Scope, str], str]] = {
    "log_sigmoid": _log_sigmoid,
    "tanh_shrink": _tanh_shrink,
    "soft_shrink": _soft_shrink,
    "hard_shrink": hard_shrink,
    "squareplus": squareplus,
    "sparse_plus": sparse_plus,
}


def _along_last(make: Callable[[int], Op]) -> Callable[[Scope, str], str]:
    def apply(scope: Scope, x: str) -> str:
        return scope.node(make(scope.axis(x, -1)), [x])

    return apply


_ALONG_LAST: Mapping[str, Callable[[Scope, str], str]] = {
    "softmax": _along_last(Softmax),
    "log_softmax": _along_last(LogSoftmax),
    "glu": lambda scope, x: glu(scope, x, scope.axis(x, -1)),
    "sparsemax": lambda scope, x: sparsemax(scope, x, scope.axis(x, -1)),
}


def function_names() -> tuple[str, ...]:
    """The names of all activation functions that can be imported, sorted."""
    return tuple(sorted({"linear", "hard_sigmoid", *_SIMPLE, *_COMPOSED, *_ALONG_LAST, *_ALIASES}))


def hard_sigmoid(version: KerasVersion) -> HardSigmoid:
    """Keras 2: clip(0.2 x + 0.5, 0, 1); Keras 3: clip(x/6 + 0.5, 0, 1)."""
    return HardSigmoid(alpha=1 / 6 if version.is_3 else 0.2, beta=0.5)


def _one_node(op: Op) -> Callable[[Scope, str], str]:
    return lambda scope, x: scope.node(op, [x])


def read_function(name: str, version: KerasVersion) -> Activation | None:
    """The activation function of that name, None for linear; UnsupportedError if unknown."""
    if name in _LINEAR:
        return None
    known = _ALIASES.get(name, name)
    if known == "hard_sigmoid":
        return Activation(known, _one_node(hard_sigmoid(version)))
    if known in _SIMPLE:
        return Activation(known, _one_node(_SIMPLE[known]()))
    if known in _COMPOSED:
        return Activation(known, _COMPOSED[known])
    if known in _ALONG_LAST:
        return Activation(known, _ALONG_LAST[known], pointwise=False)
    raise UnsupportedError(
        f"activation {name!r} is not supported", cure=f"one of: {', '.join(function_names())}"
    )


def read_activation(config: LayerConfig, key: str = "activation") -> Activation | None:
    """The activation of a layer: a name, a serialized function, or a serialized layer.

    None for linear. Raises UnsupportedError for anything custom.
    """
    value = config.raw(key)
    if value is None:
        return None
    if isinstance(value, str):
        return read_function(value, config.version)
    if not isinstance(value, dict):
        raise ModelError(f"{key} is not an activation", where=f"layer {config.name!r}")
    class_name, inner = value.get("class_name"), value.get("config")
    if isinstance(inner, str) and class_name in ("function", "builtin_function_or_method"):
        return read_function(inner, config.version)
    if isinstance(class_name, str) and isinstance(inner, dict) and is_activation(class_name):
        return _read_activation_layer(class_name, inner, config)
    raise UnsupportedError(
        f"activation {class_name!r} is not supported", cure="use a built-in activation"
    )


def _read_activation_layer(
    class_name: str, values: Mapping[str, object], owner: LayerConfig
) -> Activation:
    inner = read_layer(LayerConfig(owner.name, class_name, values, owner.version))

    def apply(scope: Scope, x: str) -> str:
        y = inner.plan.build(scope, [x])
        assert isinstance(y, str)
        return y

    return Activation(class_name.lower(), apply, pointwise=False, child=inner)


def apply_activation(scope: Scope, x: str, activation: Activation | None) -> str:
    """`x` through the activation of the layer in `scope`, by nodes `<layer>/<activation>`."""
    if activation is None:
        return x
    attribute = None if activation.child is None else "activation"
    return activation.apply(scope.under(activation.label, attribute=attribute), x)


def chain_of(activation: Activation | None, key: str) -> tuple[Elementwise, ...]:
    """An activation as operators applied one after the other, for cells that compute it inside.

    Raises UnsupportedError for one that is not such a chain, such as softmax.
    """
    if activation is None:
        return ()
    cure = "use another activation in the recurrent layer"
    refused = UnsupportedError(f"{key} {activation.label!r} inside a cell", cure=cure)
    if activation.child is not None and activation.child.has_weights:
        raise refused
    builder = GraphBuilder("activation")
    running = builder.input("x", (1, 1))
    builder.output(activation.apply(Scope(builder, _NoWeights(), "f", ("f",), {}), running))
    found: list[Elementwise] = []
    for node in builder.build().nodes:
        if not isinstance(node.op, Elementwise) or node.inputs != (running,):
            raise refused
        found.append(node.op)
        running = node.output
    return tuple(found)


class _NoWeights:
    """The store for things without weights."""

    def read(self, path: LayerPath, variable: str, shapes: Sequence[tuple[int, ...]]) -> Array:
        """See WeightStore."""
        raise ModelError(f"weight {variable!r} is not stored")

    def count(self, path: LayerPath) -> int:
        """See WeightStore."""
        return 0


def children_of(activation: Activation | None) -> Mapping[str, KerasLayer]:
    """The layers to store for an activation: itself, if it is one with weights."""
    if activation is None or activation.child is None or not activation.child.has_weights:
        return {}
    return {"activation": activation.child}
