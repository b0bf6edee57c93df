"""Expands ONNX functions into their nodes: those of a model, and those of operators.

A function of simpler operators defines many operators of the standard; the onnx package has it.
This module also makes the nodes of a branch or of one iteration of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.onnx.model import (
    STANDARD,
    OnnxFunction,
    OnnxNode,
    Reference,
    Subgraph,
    Unread,
    decode_function,
)

#: Element type (as numpy names it) and shape of an input; None if it is absent.
InputType = tuple[str, tuple[int, ...]] | None

#: Nested calls.
MAX_DEPTH = 64

#: Most nodes that functions, branches and loops of a model may become, all together.
MAX_INLINED = 50_000


def standard_function(
    node: OnnxNode, opset: int, types: Sequence[InputType]
) -> OnnxFunction | None:
    """The function that defines an operator of the standard; None if there is none."""
    import onnx

    if not opset or any(isinstance(v, Subgraph | Unread) for v in node.attributes.values()):
        return None
    try:
        schema = onnx.defs.get_schema(
            node.kind, opset, "" if node.domain in STANDARD else node.domain
        )
    except (onnx.defs.SchemaError, TypeError):  # the latter for versions that are not an int
        return None
    if not set(node.attributes) <= set(schema.attributes):
        return None
    try:
        data = _definition(onnx, schema, node, opset, types)
    except (ValueError, TypeError, RuntimeError):  # attributes that the package does not accept
        return None
    if not data:
        return None
    function = decode_function(data)
    defaults = {a.name: _default(onnx, a) for a in schema.attributes.values()}
    own = {k: v for k, v in function.attributes.items() if v is not None}
    return replace(function, attributes={**function.attributes, **defaults, **own})


def has_standard_function(node: OnnxNode, opset: int) -> bool:
    """Whether a function defines an operator of the standard, perhaps only for some attributes."""
    import onnx

    try:
        domain = "" if node.domain in STANDARD else node.domain
        schema: Any = onnx.defs.get_schema(
            node.kind, opset or onnx.defs.onnx_opset_version(), domain
        )
    except (onnx.defs.SchemaError, TypeError):
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def is_unchanged(node: OnnxNode, old: int, new: int) -> bool:
    """Whether an operator of the standard is the same in two versions; `old` is the lower one."""
    import onnx

    if node.domain not in STANDARD:
        return False
    try:
        return bool(onnx.defs.get_schema(node.kind, new, "").since_version <= old)
    except onnx.defs.SchemaError:
        return False


def _definition(
    onnx: Any, schema: Any, node: OnnxNode, opset: int, types: Sequence[InputType]
) -> bytes:
    """The serialised function of an operator, which may depend on the types of its inputs."""
    if schema.has_function:
        version = _nearest(schema.function_opset_versions, opset)
        return bytes(schema.get_function_with_opset_version(version))
    if not schema.has_context_dependent_function:
        return b""
    version = _nearest(schema.context_dependent_function_opset_versions, opset)
    protos = [_type_proto(onnx, t) for t in types]
    proto = _node_proto(onnx, node).SerializeToString()
    return bytes(schema.get_context_dependent_function_with_opset_version(version, proto, protos))


def _default(onnx: Any, attribute: Any) -> object:
    """The default of an operator's attribute, None if there is none."""
    proto = attribute.default_value
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, int | float | str) else tuple(value)


def _nearest(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(onnx: Any, type_: InputType) -> bytes:
    if type_ is None:
        return bytes(onnx.TypeProto().SerializeToString())
    name, shape = type_
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name))
    return bytes(onnx.helper.make_tensor_type_proto(number, shape).SerializeToString())


def _node_proto(onnx: Any, node: OnnxNode) -> Any:
    given = {
        name: onnx.numpy_helper.from_array(value()) if callable(value) else value
        for name, value in node.attributes.items()
        if isinstance(value, int | float | str | tuple) or callable(value)
    }
    return onnx.helper.make_node(node.kind, node.inputs, node.outputs, domain=node.domain, **given)


def inlined(node: OnnxNode, function: OnnxFunction, prefix: str) -> list[OnnxNode]:
    """The nodes of a function with the names of a call; its own names become `<prefix>/<name>`.

    Raises ModelError for a wrong call.
    """
    if len(node.inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
        raise ModelError("is called with more inputs or outputs than its function has")
    given = dict(zip(function.inputs, (*node.inputs, *[""] * len(function.inputs)), strict=False))
    attributes = {k: node.attributes.get(k, v) for k, v in function.attributes.items()}
    version = function.version
    return _placed(
        node,
        function.nodes,
        given,
        function.outputs,
        attributes,
        version,
        lambda _: True,
        prefix,
    )


def branch(node: OnnxNode, body: Subgraph, given: Mapping[str, str], prefix: str) -> list[OnnxNode]:
    """The nodes of a branch or of one iteration of a loop; `given` names the values of its inputs.

    The outputs of `node` are those of the body; values of the body become `<prefix>/<name>`.
    """
    local = {*body.inputs, *body.weights, *(o for n in body.nodes for o in n.outputs)}
    return _placed(
        node, body.nodes, given, body.outputs, None, node.version, local.__contains__, prefix
    )


def local_name(prefix: str, name: str) -> str:
    """The name of a value within a function or body."""
    return f"{prefix}/{name}"


def _placed(
    node: OnnxNode,
    body: Sequence[OnnxNode],
    given: Mapping[str, str],
    outputs: Sequence[str],
    attributes: Mapping[str, object] | None,
    version: int,
    is_local: Callable[[str], bool],
    prefix: str,
) -> list[OnnxNode]:
    names = dict(given)
    tail = []
    for name, wanted in zip(outputs, node.outputs, strict=False):
        if name in names or not is_local(name):  # an input or an outer value, or an output twice
            tail.append((name, wanted))
        elif wanted:
            names[name] = wanted

    def rename(name: str) -> str:
        if name in names:
            return names[name]
        return local_name(prefix, name) if name and is_local(name) else name

    found = [_renamed(n, rename, attributes, version) for n in body]
    for name, wanted in tail:
        if wanted:
            found.append(OnnxNode("Identity", "", "", (rename(name),), (wanted,), {}, version))
    return found


def _renamed(
    node: OnnxNode,
    rename: Callable[[str], str],
    attributes: Mapping[str, object] | None,
    version: int,
) -> OnnxNode:
    """A node with other names, and the attributes of the call instead of references."""
    found: dict[str, object] = {}
    for name, value in node.attributes.items():
        if isinstance(value, Reference) and attributes is not None:
            value = attributes.get(value.name)
            if value is None:
                continue
        if isinstance(value, Subgraph):
            value = _renamed_body(value, rename, attributes, version)
        found[name] = value
    return replace(
        node,
        inputs=tuple(map(rename, node.inputs)),
        outputs=tuple(map(rename, node.outputs)),
        attributes=found,
        version=node.version or version,
    )


def _renamed_body(
    body: Subgraph,
    rename: Callable[[str], str],
    attributes: Mapping[str, object] | None,
    version: int,
) -> Subgraph:
    return Subgraph(
        tuple(_renamed(n, rename, attributes, version) for n in body.nodes),
        tuple(map(rename, body.inputs)),
        tuple(map(rename, body.outputs)),
        {rename(k): v for k, v in body.weights.items()},
    )
