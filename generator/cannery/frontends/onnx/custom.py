"""Operators of an ONNX model that the user computes, see `custom.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cannery.errors import UnsupportedError
from cannery.frontends.custom import custom_op
from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.values import Computed, Value


def custom_name(node: OnnxNode, custom: Mapping[str, Path]) -> str:
    """How the option names a node's operator, with its domain or without; "" if it does not."""
    names = (node.kind, f"{node.domain}.{node.kind}")
    return next((name for name in names if name in custom), "")


def custom_value(
    scope: Scope, node: OnnxNode, inputs: Sequence[Value | None], path: Path
) -> Computed:
    """The output of a node. Raises CanneryError for a node or files that do not fit."""
    known = [value for value in inputs if value is not None]
    if len(known) != len(inputs) or len(node.outputs) != 1:
        raise UnsupportedError("CUSTOM needs all inputs and one output")
    op = custom_op(node.kind, path, {key: scope.raw(key) for key in node.attributes})
    return scope.result(scope.node(op, [scope.plain(value) for value in known]))
