"""A WaveNet as Neural Amp Modeler trains it, once, for every program that computes it in calls.

    h = rechannel(x);  head = 0, or head(...) of the array before
    each layer:  a = tanh(conv(h) + mixin(x));  head += a;  h += layer1x1(a)
    output:  scale * head(...) of the last array

A call brings some samples; what a dilated convolution reads of earlier calls is its *past*, an
input of the call, and the past of the next call is an output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
T = TypeVar("T")

#: Of the format of the trainer's files.
_VERSION = "0.5.4"
_RATE = 48000


@dataclass(frozen=True, eq=False)
class Conv:
    """weight[OC,IC,K] and bias[OC], if any; an output reads its own step and those `dilation`
    apart before it.
    """

    weight: F32
    bias: F32 | None = None
    dilation: int = 1

    @property
    def reach(self) -> int:
        """How many steps before a call's first one it reads."""
        return int(self.weight.shape[2] - 1) * self.dilation

    def numbers(self) -> list[float]:
        """The weights, then the bias."""
        parts = [self.weight] if self.bias is None else [self.weight, self.bias]
        return [float(value) for part in parts for value in part.ravel()]


@dataclass(frozen=True)
class Layer:
    """The convolutions of a layer."""

    conv: Conv
    mixin: Conv
    layer1x1: Conv


@dataclass(frozen=True)
class LayerArray:
    """Layers of as many channels."""

    rechannel: Conv
    layers: tuple[Layer, ...]
    head: Conv

    def convs(self) -> Iterator[Conv]:
        """All convolutions, in the order of the trainer's files."""
        yield self.rechannel
        for layer in self.layers:
            yield from (layer.conv, layer.mixin, layer.layer1x1)
        yield self.head


@dataclass(frozen=True)
class WaveNet:
    """One channel in, one out."""

    arrays: tuple[LayerArray, ...]
    scale: float

    def convs(self) -> Iterator[Conv]:
        """All convolutions, in the order of the trainer's files."""
        return chain.from_iterable(array.convs() for array in self.arrays)

    def pasts(self) -> list[tuple[int, int, int]]:
        """The shapes of the pasts, [1,C,steps]."""
        dilated = (layer.conv for array in self.arrays for layer in array.layers)
        return [(1, conv.weight.shape[1], conv.reach) for conv in dilated]

    def nam(self) -> str:
        """The text of a .nam file."""
        weights = [value for conv in self.convs() for value in conv.numbers()]
        config = {
            "layers": [_config(array) for array in self.arrays], "head": None,
            "head_scale": self.scale,
        }  # fmt: skip
        return json.dumps({
            "version": _VERSION, "architecture": "WaveNet", "config": config,
            "weights": [*weights, self.scale], "sample_rate": _RATE,
        })  # fmt: skip


def _config(array: LayerArray) -> dict[str, object]:
    first = array.layers[0]
    return {
        "input_size": array.rechannel.weight.shape[1],
        "condition_size": first.mixin.weight.shape[1],
        "head_size": array.head.weight.shape[0], "channels": array.rechannel.weight.shape[0],
        "kernel_size": first.conv.weight.shape[2],
        "dilations": [layer.conv.dilation for layer in array.layers], "activation": "Tanh",
        "gated": False, "head_bias": array.head.bias is not None,
    }  # fmt: skip


def random_wavenet(
    channels: Sequence[int], dilations: Sequence[int], taps: int = 3, seed: int = 1
) -> WaveNet:
    """Arrays of these channels, each with a layer for each dilation."""
    rng = np.random.default_rng(seed)

    def conv(outputs: int, inputs: int, size: int = 1, dilation: int = 1, *, bias: bool) -> Conv:
        most = (inputs * size) ** -0.5
        weight = rng.uniform(-most, most, (outputs, inputs, size)).astype(np.float32)
        added = rng.uniform(-most, most, outputs).astype(np.float32) if bias else None
        return Conv(weight, added, dilation)

    arrays = []
    for k, width in enumerate(channels):
        last = k == len(channels) - 1
        layers = tuple(
            Layer(
                conv(width, width, taps, dilation, bias=True), conv(width, 1, bias=False),
                conv(width, width, bias=True),
            )
            for dilation in dilations
        )  # fmt: skip
        rechannel = conv(width, channels[k - 1] if k else 1, bias=False)
        head = conv(1 if last else channels[k + 1], width, bias=last)
        arrays.append(LayerArray(rechannel, layers, head))
    return WaveNet(tuple(arrays), 0.02)


def standard_wavenet() -> WaveNet:
    """The trainer's standard size, 13,802 weights, which are random here."""
    return random_wavenet((16, 8), [2**k for k in range(10)])


class Operations(Protocol[T]):
    """What a program computes a call with; values are [1,C,steps]."""

    def conv(self, x: T, conv: Conv) -> T:
        """Without padding: the output has `conv.reach` steps fewer."""

    def join(self, past: T, x: T) -> T:
        """One after the other, along time."""

    def last(self, x: T, steps: int) -> T:
        """The last steps."""

    def add(self, a: T, b: T) -> T:
        """The sum."""

    def tanh(self, x: T) -> T:
        """Element by element."""

    def scale(self, x: T, factor: float) -> T:
        """The product."""


def compute(net: WaveNet, ops: Operations[T], x: T, pasts: Sequence[T]) -> tuple[T, list[T]]:
    """The output of a call, and the pasts of the next one."""
    h, head, later = x, None, []
    given = iter(pasts)
    for array in net.arrays:
        h = ops.conv(h, array.rechannel)
        for layer in array.layers:
            joined = ops.join(next(given), h)
            later.append(ops.last(joined, layer.conv.reach))
            a = ops.tanh(ops.add(ops.conv(joined, layer.conv), ops.conv(x, layer.mixin)))
            head = a if head is None else ops.add(head, a)
            h = ops.add(h, ops.conv(a, layer.layer1x1))
        assert head is not None
        head = ops.conv(head, array.head)
    assert head is not None
    return ops.scale(head, net.scale), later
