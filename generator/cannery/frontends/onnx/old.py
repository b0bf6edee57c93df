"""Operators of ONNX's versions 1 to 6, as those of version 7.

The package's own converter lacks some operators, and needs shapes. So each operator that changed
until version 7 has a function here; those that only lost `consumed_inputs` need none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.functions import is_unchanged, local_name
from cannery.frontends.onnx.model import STANDARD, OnnxModel, OnnxNode, Subgraph

#: The first version that is read as it is.
FIRST = 7

#: The domain of `Align`, which exists only here.
DOMAIN = "cannery.old"

#: Operators of the first version that later ones do not have.
EXPERIMENTAL = ("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")

#: Operators that lost an attribute without a meaning for inference, and changed in nothing else.
_SAME = frozenset(
    "Abs AveragePool BatchNormalization Ceil Clip Dropout Elu Exp Floor Gemm HardSigmoid "
    "InstanceNormalization LSTM LeakyRelu Log Max Mean Min Neg RNN Reciprocal Relu Sigmoid Sqrt "
    "Sum Tanh".split()
)
_DROPPED = ("consumed_inputs", "is_test", "output_sequence", "broadcast")

#: Operators of two inputs, of which the second is broadcast if `broadcast` says so.
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")

#: The names of element types that Cast has as text.
_ELEMENTS = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7,
    "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13,
}  # fmt: skip

#: From a node to those of version 7 with the same outputs; the version is that of its operator.
_Change = Callable[[OnnxNode, int], list[OnnxNode]]


def modernised(model: OnnxModel) -> OnnxModel:
    """The model with operators of version 7 at least.

    Raises UnsupportedError for an operator that nobody knows how to read.
    """
    version = model.opset("")
    if not 1 <= version < FIRST:
        return model
    nodes = tuple(made for node in model.nodes for made in _changed(node, version))
    return replace(model, nodes=nodes, opsets={**model.opsets, "": FIRST})


def _changed(node: OnnxNode, version: int) -> list[OnnxNode]:
    """A node, and those within its branches and bodies, in version 7."""
    if node.domain not in STANDARD:
        return [node]
    attributes = {name: _inner(value, version) for name, value in node.attributes.items()}
    node = replace(node, attributes=attributes)
    if node.kind in EXPERIMENTAL or is_unchanged(node, version, FIRST):
        return [node]
    if node.kind in _SAME:
        return [_without(node, *_DROPPED)]
    if node.kind not in _CHANGES:
        raise UnsupportedError(
            f"it has version {version}, and {FIRST} has another form", where=node.place,
            cure="export the model again",
        )  # fmt: skip
    return _CHANGES[node.kind](_without(node, "consumed_inputs"), version)


def _inner(value: object, version: int) -> object:
    if not isinstance(value, Subgraph):
        return value
    return replace(value, nodes=tuple(m for node in value.nodes for m in _changed(node, version)))


def _without(node: OnnxNode, *names: str) -> OnnxNode:
    """A node without some attributes."""
    kept = {k: v for k, v in node.attributes.items() if k not in names}
    return replace(node, attributes=kept)


def _with(node: OnnxNode, values: Mapping[str, object], *without: str) -> OnnxNode:
    """A node with attributes, which do not replace its own, and without others."""
    kept = _without(node, *without)
    return replace(kept, attributes={**values, **kept.attributes})


def _aligned(node: OnnxNode, axis: int) -> list[OnnxNode]:
    """A node whose second input's first axis is an axis of the first input."""
    a, b = node.inputs
    name = local_name(node.label, "aligned")
    align = OnnxNode("Align", DOMAIN, name, (b, a), (name,), {"axis": axis})
    return [align, replace(node, inputs=(a, name))]


def _binary(node: OnnxNode, _: int) -> list[OnnxNode]:
    axis, wide = node.attributes.get("axis"), node.attributes.get("broadcast")
    node = _without(node, "axis", "broadcast")
    if not wide or axis is None:
        return [node]
    if not isinstance(axis, int) or len(node.inputs) != 2:
        raise ModelError("its axis does not fit", where=node.place)
    return _aligned(node, axis)


def _prelu(node: OnnxNode, _: int) -> list[OnnxNode]:
    if len(node.inputs) != 2:
        raise ModelError("has no slope", where=node.place)
    return _aligned(node, 1)


def _cast(node: OnnxNode, version: int) -> list[OnnxNode]:
    to = node.attributes.get("to")
    if not isinstance(to, str):
        return [node]
    if to.upper() not in _ELEMENTS:
        raise UnsupportedError(f"elements of {to!r:.40} are not supported", where=node.place)
    return [replace(node, attributes={"to": _ELEMENTS[to.upper()]})]


def _concat(node: OnnxNode, _: int) -> list[OnnxNode]:
    return [_with(node, {"axis": 1})]


def _pad(node: OnnxNode, _: int) -> list[OnnxNode]:
    return [_with(node, {"pads": node.attributes.get("paddings")}, "paddings")]


def _reshape(node: OnnxNode, _: int) -> list[OnnxNode]:
    shape = node.attributes.get("shape")
    if not isinstance(shape, tuple) or not all(isinstance(d, int) for d in shape):
        raise ModelError("has no shape", where=node.place)
    name = local_name(node.label, "shape")
    array = np.array(shape, np.int64)
    constant = OnnxNode("Constant", "", name, (), (name,), {"value": lambda: array})
    changed = replace(_without(node, "shape"), inputs=(*node.inputs[:1], name))
    return [constant, changed]


def _selu(node: OnnxNode, _: int) -> list[OnnxNode]:
    return [_with(node, {"alpha": 1.6732, "gamma": 1.0507})]


def _split(node: OnnxNode, _: int) -> list[OnnxNode]:
    if len(node.inputs) > 1:
        raise UnsupportedError("sizes as an input are not supported", where=node.place)
    return [node]


def _gru(node: OnnxNode, _: int) -> list[OnnxNode]:
    """Its first version spells its default direction in its own way."""
    direction = node.attributes.get("direction")
    values = {"direction": "forward"} if direction == "foward" else {}
    return [replace(node, attributes={**_without(node, *_DROPPED).attributes, **values})]


def _pool(node: OnnxNode, _: int) -> list[OnnxNode]:
    p = node.attributes.get("p", 2.0)
    if not isinstance(p, int | float) or p != int(p):
        raise UnsupportedError(f"p {p!r:.40} is not a whole number", where=node.place)
    return [replace(node, attributes={**node.attributes, "p": int(p)})]


def _upsample(node: OnnxNode, _: int) -> list[OnnxNode]:
    sizes = (node.attributes.get("height_scale"), node.attributes.get("width_scale"))
    return [_with(node, {"scales": (1.0, 1.0, *sizes)}, "height_scale", "width_scale")]


_CHANGES: dict[str, _Change] = {
    **dict.fromkeys(_BINARY, _binary), "Cast": _cast, "Concat": _concat, "GRU": _gru,
    "GlobalLpPool": _pool, "LpPool": _pool, "PRelu": _prelu, "Pad": _pad, "Reshape": _reshape,
    "Selu": _selu, "Split": _split, "Upsample": _upsample,
}  # fmt: skip
