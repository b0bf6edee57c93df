"""Einstein sums."""

from __future__ import annotations

from cannery.frontends.einsum import einsum
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Value


@operator("Einsum")
def einstein_sum(scope: Scope) -> Value:
    """Any number of inputs."""
    values = scope.all_inputs()
    names = [scope.plain(value) for value in values]
    return scope.result(einsum(scope, scope.text("equation", ""), names))
