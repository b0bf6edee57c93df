"""Layers that act in training only, and vanish."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.frontends.keras_config import LayerConfig
from cannery.frontends.keras_layers.base import Plan, Scope, layer


@layer(
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "GaussianDropout",
    "AlphaDropout",
    "GaussianNoise",
    "ActivityRegularization",
    "Identity",
)
def training_only(config: LayerConfig) -> Plan:
    """Returns its input."""
    config.ignore("rate", "stddev", "noise_shape", "seed", "data_format", "l1", "l2")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.single(inputs)

    return Plan(build)
