"""How layers are called: `inbound_nodes` of Keras 2 (lists) and of Keras 3 (args and kwargs).

A call's tensors keep their structure: a reference, a tuple, or a mapping by name. The structures of
a model's `input_layers` and `output_layers` are read by the same rules. When flattened, a mapping's
values come in the order of its sorted keys, as in Keras.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.arguments import Call, leaves, parse_value

#: Deeper structures are not a network's tensors but an attempt to exhaust the stack.
_MAX_DEPTH = 32

_CONSTANT = "_CONSTANT_VALUE"

#: The argument of recurrent layers that holds tensors.
_STATES = "initial_state"


@dataclass(frozen=True)
class TensorRef:
    """Output `tensor` of call `node` of the layer called `layer`.

    `shape`, with None for open dimensions, is what Keras inferred, if the file says so.
    """

    layer: str
    node: int
    tensor: int
    shape: tuple[int | None, ...] | None = field(default=None, compare=False)


Structure: TypeAlias = "TensorRef | tuple[Structure, ...] | Mapping[str, Structure] | Call"


def flatten(structure: Structure) -> tuple[TensorRef, ...]:
    """The references of a structure, mappings in the order of their keys."""
    if isinstance(structure, Call):
        return tuple(leaf for leaf in leaves(structure) if isinstance(leaf, TensorRef))
    if isinstance(structure, TensorRef):
        return (structure,)
    if isinstance(structure, tuple):
        return tuple(ref for part in structure for ref in flatten(part))
    return tuple(ref for key in sorted(structure) for ref in flatten(structure[key]))


def parse_structure(value: object, what: str, depth: int = 0) -> Structure:
    """Tensors in Keras 2's form, `[layer, node, tensor]`, also used by `input_layers` in both
    versions.

    Raises ModelError naming `what` for anything else.
    """
    if depth > _MAX_DEPTH:
        raise ModelError(f"{what} is nested too deeply")
    ref = _list_ref(value)
    if ref is not None:
        return ref
    if isinstance(value, list):
        return tuple(parse_structure(v, what, depth + 1) for v in value)
    if isinstance(value, dict):
        return {str(k): parse_structure(v, what, depth + 1) for k, v in value.items()}
    raise ModelError(f"{what} holds {value!r:.40} where a tensor is expected")


def _list_ref(value: object) -> TensorRef | None:
    """`[layer, node, tensor]` or `[layer, node, tensor, kwargs]`."""
    if not isinstance(value, list) or len(value) not in (3, 4):
        return None
    name, node, tensor = value[:3]
    if not isinstance(name, str) or not _index(node) or not _index(tensor):
        return None
    return TensorRef(name, node, tensor)


def _index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def parse_call(node: object, *, trains: bool = False, masked: bool = False) -> Structure:
    """The tensors of one inbound node; with `masked`, a Call if one of them is a mask.

    `trains` is for layers whose `call` has `training=True` as its default: Keras 3 stores that with
    the call, although it passes training=False to all layers when a model predicts.

    Raises UnsupportedError for calls with more than tensors (masks, training=True, constants), and
    ModelError for anything that is not a call.
    """
    if isinstance(node, dict) and "args" in node:
        return _parse_call_3(node, trains, masked)
    states = _check_kwargs_2(node)
    structure = parse_structure(node, "inbound_nodes")
    return (structure, *states) if states else structure


def _parse_call_3(node: Mapping[str, object], trains: bool, masked: bool) -> Structure:
    args, kwargs = node.get("args"), node.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ModelError("inbound_nodes are malformed: args and kwargs expected")
    rest = dict(kwargs)
    first, more = (args[0], args[1:]) if args else (rest.pop("inputs", None), [])
    if any(value is not None for value in more):
        raise UnsupportedError("it is called with more than its inputs", cure=_CALL_CURE)
    states = rest.pop(_STATES, None)
    if trains:
        rest.pop("training", None)
    mask = _tensor_ref_3(rest.get("mask")) if masked else None
    if mask is not None:
        del rest["mask"]
    _check_kwargs(rest)
    structure = _structure_3(first, 0)
    structure = structure if states is None else (structure, _structure_3(states, 0))
    return structure if mask is None else Call(flatten(structure), {"mask": mask})


def _structure_3(value: object, depth: int) -> Structure:
    if depth > _MAX_DEPTH:
        raise ModelError("inbound_nodes are nested too deeply")
    ref = _tensor_ref_3(value)
    if ref is not None:
        return ref
    if isinstance(value, list):
        return tuple(_structure_3(v, depth + 1) for v in value)
    if isinstance(value, dict) and "class_name" not in value:
        return {str(k): _structure_3(v, depth + 1) for k, v in value.items()}
    raise UnsupportedError("it is called with a constant", cure=_CALL_CURE)


def _tensor_ref_3(value: object) -> TensorRef | None:
    """The reference in `{"class_name": "__keras_tensor__", "config": {"keras_history": ...}}`."""
    if not isinstance(value, dict) or value.get("class_name") != "__keras_tensor__":
        return None
    config = value.get("config")
    ref = _list_ref(config.get("keras_history")) if isinstance(config, dict) else None
    if ref is None or not isinstance(config, dict):
        raise ModelError("inbound_nodes are malformed: keras_history expected")
    shape = config.get("shape")
    if not isinstance(shape, list) or not all(d is None or isinstance(d, int) for d in shape):
        return ref
    return replace(ref, shape=tuple(shape))


_CALL_CURE = "call the layer with tensors only, or use a layer instead of the operation"
_KWARG_CURES = {
    "training": "build the network without training=True",
    "mask": "remove the Masking or Embedding layer that makes the mask",
}


def _check_kwargs(kwargs: Mapping[str, object]) -> None:
    for key, value in kwargs.items():
        if _is_nothing(value) or (key in ("training", "name") and not value):
            continue
        raise UnsupportedError(
            f"it is called with the argument {key}", cure=_KWARG_CURES.get(key, _CALL_CURE)
        )


def _is_nothing(value: object) -> bool:
    """None, or a structure of Nones, such as the absent masks of several inputs."""
    if isinstance(value, list):
        return all(v is None for v in value)
    return value is None


def _check_kwargs_2(node: object) -> list[Structure]:
    """Rejects arguments that are not tensors; returns the initial states of recurrent layers."""
    states: list[Structure] = []
    for part in _walk(node, 0):
        if not isinstance(part, list) or not part or not isinstance(part[0], str):
            continue
        if part[0] == _CONSTANT:
            raise UnsupportedError("it is called with a constant", cure=_CALL_CURE)
        if len(part) == 4 and isinstance(part[3], dict):
            rest = dict(part[3])
            given = rest.pop(_STATES, None)
            states += [] if given is None else [parse_structure(given, _STATES)]
            _check_kwargs(rest)
    return states


def parse_full_call(node: object) -> Call:
    """One inbound node with all its arguments.

    In Keras 2, the first argument is a tensor or a list of them, all others have names.
    """
    if isinstance(node, dict) and "args" in node:
        args, kwargs = node.get("args"), node.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise ModelError("inbound_nodes are malformed: args and kwargs expected")
        named = {str(k): parse_value(v, _tensor_ref_3) for k, v in kwargs.items()}
        return Call(tuple(parse_value(v, _tensor_ref_3) for v in args), named)
    parts = node if isinstance(node, list) and not _list_ref(node) else [node]
    first = tuple(_first_2(part) for part in parts)
    if not first:
        raise ModelError("inbound_nodes are malformed: no tensors")
    named = {}
    for part in parts:
        if isinstance(part, list) and len(part) == 4 and isinstance(part[3], dict):
            named |= {str(k): parse_value(v, _list_ref) for k, v in part[3].items()}
    named.pop("name", None)
    return Call((first[0] if len(first) == 1 else first,), named)


def _first_2(part: object) -> object:
    """A tensor, or the constant in `["_CONSTANT_VALUE", -1, value]`."""
    if isinstance(part, list) and len(part) > 2 and part[0] == _CONSTANT:
        return parse_value(part[2], _list_ref)
    ref = _list_ref(part)
    if ref is None:
        raise ModelError(f"inbound_nodes holds {part!r:.40} where a tensor is expected")
    return ref


def scan_refs(node: object) -> tuple[TensorRef, ...]:
    """All tensors that occur anywhere in a call: what an unsupported layer depends on."""
    found: dict[TensorRef, None] = {}
    for part in _walk(node, 0):
        try:
            ref = _list_ref(part) or _tensor_ref_3(part)
        except ModelError:
            continue
        if ref is not None and ref.layer != _CONSTANT:
            found[ref] = None
    return tuple(found)


def _walk(value: object, depth: int) -> Iterator[object]:
    if depth > 2 * _MAX_DEPTH:
        raise ModelError("inbound_nodes are nested too deeply")
    yield value
    if isinstance(value, list):
        for part in value:
            yield from _walk(part, depth + 1)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _walk(part, depth + 1)
