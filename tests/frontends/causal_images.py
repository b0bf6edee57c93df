"""Random networks over the rows of an image, and over frames: time is what comes row by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Relu, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.normalization.op import BatchNormalization
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from frontends.causal_nets import Maker

#: Rows or frames of the whole sequence.
ROWS = 24


class RowMaker(Maker):
    """Grows a network over rows; some end as networks over time, others as images.

    `counts_pads`: no pool leaves out what is not there, which is a division of floats.
    """

    counts_pads = False

    def graph(self) -> Graph:
        """A chain of layers on images, then, for some seeds, of layers on sequences."""
        value = self.first()
        for _ in range(self.random.randint(1, 4)):
            value = self.random.choice(self.image_layers())(value)
        if self.random.random() < 0.4:
            value = self.random.choice((self.mean_of_row, self.flat))(value)
            for _ in range(self.random.randint(0, 2)):
                value = self.random.choice((self.conv, self.recurrent, self.cumulative))(value)
        self.b.output(self.b.node(Tanh(), [value]))
        return self.b.build()

    def first(self) -> str:
        """A convolution that looks back."""
        columns = self.random.choice((5, 8))
        x = self.b.input("x", (1, ROWS, columns, 2))
        op = Conv((1, 1), ((1, 0), (1, 1)), (1, 1))
        return self.b.node(op, [x, self.b.weight(2, 3, 2, 3), self.b.weight(3)])

    def image_layers(self) -> list[Callable[[str], str]]:
        steady = [self.conv2d, self.depthwise, self.pool2d, self.pointwise2d, self.sum2d,
                  self.joined2d]  # fmt: skip
        return [*steady, self.strided2d, self.widened2d, self.repeated2d] if self.rates else steady

    def shape(self, value: str) -> tuple[int, int, int]:
        _, rows, columns, channels = self.b.types[value].shape
        return rows, columns, channels

    def place(
        self, value: str, stride: int = 1
    ) -> tuple[tuple[int, int], tuple[int, int], tuple[tuple[int, int], ...], tuple[int, int]]:
        """Kernel, strides, pads and dilations."""
        rows, columns, _ = self.shape(value)
        taps, dilation = self.random.choice(((1, 1), (2, 1), (3, 1), (3, 2)))
        if (taps - 1) * dilation + 1 > rows // 2:
            taps, dilation = 1, 1
        wide = self.random.choice((1, 3)) if columns > 2 else 1
        across = (wide // 2, wide // 2) if self.random.random() < 0.7 else (0, 0)
        step = self.random.choice((1, 2)) if columns > 4 else 1
        pads = (self.pads((taps - 1) * dilation + 1), across)
        return (taps, wide), (stride, step), pads, (dilation, 1)

    def conv2d(self, value: str, stride: int = 1) -> str:
        kernel, strides, pads, dilations = self.place(value, stride)
        *_, channels = self.shape(value)
        out = self.random.choice((3, 4))
        op = Conv(strides, pads, dilations)
        return self.b.node(op, [value, self.b.weight(*kernel, channels, out), self.b.weight(out)])

    def depthwise(self, value: str) -> str:
        kernel, strides, pads, dilations = self.place(value)
        *_, channels = self.shape(value)
        op = Conv(strides, pads, dilations, group=channels)
        return self.b.node(op, [value, self.b.weight(*kernel, 1, channels)])

    def pool2d(self, value: str, stride: int = 1) -> str:
        kernel, strides, (before, across), dilations = self.place(value, stride)
        span = (kernel[0] - 1) * dilations[0] + 1
        before = (min(before[0], span - 1), min(before[1], span - 1))
        place = kernel, strides, (before, across), dilations
        if self.random.random() < 0.5:
            return self.b.node(MaxPool(*place), [value])
        counted = self.counts_pads or self.random.random() < 0.5
        return self.b.node(AveragePool(*place, count_include_pad=counted), [value])

    def strided2d(self, value: str) -> str:
        stride = self.random.choice((2, 3))
        if self.shape(value)[0] % (stride * 2):
            return self.conv2d(value)
        return self.random.choice((self.conv2d, self.pool2d))(value, stride)

    def pointwise2d(self, value: str) -> str:
        *_, channels = self.shape(value)
        kind = self.random.randrange(3)
        if kind == 0:
            return self.b.node(Relu(), [value])
        if kind == 1:
            return self.b.node(MatMul(), [value, self.b.weight(channels, 4)])
        statistics = [self.b.weight(channels, positive=True) for _ in range(4)]
        return self.b.node(BatchNormalization(3, 1e-3), [value, *statistics])

    def sum2d(self, value: str) -> str:
        """Two paths that look back by different amounts."""
        *_, channels = self.shape(value)
        ends = []
        for taps in (1, self.random.choice((2, 3))):
            op = Conv((1, 1), ((taps - 1, 0), (1, 1)), (1, 1))
            ends.append(self.b.node(op, [value, self.b.weight(taps, 3, channels, 3)]))
        return self.b.node(Add(), ends)

    def joined2d(self, value: str) -> str:
        *_, channels = self.shape(value)
        op = Conv((1, 1), ((2, 0), (0, 0)), (1, 1))
        other = self.b.node(op, [value, self.b.weight(3, 1, channels, 2)])
        return self.b.node(Concat(3), [value, other])

    def widened2d(self, value: str) -> str:
        rows, _, channels = self.shape(value)
        if rows > ROWS:
            return self.conv2d(value)
        op = ConvTranspose((2, 2), ((0, 0), (0, 0)), (1, 1), (0, 0))
        return self.b.node(op, [value, self.b.weight(2, 2, 2, channels)])

    def repeated2d(self, value: str) -> str:
        rows, columns, _ = self.shape(value)
        if rows > ROWS:
            return self.conv2d(value)
        mode = "linear" if self.ahead else "nearest"
        return self.b.node(Resize(mode, (2 * rows, 2 * columns), "asymmetric", "floor"), [value])

    def mean_of_row(self, value: str) -> str:
        return self.b.node(ReduceMean((2,), keepdims=False), [value])

    def flat(self, value: str) -> str:
        """Each row becomes a vector, of which a dense layer takes all."""
        rows, columns, channels = self.shape(value)
        line = self.b.node(Reshape((1, rows, columns * channels)), [value])
        return self.b.node(MatMul(), [line, self.b.weight(columns * channels, 4)])


class FrameMaker(RowMaker):
    """Grows a network over frames; layers look at one of them, or at the last few."""

    def graph(self) -> Graph:
        size = self.random.choice(((4, 5), (6, 4)))
        value = self.last_frames(self.b.input("x", (1, ROWS, *size, 2)))
        for _ in range(self.random.randint(1, 3)):
            value = self.random.choice((self.last_frames, self.frame, self.means))(value)
        if self.random.random() < 0.5:
            value = self.b.node(ReduceMean((2, 3), keepdims=False), [value])
            value = self.random.choice((self.conv, self.recurrent))(value)
        self.b.output(self.b.node(Tanh(), [value]))
        return self.b.build()

    def images(self, value: str, op: Conv | MaxPool, *weights: str) -> str:
        """Each frame as an image."""
        _, frames, *size = self.b.types[value].shape
        y = self.b.node(op, [self.b.node(Reshape((frames, *size)), [value]), *weights])
        return self.b.node(Reshape((1, *self.b.types[y].shape)), [y])

    def frame(self, value: str) -> str:
        channels = self.b.types[value].shape[-1]
        if self.random.random() < 0.3:
            return self.images(value, MaxPool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)))
        op = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
        return self.images(value, op, self.b.weight(3, 3, channels, 3))

    def last_frames(self, value: str) -> str:
        """A convolution over the channels of the last frames."""
        _, frames, *size = self.b.types[value].shape
        count = self.random.choice((2, 3))
        padded = self.b.node(Pad(((0, 0), (count - 1, 0), *[(0, 0)] * 3)), [value])
        cuts = [
            Slice((0, at, 0, 0, 0), (1, at + frames, *size), (1,) * 5) for at in range(count)
        ]  # fmt: skip
        parts = [self.b.node(cut, [padded]) for cut in cuts]
        joined = self.b.node(Concat(4), parts)
        op = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
        return self.images(joined, op, self.b.weight(3, 3, count * size[-1], 3))

    def means(self, value: str) -> str:
        """A frame and the mean of the last ones."""
        shape = self.b.types[value].shape
        line = self.b.node(Reshape((1, ROWS, int(np.prod(shape[2:])))), [value])
        pool = AveragePool((3,), (1,), ((2, 0),), (1,))
        return self.b.node(Add(), [value, self.b.node(Reshape(shape), [self.b.node(pool, [line])])])
