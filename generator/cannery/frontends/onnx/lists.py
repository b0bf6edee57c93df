"""Lists of tensors (sequences in ONNX): their lengths are known when a model is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.control import run_body, unary
from cannery.frontends.onnx.host import Host, NodePlace
from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.operators.values import Computed, Constant

#: Operators that make lists, or read them.
LISTS = (
    "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
)  # fmt: skip

#: The names of the tensors in each list.
Lists = dict[str, tuple[str, ...]]


def follow_list(host: Host, lists: Lists, node: OnnxNode, place: NodePlace) -> None:
    """Compute the output of an operator of `LISTS`, or of an Identity of a list.

    Raises UnsupportedError if a place is computed at run time, ModelError for a malformed one.
    """
    output = node.label
    if node.kind in ("SequenceConstruct", "SequenceEmpty"):
        lists[output] = node.inputs
    elif node.kind == "SplitToSequence":
        lists[output] = _split(host, node, place)
    elif node.kind == "SequenceMap":
        _map(host, lists, node, place)
    else:
        _read(host, lists, node, _items(lists, node), place)


def _read(host: Host, lists: Lists, node: OnnxNode, items: Sequence[str], place: NodePlace) -> None:
    """The output of an operator that reads a list."""
    output, count = node.label, len(items)
    if node.kind == "Identity":
        lists[output] = tuple(items)
    elif node.kind == "SequenceLength":
        host.define(output, Constant(np.asarray(count, np.int64), output))
    elif node.kind == "SequenceAt":
        item = items[_index(host, node, 1, count, place)]
        host.inline(node, [OnnxNode("Identity", "", "", (item,), (output,), {})], place)
    elif node.kind == "SequenceInsert":
        if len(node.inputs) < 2:
            raise ModelError("inserts nothing")
        at = _index(host, node, 2, count + 1, place)
        lists[output] = (*items[:at], node.inputs[1], *items[at:])
    elif node.kind == "SequenceErase":
        at = _index(host, node, 1, count, place)
        lists[output] = (*items[:at], *items[at + 1 :])
    else:
        _concat(host, node, items, place)


def _map(host: Host, lists: Lists, node: OnnxNode, place: NodePlace) -> None:
    """A body for each item of a list, with the items of other lists, or the same tensors."""
    count = len(_items(lists, node))
    if any(len(lists[i]) != count for i in node.inputs if i in lists):
        raise ModelError("its lists differ in length")
    found: list[list[str]] = []
    for k in range(count):
        given = [lists[i][k] if i in lists else i for i in node.inputs]
        found.append(run_body(host, node, given, host.prefix(f"{node.label}/{k}"), place))
        if host.give_up(node, found[-1]):
            return
    if any(len(names) < len(node.outputs) for names in found):
        raise ModelError("has more outputs than its body")
    for j, output in enumerate(node.outputs):
        lists[output] = tuple(names[j] for names in found)


def _items(lists: Lists, node: OnnxNode) -> tuple[str, ...]:
    name = node.inputs[0] if node.inputs else ""
    if name not in lists:
        raise UnsupportedError(f"{name!r} is not a list of tensors made in the model")
    return lists[name]


def _index(host: Host, node: OnnxNode, index: int, count: int, place: NodePlace) -> int:
    """A place among `count`, by default the last one, from input `index`; negative counts from the
    end.
    """
    name = node.inputs[index] if len(node.inputs) > index else ""
    value = host.value(name, place.where)
    if isinstance(value, Computed):
        raise UnsupportedError("its place is computed at run time")
    at = count - 1 if value is None else int(value.array.reshape(-1)[0]) if value.array.size else -1
    at += count - (node.kind == "SequenceInsert") if at < 0 else 0
    if not 0 <= at < count:
        raise ModelError("its place is outside of the list")
    return at


def _split(host: Host, node: OnnxNode, place: NodePlace) -> tuple[str, ...]:
    """Parts of a tensor: of one size, of given sizes, or of one element."""
    value = host.value(node.inputs[0] if node.inputs else "", place.where)
    axis, keep = node.attributes.get("axis", 0), node.attributes.get("keepdims", 1)
    if (
        value is None
        or not isinstance(axis, int)
        or not -len(value.shape) <= axis < len(value.shape)
    ):
        raise ModelError("has no axis to split")
    sizes = _sizes(host, node, value.shape[axis], place)
    prefix = host.prefix(node.label)
    parts = tuple(f"{prefix}/part{k}" for k in range(len(sizes)))
    split = {"axis": axis, "split": sizes}
    nodes = [replace(unary("Split", node.inputs[0], "", **split), outputs=parts)]
    names = parts
    if not keep and len(node.inputs) < 2:
        names = tuple(f"{part}/item" for part in parts)
        nodes += [unary("Squeeze", p, n, axes=(axis,)) for p, n in zip(parts, names, strict=True)]
    host.inline(replace(node, outputs=names), nodes, place, names)
    return names


def _sizes(host: Host, node: OnnxNode, total: int, place: NodePlace) -> tuple[int, ...]:
    value = host.value(node.inputs[1] if len(node.inputs) > 1 else "", place.where)
    if isinstance(value, Computed):
        raise UnsupportedError("its sizes are computed at run time")
    if value is not None and value.array.ndim:
        return tuple(int(v) for v in value.array.reshape(-1))
    each = 1 if value is None else int(value.array)
    if each < 1 or total < 1:
        raise ModelError(f"splits {total} elements into parts of {each}")
    return tuple(min(each, total - start) for start in range(0, total, each))


def _concat(host: Host, node: OnnxNode, items: Sequence[str], place: NodePlace) -> None:
    """All tensors along an axis, or along a new one."""
    axis, names, nodes = node.attributes.get("axis"), tuple(items), []
    if not isinstance(axis, int) or not items:
        raise ModelError("joins nothing, or along no axis")
    if node.attributes.get("new_axis", 0):
        prefix = host.prefix(node.label)
        names = tuple(f"{prefix}/row{k}" for k in range(len(items)))
        nodes = [unary("Unsqueeze", i, n, axes=(axis,)) for i, n in zip(items, names, strict=True)]
    nodes.append(replace(unary("Concat", "", node.label, axis=axis), inputs=names))
    host.inline(node, nodes, place)
