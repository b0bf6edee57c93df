"""Whether there is any way to compute a node of an ONNX model, before looking at its inputs."""

from __future__ import annotations

from cannery.errors import UnsupportedError
from cannery.frontends.onnx.control import CONTROL
from cannery.frontends.onnx.fold import foldable
from cannery.frontends.onnx.functions import has_standard_function
from cannery.frontends.onnx.lists import LISTS
from cannery.frontends.onnx.microsoft import has_standard_form
from cannery.frontends.onnx.model import STANDARD, OnnxNode
from cannery.frontends.onnx.operators.base import find_operator
from cannery.frontends.unsupported import Problem, UnsupportedLayersError


def require_way(node: OnnxNode, opset: int) -> None:
    """Raises UnsupportedError for a node without an operator, a function or another form.

    `opset` is the version of its domain's operators, 0 for the newest.
    """
    folded = node.domain in STANDARD and node.kind in foldable()
    followed = node.kind in (*CONTROL, *LISTS) or has_standard_form(node)
    if not (folded or followed or has_standard_function(node, opset)):
        find_operator(node)


def require_operator(node: OnnxNode) -> None:
    """The same for a node of a model that is not read: raises UnsupportedLayersError."""
    try:
        require_way(node, 0)
    except UnsupportedError as error:
        problem = Problem(node.label, node.sort, error.what, error.cure)
        raise UnsupportedLayersError([problem]) from None
