"""Layers that act only in training, and vanish."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, held_layer, layer


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
    inert=True,
)
def training_only(config: LayerConfig) -> LayerPlan:
    """Returns its input."""
    config.ignore("rate", "stddev", "noise_shape", "seed", "data_format", "l1", "l2")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.single(inputs)

    return LayerPlan(build)


@layer("SpectralNormalization")
def spectral_normalization(config: LayerConfig) -> LayerPlan:
    """The wrapped layer, whose weights training has normalised."""
    config.ignore("power_iterations")
    inner = held_layer(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        return inner.plan.build(scope.under("layer", attribute="layer"), inputs)

    return LayerPlan(build, state=("vector_u",), children={"layer": inner})
