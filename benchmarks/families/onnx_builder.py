"""ONNX networks node by node, as PyTorch's exporter writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass
class OnnxBuilder:
    """Appends nodes; knows the shape of every value. Weights come from `seed`."""

    name: str
    seed: int
    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, NDArray[Any]] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def input(self, name: str, *shape: int, integer: bool = False) -> str:
        """An input of the network."""
        from onnx import TensorProto

        self.inputs[name] = TensorProto.INT64 if integer else TensorProto.FLOAT
        self.shapes[name] = shape
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        self.shapes[name] = array.shape
        return name

    def scalar(self, value: float) -> str:
        """A number."""
        return self.constant(np.float32(value).reshape(()))

    def integers(self, *values: int) -> str:
        """A list of integers, as operators take shapes and axes."""
        return self.constant(np.array(values, np.int64))

    def normal(self, *shape: int, scale: float) -> str:
        """Normal numbers of this standard deviation."""
        return self.constant(self.rng.standard_normal(shape, np.float32) * np.float32(scale))

    def node(self, kind: str, shape: Shape, *inputs: str, **attributes: Any) -> str:
        """A node with one output of this shape."""
        return self.nodes_of(kind, [shape], *inputs, **attributes)[0]

    def nodes_of(
        self, kind: str, shapes: Sequence[Shape], *inputs: str, **attributes: Any
    ) -> list[str]:
        """A node with several outputs; an empty shape is an output that nobody takes."""
        from onnx import helper

        number = len(self.nodes)
        names = [f"{kind}_{number}_{k}" if shape else "" for k, shape in enumerate(shapes)]
        self.nodes.append(helper.make_node(kind, inputs, names, f"{kind}_{number}", **attributes))
        self.shapes.update({n: s for n, s in zip(names, shapes, strict=True) if n})
        return names

    def plain(self, kind: str, x: str, *others: str, **attributes: Any) -> str:
        """A node whose output has the shape of its first input."""
        return self.node(kind, self.shapes[x], x, *others, **attributes)

    def conv(
        self, x: str, filters: int, kernel: int = 3, stride: int = 1, *, pad: int = -1,
        groups: int = 1, dilation: int = 1, gain: float = 2**0.5,
    ) -> str:  # fmt: skip
        """Convolution over all axes after the channels, with bias; `pad` keeps the size by default.

        Batch normalisation after it is in its weights, as in an exported file.
        """
        _, taken, *size = self.shapes[x]
        d, reach = len(size), dilation * (kernel - 1)
        pad = reach // 2 if pad < 0 else pad
        weights = (filters, taken // groups, *[kernel] * d)
        outer = [(n + 2 * pad - reach - 1) // stride + 1 for n in size]
        return self.node(
            "Conv", (1, filters, *outer), x,
            self.normal(*weights, scale=gain * prod(weights[1:]) ** -0.5),
            self.normal(filters, scale=0.1),
            kernel_shape=[kernel] * d, strides=[stride] * d, pads=[pad] * 2 * d, group=groups,
            dilations=[dilation] * d,
        )  # fmt: skip

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0, *, ceil: bool = False) -> str:
        """MaxPool of two axes."""
        _, c, *size = self.shapes[x]
        free = [n + 2 * pad - kernel for n in size]
        outer = [(-(-n // stride) if ceil else n // stride) + 1 for n in free]
        return self.node(
            "MaxPool", (1, c, *outer), x, kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[pad] * 4, ceil_mode=int(ceil),
        )  # fmt: skip

    def relu(self, x: str) -> str:
        """ReLU."""
        return self.plain("Relu", x)

    def silu(self, x: str) -> str:
        """SiLU, for which ONNX has no operator: x * sigmoid(x)."""
        return self.plain("Mul", x, self.plain("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """GELU as spelled out by the exporter: x * (1 + erf(x / sqrt(2))) * 0.5."""
        inner = self.plain("Erf", self.plain("Div", x, self.scalar(2**0.5)))
        both = self.plain("Mul", x, self.plain("Add", inner, self.scalar(1)))
        return self.plain("Mul", both, self.scalar(0.5))

    def add(self, a: str, b: str) -> str:
        """The sum, of the shape of the first."""
        return self.plain("Add", a, b)

    def linear(self, x: str, units: int, gain: float = 1.0) -> str:
        """A dense layer: Gemm for a vector, else MatMul and Add."""
        *outer, taken = self.shapes[x]
        scale = gain * taken**-0.5
        if len(outer) == 1:
            weights = (self.normal(units, taken, scale=scale), self.normal(units, scale=0.1))
            return self.node("Gemm", (*outer, units), x, *weights, transB=1)
        product = self.node("MatMul", (*outer, units), x, self.normal(taken, units, scale=scale))
        return self.plain("Add", product, self.normal(units, scale=0.1))

    def layer_norm(self, x: str, *, spelled: bool = False) -> str:
        """Over the last axis: one operator from opset 17 on, nine nodes before."""
        size = self.shapes[x][-1]
        scale = self.constant(1 + 0.1 * self.rng.standard_normal(size, np.float32))
        shift = self.normal(size, scale=0.1)
        if not spelled:
            return self.plain("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)
        narrow = (*self.shapes[x][:-1], 1)
        centred = self.plain("Sub", x, self.node("ReduceMean", narrow, x, axes=[-1]))
        squares = self.plain("Pow", centred, self.scalar(2))
        variance = self.node("ReduceMean", narrow, squares, axes=[-1])
        deviation = self.plain("Sqrt", self.plain("Add", variance, self.scalar(1e-12)))
        return self.add(self.plain("Mul", self.plain("Div", centred, deviation), scale), shift)

    def mean(self, x: str) -> str:
        """The mean of an image, by channel; 1x1 remains."""
        return self.node("GlobalAveragePool", (*self.shapes[x][:2], 1, 1), x)

    def flatten(self, x: str) -> str:
        """All but the batch in one axis."""
        return self.node("Flatten", (1, prod(self.shapes[x])), x, axis=1)

    def reshape(self, x: str, *shape: int) -> str:
        """The same elements in another shape."""
        return self.node("Reshape", shape, x, self.integers(*shape))

    def transpose(self, x: str, *perm: int) -> str:
        """Axes in another order."""
        return self.node("Transpose", tuple(self.shapes[x][k] for k in perm), x, perm=perm)

    def concat(self, parts: Sequence[str], axis: int = 1) -> str:
        """Values joined along an axis."""
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[part][axis] for part in parts)
        return self.node("Concat", tuple(shape), *parts, axis=axis)

    def split(self, x: str, *sizes: int, axis: int = 1) -> list[str]:
        """Parts of these sizes."""
        shape = self.shapes[x]
        shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        return self.nodes_of("Split", shapes, x, self.integers(*sizes), axis=axis)

    def take(self, x: str, index: int, axis: int) -> str:
        """One entry of an axis, which goes."""
        shape = self.shapes[x]
        number = self.constant(np.array(index, np.int64))
        return self.node("Gather", (*shape[:axis], *shape[axis + 1 :]), x, number, axis=axis)

    def model(self, **outputs: str) -> Any:
        """The network with these outputs, by their names."""
        from onnx import TensorProto, helper, numpy_helper

        value = helper.make_tensor_value_info
        named = [helper.make_node("Identity", [v], [name]) for name, v in outputs.items()]
        body = helper.make_graph(
            [*self.nodes, *named], self.name,
            [value(name, dtype, self.shapes[name]) for name, dtype in self.inputs.items()],
            [value(n, TensorProto.FLOAT, self.shapes[v]) for n, v in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )  # fmt: skip
        return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
