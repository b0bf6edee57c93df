"""Networks that the cost model was never fitted to: they judge what it chooses.

The reference networks of MLPerf Tiny (Banbury et al., "MLPerf Tiny Benchmark", 2021), and what
robots and microphones run besides: policies, temporal convolutions, a recurrent layer, a ResNet
whose weights lie beyond the second-level cache. Weights are random, see `networks.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from frontends.keras_files import Model, image
from keras_builder import Builder


def _dense_layers(b: Builder, inputs: int, units: tuple[int, ...], hidden: str) -> None:
    """Dense layers; the last one is linear."""
    for number, (taken, size) in enumerate(pairwise((inputs, *units))):
        last = number == len(units) - 1
        b.dense(f"dense_{number}", taken, size, "linear" if last else hidden)


def _vector(seed: int, size: int) -> Builder:
    """A network of one vector."""
    b = Builder(seed)
    b.input(1, 1, size)
    b.plain("Flatten", "flat", data_format="channels_last")
    return b


def policy_256() -> Model:
    """A policy: 48 observations, three layers of 256, 12 joints; ELU, 147 kMAC."""
    b = _vector(21, 48)
    _dense_layers(b, 48, (256, 256, 256, 12), "elu")
    return b.model("policy_256")


def policy_64() -> Model:
    """A small policy: 31 observations, 64, 64, 8 actions; tanh, 6.6 kMAC."""
    b = _vector(22, 31)
    _dense_layers(b, 31, (64, 64, 8), "tanh")
    return b.model("policy_64")


def policy_400() -> Model:
    """A policy as of DDPG, whose widths are not powers of two: 24, 400, 300, 4; 131 kMAC."""
    b = _vector(23, 24)
    _dense_layers(b, 24, (400, 300, 4), "relu")
    return b.model("policy_400")


def autoencoder() -> Model:
    """MLPerf Tiny's anomaly detector: 640, four of 128, 8, four of 128, 640; 264 kMAC."""
    b = _vector(24, 640)
    _dense_layers(b, 640, (128, 128, 128, 128, 8, 128, 128, 128, 128, 640), "relu")
    return b.model("autoencoder")


def _normed(b: Builder, name: str) -> None:
    b.norm(f"{name}_bn")
    b.plain("ReLU", f"{name}_relu")


def _head(b: Builder, classes: int) -> None:
    """The mean over the image, then a dense layer."""
    channels = b.channels[b.last]
    b.plain("GlobalAveragePooling2D", "mean", data_format="channels_last")
    b.dense("scores", channels, classes, "softmax")


def ds_cnn() -> Model:
    """MLPerf Tiny's keyword spotter: 49x10x1, depthwise separable, 64 channels; 2.7 MMAC."""
    b = Builder(25)
    b.input(49, 10, 1)
    b.conv("stem", 64, (10, 4), stride=2, bias=False)
    _normed(b, "stem")
    for number in range(4):
        b.depthwise(f"depthwise_{number}")
        _normed(b, f"depthwise_{number}")
        b.conv(f"pointwise_{number}", 64, (1, 1), bias=False)
        _normed(b, f"pointwise_{number}")
    _head(b, 12)
    return b.model("ds_cnn")


def mobilenet_025() -> Model:
    """MLPerf Tiny's visual wake words: MobileNetV1 0.25, 96x96x3; 7.5 MMAC."""
    b = Builder(26)
    b.input(96, 96, 3)
    b.conv("stem", 8, stride=2, bias=False)
    _normed(b, "stem")
    blocks = (
        (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1)
    )  # fmt: skip
    for number, (filters, stride) in enumerate(blocks):
        b.depthwise(f"depthwise_{number}", stride)
        _normed(b, f"depthwise_{number}")
        b.conv(f"pointwise_{number}", filters, (1, 1), bias=False)
        _normed(b, f"pointwise_{number}")
    _head(b, 2)
    return b.model("mobilenet_025")


def _residual(b: Builder, name: str, filters: int, stride: int) -> None:
    """Two convolutions of 3x3 beside a shortcut, which is a convolution where the shape changes."""
    source = b.last
    b.conv(f"{name}_a", filters, stride=stride, bias=False)
    _normed(b, f"{name}_a")
    b.conv(f"{name}_b", filters, bias=False)
    b.norm(f"{name}_b_bn")
    inner = b.last
    if b.channels[source] != filters or stride != 1:
        # Convolutions follow the last layer: this one begins at the source again.
        b.plain("Activation", f"{name}_again", source, activation="linear")
        source = b.conv(f"{name}_short", filters, (1, 1), stride=stride, bias=False)
        b.norm(f"{name}_short_bn")
        source = b.last
    b.plain("Add", f"{name}_add", inner, source)
    b.plain("ReLU", f"{name}_out")


def resnet_8() -> Model:
    """MLPerf Tiny's image classifier: 32x32x3, three residual blocks; 12.5 MMAC."""
    b = Builder(27)
    b.input(32, 32, 3)
    b.conv("stem", 16, bias=False)
    _normed(b, "stem")
    for number, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2))):
        _residual(b, f"block_{number}", filters, stride)
    _head(b, 10)
    return b.model("resnet_8")


def resnet_18() -> Model:
    """He et al., "Deep Residual Learning", 2016; 96x96x3, 333 MMAC, 45 MB of weights."""
    b = Builder(28)
    b.input(96, 96, 3)
    b.conv("stem", 64, (7, 7), stride=2, bias=False)
    _normed(b, "stem")
    b.pool("pool")
    for number, filters in enumerate((64, 128, 256, 512)):
        _residual(b, f"block_{number}_0", filters, 2 if number else 1)
        _residual(b, f"block_{number}_1", filters, 1)
    _head(b, 1000)
    return b.model("resnet_18")


def plain_cnn() -> Model:
    """Digits as in LeNet-5, 28x28x1: two convolutions of 5x5, three dense layers; 416 kMAC."""
    b = Builder(29)
    b.input(28, 28, 1)
    for number, (filters, padding) in enumerate(((6, "same"), (16, "valid"))):
        b.conv(f"conv_{number}", filters, (5, 5), padding=padding, activation="relu")
        b.pool(f"pool_{number}")
    b.plain("Flatten", "flat", data_format="channels_last")
    _dense_layers(b, 400, (120, 84, 10), "relu")
    return b.model("plain_cnn")


def _sequence(seed: int, steps: int, features: int) -> Builder:
    b = Builder(seed)
    b.add(image("image", steps, features), features)
    return b


def tcn() -> Model:
    """Temporal convolutions: 128 steps of 16, kernel 3, dilations 1 to 8, 32 channels; 2.4 MMAC."""
    b = _sequence(30, 128, 16)
    taken = 16
    for number, dilation in enumerate((1, 1, 2, 2, 4, 4, 8, 8)):
        weights = {
            "kernel": b.normal(3, taken, 32, scale=(2 / (3 * taken)) ** 0.5),
            "bias": b.normal(32, scale=0.1),
        }
        b.layer(
            "Conv1D", 32, f"conv_{number}", weights=weights, filters=32, kernel_size=[3],
            strides=[1], padding="causal", activation="relu", use_bias=True,
            dilation_rate=[dilation], groups=1, data_format="channels_last",
        )  # fmt: skip
        taken = 32
    b.plain("GlobalAveragePooling1D", "mean", data_format="channels_last")
    b.dense("scores", 32, 6, "softmax")
    return b.model("tcn")


def gru() -> Model:
    """A recurrent layer of 64 cells over 40 steps of 32, then a dense layer; 743 kMAC."""
    b = _sequence(31, 40, 32)
    weights = {
        "kernel": b.normal(32, 192, scale=32**-0.5),
        "recurrent_kernel": b.normal(64, 192, scale=64**-0.5),
        "bias": b.normal(2, 192, scale=0.1),
    }
    b.layer(
        "GRU", 64, "gru", weights=weights, units=64, activation="tanh",
        recurrent_activation="sigmoid", use_bias=True, return_sequences=False,
        return_state=False, go_backwards=False, stateful=False, unroll=False, time_major=False,
        reset_after=True,
    )  # fmt: skip
    b.dense("scores", 64, 10, "softmax")
    return b.model("gru")


HELD_OUT: dict[str, Callable[[], Model]] = {
    make.__name__: make
    for make in (
        policy_64, policy_256, policy_400, autoencoder, plain_cnn, ds_cnn, mobilenet_025, resnet_8,
        resnet_18, tcn, gru,
    )
}  # fmt: skip
