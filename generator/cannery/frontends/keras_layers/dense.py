"""Fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError
from cannery.frontends.keras_config import LayerConfig
from cannery.frontends.keras_layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras_layers.functions import apply_activation, children_of, read_activation
from cannery.ops.matmul.op import MatMul


@layer("Dense")
def dense(config: LayerConfig) -> LayerPlan:
    """x[N,...,K] @ kernel[K,units] + bias, for inputs of any rank from 2."""
    units, bias = config.integer("units"), config.flag("use_bias", True)
    activation = read_activation(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if scope.rank(x) < 2:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected features")
        operands = [x, scope.stored("kernel", (scope.shape(x)[-1], units))]
        operands += [scope.stored("bias", (units,))] if bias else []
        return apply_activation(scope, scope.node(MatMul(), operands), activation)

    weights = ("kernel", "bias") if bias else ("kernel",)
    return LayerPlan(build, weights, children=children_of(activation))
