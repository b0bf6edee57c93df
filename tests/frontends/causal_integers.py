"""Random networks along time whose values are integers between layers, as quantised files are."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.softmax.op import Softmax
from frontends.causal_images import ROWS, RowMaker
from frontends.causal_nets import STEPS, Maker, Tame


class Stored(Tame):
    """Weights are integers with a scale."""

    def weight(self, *shape: int, positive: bool = False) -> str:
        if len(shape) < 2:
            return super().weight(*shape, positive=positive)
        values = self.rng.standard_normal(shape)
        scale = np.float32(np.abs(values).max() / 127)
        stored = self.constant("stored", np.round(values / scale).astype(np.int8))
        factor = self.constant("scale", scale.reshape(1) / np.float32(sqrt(prod(shape[:-1]))))
        zero = self.constant("zero", np.zeros(1, np.int8))
        return self.node(DequantizeLinear(), [stored, factor, zero])


def stored(maker: Maker, value: str) -> str:
    """A value as integers, and these as floats."""
    b = maker.b
    scale = b.constant("scale", np.array([0.03], np.float32))
    zero = b.constant("zero", np.array([maker.random.randint(-20, 20)], np.int8))
    made = b.node(QuantizeLinear(), [value, scale, zero])
    return b.node(DequantizeLinear(), [made, scale, zero])


class Counting(Maker):
    """Means count what is not there: no division of floats."""

    def pool(self, value: str, stride: int = 1) -> str:
        """A maximum or a mean."""
        taps, dilation, (before, after) = self.window(value, stride)
        span = (taps - 1) * dilation + 1
        pads = (min(before, span - 1), min(after, span - 1)) if taps > 1 else (0, 0)
        place = (taps,), (stride,), (pads,), (dilation,)
        if self.random.random() < 0.5:
            return self.b.node(MaxPool(*place), [value])
        return self.b.node(AveragePool(*place, count_include_pad=True), [value])


class IntegerMaker(Counting):
    """Grows a network over a sequence whose values are stored as integers between layers."""

    def __init__(self, seed: int, *, ahead: bool, rates: bool = True) -> None:
        super().__init__(seed, ahead=ahead, rates=rates)
        self.b = Stored(seed)

    def graph(self) -> Graph:
        value = stored(self, self.b.input("x", (self.batch, STEPS, 3)))
        op = Conv((1,), ((1, 0),), (1,))
        value = stored(self, self.b.node(op, [value, self.b.weight(2, 3, 3)]))
        for _ in range(self.random.randint(2, 5)):
            value = stored(self, self.random.choice(self.layers())(value))
        self.b.output(value)
        return self.b.build()

    def layers(self) -> list[Callable[[str], str]]:
        steady = [self.conv, self.grouped, self.pool, self.joined, self.padded, self.cut,
                  self.sum, self.turned]  # fmt: skip
        return [*steady, self.strided, self.repeated] if self.rates else steady

    def joined(self, value: str) -> str:
        """Both parts are stored before they are joined."""
        _, channels = self.size(value)
        other = self.b.node(Conv((1,), ((2, 0),), (1,)), [value, self.b.weight(3, channels, 2)])
        return self.b.node(Concat(2), [value, stored(self, other)])

    def padded(self, value: str) -> str:
        """Padding that is stored by itself, as ONNX Runtime's tool writes it."""
        taps, dilation, (before, after) = self.window(value)
        _, channels = self.size(value)
        number = self.random.choice((0.0, 0.5))
        found = stored(self, self.b.node(Pad(((0, 0), (before, after), (0, 0)), number), [value]))
        op = Conv((1,), ((0, 0),), (dilation,))
        return self.b.node(op, [found, self.b.weight(taps, channels, 3)])

    def sum(self, value: str) -> str:
        """Of a value and what a convolution makes of it."""
        _, channels = self.size(value)
        op = Conv((1,), ((4, 0),), (2,))
        other = self.b.node(op, [value, self.b.weight(3, channels, channels)])
        return self.b.node(Relu(), [self.b.node(Add(), [value, stored(self, other)])])

    def turned(self, value: str) -> str:
        """A function of channels that come first."""
        turned = self.b.node(Transpose((0, 2, 1)), [value])
        return self.b.node(Transpose((0, 2, 1)), [stored(self, self.b.node(Tanh(), [turned]))])


class FloatMaker(Counting):
    """Grows a network of floats for `QUANTIZE`. No padding is longer than its window needs, or of
    other numbers than 0: so the whole sequence has the values that calls compute, and no others.
    """

    def __init__(self, seed: int, *, ahead: bool = False, rates: bool = True) -> None:
        super().__init__(seed, ahead=False, rates=rates)

    def pads(self, span: int) -> tuple[int, int]:
        return span - 1, 0

    def layers(self) -> list[Callable[[str], str]]:
        steady = [self.conv, self.grouped, self.pool, self.branches, self.pointwise, self.joined,
                  self.recurrent, self.cut, self.skipped]  # fmt: skip
        return [*steady, self.strided] if self.rates else steady

    def skipped(self, value: str) -> str:
        """A value that a convolution reads, and a sum with its result: no layer made it."""
        value = self.b.node(Softmax(2), [value])
        _, channels = self.size(value)
        op = Conv((1,), ((4, 0),), (2,))
        other = self.b.node(op, [value, self.b.weight(3, channels, channels)])
        mixed = self.b.node(Add(), [value, self.b.node(Relu(), [other])])
        return self.b.node(MatMul(), [mixed, self.b.weight(channels, 3)])


class IntegerRowMaker(RowMaker):
    """The same over the rows of an image."""

    counts_pads = True

    def __init__(self, seed: int, *, ahead: bool, rates: bool = True) -> None:
        super().__init__(seed, ahead=ahead, rates=rates)
        self.b = Stored(seed)

    def graph(self) -> Graph:
        value = stored(self, self.first())
        for _ in range(self.random.randint(1, 4)):
            value = stored(self, self.random.choice(self.image_layers())(value))
        self.b.output(value)
        return self.b.build()

    def first(self) -> str:
        x = stored(self, self.b.input("x", (1, ROWS, 6, 2)))
        op = Conv((1, 1), ((1, 0), (1, 1)), (1, 1))
        return self.b.node(op, [x, self.b.weight(2, 3, 2, 3), self.b.weight(3)])

    def image_layers(self) -> list[Callable[[str], str]]:
        steady = [self.conv2d, self.depthwise, self.pool2d, self.joined2d]
        return [*steady, self.strided2d] if self.rates else steady

    def joined2d(self, value: str) -> str:
        """Both parts are stored before they are joined."""
        *_, channels = self.shape(value)
        op = Conv((1, 1), ((2, 0), (0, 0)), (1, 1))
        other = self.b.node(op, [value, self.b.weight(3, 1, channels, 2)])
        return self.b.node(Concat(3), [value, stored(self, other)])
