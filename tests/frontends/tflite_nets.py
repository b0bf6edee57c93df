"""Whole quantised networks of the kinds that microcontrollers run, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from frontends.tflite_files import Graph, TfliteFile

#: How far numbers of weights and activations are spread.
_SPREAD_W, _SPREAD_X = 73.0, 55.0


class Net:
    """Layers on int8, one after the other; scales keep results within the type's range."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.file = TfliteFile()
        self.graph: Graph = self.file.main
        self.random = np.random.default_rng(7)
        self.x = self.graph.input(shape, "INT8", scales=[0.2], zeros=[-3])

    def data(self) -> bytes:
        """The file; the last value is the output."""
        self.graph.outputs = [self.x]
        return self.file.data()

    def _shape(self) -> tuple[int, ...]:
        return tuple(self.graph.tensors[self.x].shape)

    def _scale(self) -> float:
        return float(self.graph.tensors[self.x].scales[0])

    def _weights(self, shape: tuple[int, ...], axis: int, terms: int) -> tuple[int, int, float]:
        """Weights, a bias, and the mean scale of the weights."""
        g, count = self.graph, shape[axis]
        unit = 1 / (_SPREAD_W * sqrt(terms))
        scales = (self.random.uniform(0.5, 1.5, count) * unit).astype(np.float32)
        array = self.random.integers(-127, 128, shape).astype(np.int8)
        zeros = [0] * count
        w = g.constant(array, scales=list(scales), zeros=zeros, axis=axis)
        both = np.float32(self._scale()) * scales
        bias = self.random.integers(-2000, 2000, count).astype(np.int32)
        return w, g.constant(bias, scales=list(both), zeros=zeros), float(scales.mean())

    def _made(self, shape: tuple[int, ...], scale: float, relu: bool) -> int:
        zero = -128 if relu else int(self.random.integers(-20, 20))
        return self.graph.tensor(shape, "INT8", scales=[scale], zeros=[zero])

    def _after(self, mean: float, terms: int, relu: bool) -> float:
        """The scale that fits sums of so many products."""
        spread = self._scale() * mean * _SPREAD_W * _SPREAD_X * sqrt(terms)
        return spread / (60.0 if relu else 45.0)

    def conv(self, channels: int, kernel: int, stride: int, relu: bool = True) -> None:
        """With SAME padding."""
        n, h, w, c = self._shape()
        weights, bias, mean = self._weights((channels, kernel, kernel, c), 0, kernel * kernel * c)
        shape = (n, -(-h // stride), -(-w // stride), channels)
        y = self._made(shape, self._after(mean, kernel * kernel * c, relu), relu)
        self.x = self.graph.add(
            "CONV_2D", [self.x, weights, bias], y, options="Conv2DOptions", Padding=0,
            StrideH=stride, StrideW=stride, FusedActivationFunction=int(relu),
        )  # fmt: skip

    def depthwise(self, stride: int = 1) -> None:
        """3x3 with SAME padding."""
        n, h, w, c = self._shape()
        weights, bias, mean = self._weights((1, 3, 3, c), 3, 9)
        y = self._made((n, -(-h // stride), -(-w // stride), c), self._after(mean, 9, True), True)
        self.x = self.graph.add(
            "DEPTHWISE_CONV_2D", [self.x, weights, bias], y, options="DepthwiseConv2DOptions",
            Padding=0, StrideH=stride, StrideW=stride, DepthMultiplier=1,
            FusedActivationFunction=1,
        )  # fmt: skip

    def dense(self, units: int, relu: bool = False) -> None:
        """One scale for all weights, as converters wrote them for long."""
        g, width = self.graph, prod(self._shape()[1:])
        array = self.random.integers(-127, 128, (units, width)).astype(np.int8)
        unit = 1 / (_SPREAD_W * sqrt(width))
        w = g.constant(array, scales=[unit], zeros=[0])
        bias = self.random.integers(-2000, 2000, units).astype(np.int32)
        b = g.constant(bias, scales=[self._scale() * unit], zeros=[0])
        y = self._made((self._shape()[0], units), self._after(unit, width, relu), relu)
        options: dict[str, Any] = {"FusedActivationFunction": int(relu)}
        self.x = g.add(
            "FULLY_CONNECTED", [self.x, w, b], y, options="FullyConnectedOptions", **options
        )

    def add(self, other: int) -> None:
        """The sum with another value, and a ReLU."""
        a, b = (float(self.graph.tensors[v].scales[0]) for v in (self.x, other))
        y = self._made(self._shape(), 1.2 * sqrt(a * a + b * b), True)
        self.x = self.graph.add(
            "ADD", [self.x, other], y, options="AddOptions", FusedActivationFunction=1
        )

    def pool(self, kernel: int, kind: str = "AVERAGE_POOL_2D") -> None:
        """Without padding or overlap."""
        n, h, w, c = self._shape()
        old = self.graph.tensors[self.x]
        shape = (n, h // kernel, w // kernel, c)
        y = self.graph.tensor(shape, "INT8", scales=old.scales, zeros=old.zeros)
        self.x = self.graph.add(
            kind, [self.x], y, options="Pool2DOptions", Padding=1, StrideH=kernel, StrideW=kernel,
            FilterHeight=kernel, FilterWidth=kernel,
        )  # fmt: skip

    def mean(self) -> None:
        """Of all pixels."""
        axes = self.graph.constant(np.array([1, 2], np.int32))
        shape = (self._shape()[0], self._shape()[3])
        y = self._made(shape, self._scale() / 2, False)
        self.x = self.graph.add("MEAN", [self.x, axes], y, options="ReducerOptions")

    def softmax(self) -> None:
        """Probabilities."""
        y = self.graph.tensor(self._shape(), "INT8", scales=[1 / 256], zeros=[-128])
        self.x = self.graph.add("SOFTMAX", [self.x], y, options="SoftmaxOptions", Beta=1.0)

    def logistic(self) -> None:
        """A probability for each."""
        y = self.graph.tensor(self._shape(), "INT8", scales=[1 / 256], zeros=[-128])
        self.x = self.graph.add("LOGISTIC", [self.x], y)


def keywords() -> bytes:
    """Words in a spectrogram, as MLPerf Tiny's DS-CNN, with fewer channels."""
    net = Net((1, 49, 10, 1))
    net.conv(16, 4, 2)
    for _ in range(3):
        net.depthwise()
        net.conv(16, 1, 1)
    net.pool(5)
    net.dense(12)
    net.softmax()
    return net.data()


def images() -> bytes:
    """Small images, as MLPerf Tiny's ResNet, with fewer blocks."""
    net = Net((1, 16, 16, 3))
    net.conv(8, 3, 1)
    for channels, stride in ((8, 1), (16, 2)):
        start = net.x
        net.conv(channels, 3, stride)
        net.conv(channels, 3, 1, relu=False)
        last = net.x
        net.x = start
        if stride > 1:
            net.conv(channels, 1, stride, relu=False)
        net.add(last)
    net.pool(8)
    net.dense(10)
    net.softmax()
    return net.data()


def people() -> bytes:
    """Whether somebody is there, as MobileNet."""
    net = Net((1, 24, 24, 3))
    net.conv(8, 3, 2)
    for channels, stride in ((16, 1), (24, 2), (24, 1)):
        net.depthwise(stride)
        net.conv(channels, 1, 1)
    net.mean()
    net.dense(6)
    net.softmax()
    return net.data()


def anomalies() -> bytes:
    """An autoencoder of dense layers."""
    net = Net((1, 64))
    for units in (32, 32, 4, 32):
        net.dense(units, relu=True)
    net.dense(64)
    return net.data()


def wake_word() -> bytes:
    """A convolution along time, a maximum and a probability."""
    net = Net((1, 20, 4, 8))
    net.conv(16, 3, 1)
    net.pool(2, "MAX_POOL_2D")
    net.depthwise()
    net.dense(9)
    net.logistic()
    return net.data()


NETS: dict[str, Callable[[], bytes]] = {
    "keywords": keywords, "images": images, "people": people, "anomalies": anomalies,
    "wake_word": wake_word,
}  # fmt: skip


def samples(shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """What networks are compared on."""
    random = np.random.default_rng(23)
    return [random.integers(-128, 128, shape).astype(np.int8) for _ in range(4)]
