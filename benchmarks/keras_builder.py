"""Keras networks layer by layer, with random weights and without Keras."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from frontends.keras_files import LayerSpec, Model, image

F32 = NDArray[np.float32]


@dataclass
class Builder:
    """Appends layers, each after the last one by default; knows the channels."""

    seed: int
    layers: list[LayerSpec] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def last(self) -> str:
        """The name of the layer added last."""
        return self.layers[-1].name

    def normal(self, *shape: int, scale: float) -> F32:
        """Normal numbers of this standard deviation."""
        return np.asarray(self.rng.standard_normal(shape, np.float32) * np.float32(scale))

    def input(self, h: int, w: int, c: int) -> str:
        """The image."""
        return self.add(image("image", h, w, c), c)

    def add(self, spec: LayerSpec, channels: int) -> str:
        """Append a layer with this many output channels; returns its name."""
        self.layers.append(spec)
        self.channels[spec.name] = channels
        return spec.name

    def layer(
        self, class_name: str, channels: int, name: str, *sources: str,
        weights: dict[str, F32] | None = None, **config: object,
    ) -> str:  # fmt: skip
        """A layer with this many output channels, after `sources` or the last one."""
        inputs = list(sources or (self.last,))
        return self.add(LayerSpec(class_name, name, [inputs], config, weights or {}), channels)

    def plain(self, class_name: str, name: str, *sources: str, **config: object) -> str:
        """A layer without weights that keeps the channels (of a Concatenate: their sum)."""
        inputs = sources or (self.last,)
        total = sum(self.channels[s] for s in inputs)
        channels = total if class_name == "Concatenate" else self.channels[inputs[0]]
        return self.layer(class_name, channels, name, *inputs, weights=None, **config)

    def conv(
        self, name: str, filters: int, kernel: tuple[int, int] = (3, 3), stride: int = 1,
        padding: str = "same", activation: str = "linear", bias: bool = True,
    ) -> str:  # fmt: skip
        """Conv2D after the last layer."""
        taken = self.channels[self.last]
        fan_in = kernel[0] * kernel[1] * taken
        weights = {"kernel": self.normal(*kernel, taken, filters, scale=(2 / fan_in) ** 0.5)}
        if bias:
            weights["bias"] = self.normal(filters, scale=0.1)
        return self.layer(
            "Conv2D", filters, name, weights=weights, filters=filters, kernel_size=list(kernel),
            strides=[stride, stride], padding=padding, activation=activation, use_bias=bias,
            dilation_rate=[1, 1], groups=1, data_format="channels_last",
        )  # fmt: skip

    def depthwise(self, name: str, stride: int = 1, padding: str = "same") -> str:
        """DepthwiseConv2D, 3x3, without bias."""
        taken = self.channels[self.last]
        weights = {"depthwise_kernel": self.normal(3, 3, taken, 1, scale=(2 / 9) ** 0.5)}
        return self.layer(
            "DepthwiseConv2D", taken, name, weights=weights, kernel_size=[3, 3],
            strides=[stride, stride], padding=padding, depth_multiplier=1, activation="linear",
            use_bias=False, dilation_rate=[1, 1], data_format="channels_last",
        )  # fmt: skip

    def separable(self, name: str, filters: int, stride: int = 1) -> str:
        """SeparableConv2D, 3x3, without bias, then batch normalisation and ReLU."""
        taken = self.channels[self.last]
        weights = {
            "depthwise_kernel": self.normal(3, 3, taken, 1, scale=(1 / 9) ** 0.5),
            "pointwise_kernel": self.normal(1, 1, taken, filters, scale=(2 / taken) ** 0.5),
        }
        self.layer(
            "SeparableConv2D", filters, name, weights=weights, filters=filters, kernel_size=[3, 3],
            strides=[stride, stride], padding="same", depth_multiplier=1, activation="linear",
            use_bias=False, dilation_rate=[1, 1], data_format="channels_last",
        )  # fmt: skip
        self.norm(f"{name}_bn")
        return self.plain("ReLU", f"{name}_relu")

    def dense(self, name: str, inputs: int, units: int, activation: str) -> str:
        """Dense."""
        weights = {
            "kernel": self.normal(inputs, units, scale=(2 / inputs) ** 0.5),
            "bias": self.normal(units, scale=0.1),
        }
        return self.layer(
            "Dense", units, name, weights=weights, units=units, activation=activation,
            use_bias=True,
        )  # fmt: skip

    def norm(self, name: str) -> str:
        """BatchNormalization over channels."""
        c = self.channels[self.last]
        weights = {
            "gamma": 1 + self.normal(c, scale=0.1),
            "beta": self.normal(c, scale=0.1),
            "moving_mean": self.normal(c, scale=0.1),
            "moving_variance": self.rng.uniform(0.5, 1.5, c).astype(np.float32),
        }
        return self.layer(
            "BatchNormalization", c, name, weights=weights, axis=[3], momentum=0.99,
            epsilon=1e-3, center=True, scale=True,
        )  # fmt: skip

    def pool(self, name: str) -> str:
        """MaxPooling2D by two."""
        return self.plain(
            "MaxPooling2D", name, pool_size=[2, 2], strides=[2, 2], padding="valid",
            data_format="channels_last",
        )  # fmt: skip

    def upsample(self, name: str) -> str:
        """UpSampling2D by two, nearest."""
        return self.plain(
            "UpSampling2D", name, size=[2, 2], interpolation="nearest",
            data_format="channels_last",
        )  # fmt: skip

    def model(self, name: str) -> Model:
        """The network from the image to the last layer."""
        return Model(name, self.layers, ["image"], [self.last])
