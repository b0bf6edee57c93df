"""Expands that change nothing: PyTorch's exporter writes one around each index.

`x[mask]` is exported as NonZero, and its places as Expand(i, Shape(Max(i))). That would ask for the
shape of rows of which only some count, see `rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cannery.frontends.onnx.model import STANDARD, OnnxNode

#: Operators that return their only input.
_SAME = frozenset({"Identity", "Max", "Mean", "Min", "Sum"})


def plain_expands(nodes: Sequence[OnnxNode]) -> list[OnnxNode]:
    """Nodes in which an Expand of a tensor to its own shape is an Identity."""
    made = {output: node for node in nodes for output in node.outputs if output}
    return [_plain(node, made) for node in nodes]


def _plain(node: OnnxNode, made: Mapping[str, OnnxNode]) -> OnnxNode:
    if node.kind != "Expand" or node.domain not in STANDARD or len(node.inputs) != 2:
        return node
    x, shape = node.inputs
    source = made.get(shape)
    whole = source is not None and source.kind == "Shape" and source.domain in STANDARD
    if source is None or not whole or len(source.inputs) != 1:
        return node
    if source.attributes.get("start", 0) != 0 or "end" in source.attributes:
        return node
    if _root(source.inputs[0], made) != _root(x, made):
        return node
    return replace(node, kind="Identity", inputs=(x,), attributes={})


def _root(name: str, made: Mapping[str, OnnxNode]) -> str:
    """The tensor that a tensor is, by operators that return their only input."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        node = made.get(name)
        if node is None or node.domain not in STANDARD or node.kind not in _SAME:
            return name
        name = node.inputs[0] if len(node.inputs) == 1 else name
    return name
