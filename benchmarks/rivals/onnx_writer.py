"""Graphs as ONNX models, channels first inside, images at the ends in either order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import (
    Add,
    Clip,
    Div,
    Elu,
    Exp,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Max,
    Min,
    Mul,
    Neg,
    Relu,
    Sigmoid,
    Silu,
    Sqrt,
    Sub,
    Tanh,
)
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Identity, Pad, Reshape, Slice
from cannery.ops.recurrent.op import Gru
from cannery.ops.reduce.op import ReduceMax, ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.ops.window import Pads
from rivals.exchange import as_float, constant, is_projection, unsupported

OPSET = 17
_IR_VERSION = 8

_TO_FIRST = [0, 3, 1, 2]
_TO_LAST = [0, 2, 3, 1]


def onnx_model(graph: Graph, order: str) -> onnx.ModelProto:
    """The network with inputs and outputs of this `order` ("nchw", "nhwc") where they have rank 4.

    Raises UnsupportedError for operators that have no form here.
    """
    return _Writer(graph, order).model()


class _Writer:
    """A value of rank 4 has channels first in the file, under its own name."""

    def __init__(self, graph: Graph, order: str) -> None:
        self.graph, self.last = graph, order == "nhwc"
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def model(self) -> onnx.ModelProto:
        """Inputs, nodes, outputs."""
        inputs = [self._input(value) for value in self.graph.inputs]
        for node in self.graph.nodes:
            self.write(node.op, node)
        outputs = [self._output(value) for value in self.graph.outputs]
        body = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(body, opset_imports=[opset], ir_version=_IR_VERSION)

    def shape(self, value: str) -> list[int]:
        """As in the file."""
        shape = list(self.graph.types[value].shape)
        return [shape[k] for k in _TO_FIRST] if len(shape) == 4 else shape

    def kind(self, value: str) -> int:
        """ONNX's number for the type of its elements."""
        return int(helper.np_dtype_to_tensor_dtype(self.graph.types[value].dtype.numpy))

    def axis(self, value: str, axis: int) -> int:
        """An axis of a value, as in the file."""
        return _TO_FIRST.index(axis) if self.graph.types[value].rank == 4 else axis

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node; returns its output."""
        name = f"{output}/{kind}".replace(" ", "_")
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def weight(self, name: str, array: Array) -> str:
        """Add an initializer; returns its name."""
        if array.dtype.kind == "f":
            array = as_float(array)
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def operand(self, value: str, node: Node) -> str:
        """An input of an elementwise operator: constants get the file's order of axes."""
        if value not in self.graph.constants:
            return value
        array = self.graph.constants[value]
        if self.graph.types[node.output].rank == 4 and array.ndim:
            array = array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(_TO_FIRST)
        return self.weight(f"{node.output}/{value}", array)

    def _input(self, value: str) -> onnx.ValueInfoProto:
        shape, kind = list(self.graph.types[value].shape), self.kind(value)
        if not self.last or len(shape) != 4:
            return helper.make_tensor_value_info(value, kind, self.shape(value))
        name = self.add("Transpose", [f"{value}_nhwc"], value, perm=_TO_FIRST)
        return helper.make_tensor_value_info(f"{name}_nhwc", kind, shape)

    def _output(self, value: str) -> onnx.ValueInfoProto:
        shape, kind = list(self.graph.types[value].shape), self.kind(value)
        if not self.last or len(shape) != 4:
            return helper.make_tensor_value_info(value, kind, self.shape(value))
        name = self.add("Transpose", [value], f"{value}_nhwc", perm=_TO_LAST)
        return helper.make_tensor_value_info(name, kind, shape)

    @singledispatchmethod
    def write(self, op: Op, node: Node) -> None:
        """Append the nodes of one operator."""
        raise unsupported(op)

    @write.register
    def _conv(self, op: Conv, node: Node) -> None:
        x, w, *bias = node.inputs
        spatial = range(len(op.strides))
        kernel = constant(self.graph, w)
        axes = (len(spatial) + 1, len(spatial), *spatial)
        inputs = [x, self.weight(f"{node.output}/kernel", kernel.transpose(axes))]
        if any(bias):
            inputs.append(self.weight(f"{node.output}/bias", constant(self.graph, bias[0])))
        self.add(
            "Conv", inputs, node.output, strides=op.strides, pads=_pads(op.pads), group=op.group,
            dilations=op.dilations, kernel_shape=kernel.shape[:-2],
        )  # fmt: skip

    @write.register
    def _max_pool(self, op: MaxPool, node: Node) -> None:
        dilated = {"dilations": op.dilations} if any(d > 1 for d in op.dilations) else {}
        self.add(
            "MaxPool", node.inputs, node.output, kernel_shape=op.kernel, strides=op.strides,
            pads=_pads(op.pads), **dilated,
        )  # fmt: skip

    @write.register
    def _average_pool(self, op: AveragePool, node: Node) -> None:
        if any(d > 1 for d in op.dilations):
            raise unsupported(op)
        self.add(
            "AveragePool", node.inputs, node.output, kernel_shape=op.kernel, strides=op.strides,
            pads=_pads(op.pads), count_include_pad=int(op.count_include_pad),
        )  # fmt: skip

    @write.register
    def _conv_transpose(self, op: ConvTranspose, node: Node) -> None:
        x, w, *bias = node.inputs
        kernel = constant(self.graph, w)
        if kernel.ndim != 4 or op.group > 1:
            raise unsupported(op)
        inputs = [x, self.weight(f"{node.output}/kernel", kernel.transpose(3, 2, 0, 1))]
        if any(bias):
            inputs.append(self.weight(f"{node.output}/bias", constant(self.graph, bias[0])))
        self.add(
            "ConvTranspose", inputs, node.output, strides=op.strides, pads=_pads(op.pads),
            dilations=op.dilations, output_padding=op.output_padding,
        )  # fmt: skip

    @write.register(Relu)
    @write.register(Sigmoid)
    @write.register(Tanh)
    @write.register(HardSwish)
    @write.register(Sqrt)
    @write.register(Neg)
    @write.register(Exp)
    @write.register(Identity)
    def _unary(self, op: Op, node: Node) -> None:
        self.add(type(op).__name__, node.inputs, node.output)

    @write.register
    def _leaky_relu(self, op: LeakyRelu, node: Node) -> None:
        self.add("LeakyRelu", node.inputs, node.output, alpha=op.alpha)

    @write.register
    def _elu(self, op: Elu, node: Node) -> None:
        self.add("Elu", node.inputs, node.output, alpha=op.alpha)

    @write.register
    def _hard_sigmoid(self, op: HardSigmoid, node: Node) -> None:
        self.add("HardSigmoid", node.inputs, node.output, alpha=op.alpha, beta=op.beta)

    @write.register
    def _silu(self, op: Silu, node: Node) -> None:
        """As exporters spell it; every rival knows the pair."""
        (x,), y = node.inputs, node.output
        self.add("Mul", [x, self.add("Sigmoid", [x], f"{y}/gate")], y)

    @write.register(ReduceMean)
    @write.register(ReduceMax)
    def _reduce(self, op: ReduceMean | ReduceMax, node: Node) -> None:
        (x,), y = node.inputs, node.output
        axes = sorted(self.axis(x, axis) for axis in op.axes)
        if len({self.graph.types[v].rank for v in (x, y)} & {4}) and not self._in_order(op, x):
            raise unsupported(op)
        self.add(type(op).__name__, [x], y, axes=axes, keepdims=int(op.keepdims))

    def _in_order(self, op: ReduceMean | ReduceMax, x: str) -> bool:
        """Whether what is left of an image lies in the file as in the graph."""
        left = [axis for axis in (0, 1, 2, 3) if axis not in op.axes]
        return op.keepdims or self.graph.types[x].rank != 4 or left in ([0, 3], [0], [3], [])

    @write.register
    def _slice(self, op: Slice, node: Node) -> None:
        if min(op.steps) < 1:
            raise unsupported(op)
        (x,), y = node.inputs, node.output
        axes = [self.axis(x, axis) for axis in range(len(op.starts))]
        tables = (("starts", op.starts), ("ends", op.ends), ("axes", axes), ("steps", op.steps))
        named = [self.weight(f"{y}/{what}", np.asarray(v, np.int64)) for what, v in tables]
        self.add("Slice", [x, *named], y)

    @write.register
    def _gru(self, op: Gru, node: Node) -> None:
        """The whole layer, the product of its inputs included; time goes first and returns."""
        p, r, start, bias = (*node.inputs, "", "")[:4]
        product = self.graph.producer(p)
        usual = ((Sigmoid(),), (Tanh(),)) * op.directions
        if start or op.clip or op.lengths or op.activations != usual or op.directions > 1:
            raise unsupported(op)
        if product is None or not is_projection(self.graph, product):
            raise unsupported(f"{op} without a product of its own")
        x, w, *shift = product.inputs
        y, n = node.name, op.cells
        both = np.zeros((1, 6 * n), np.float32)
        if any(shift):
            both[:, : 3 * n] = constant(self.graph, shift[0])
        if bias:
            both[:, 5 * n :] = constant(self.graph, bias)
        weights = [
            self.weight(f"{y}/w", constant(self.graph, w).T[np.newaxis]),
            self.weight(f"{y}/r", constant(self.graph, r).transpose(0, 2, 1)),
            self.weight(f"{y}/b", both),
        ]
        names = [f"{y}/{what}" for what in ("sequence", "hidden")]
        self.nodes.append(
            helper.make_node(
                "GRU", [self.add("Transpose", [x], f"{y}/steps", perm=[1, 0, 2]), *weights], names,
                name=y, hidden_size=n, direction="reverse" if op.reverse[0] else "forward",
                linear_before_reset=int(op.linear_before_reset),
            )
        )  # fmt: skip
        for what, value in zip(op.returns, node.outputs, strict=True):
            shape = np.asarray(self.shape(value), np.int64)
            found = names[what == "hidden"]
            if what != "hidden":
                found = self.add("Transpose", [found], f"{y}/samples", perm=[2, 0, 1, 3])
            self.add("Reshape", [found, self.weight(f"{value}/shape", shape)], value)

    @write.register
    def _clip(self, op: Clip, node: Node) -> None:
        bounds = [
            self.weight(f"{node.output}/{name}", np.asarray(bound, np.float32))
            for name, bound in (("minimum", op.minimum), ("maximum", op.maximum))
        ]
        self.add("Clip", [node.inputs[0], *bounds], node.output)

    @write.register(Add)
    @write.register(Sub)
    @write.register(Mul)
    @write.register(Div)
    @write.register(Max)
    @write.register(Min)
    def _binary(self, op: Op, node: Node) -> None:
        ranks = {self.graph.types[v].rank for v in node.inputs if v not in self.graph.constants}
        if ranks != {self.graph.types[node.output].rank}:
            raise unsupported(f"{op} that broadcasts values")
        inputs = [self.operand(value, node) for value in node.inputs]
        self.add(type(op).__name__, inputs, node.output)

    @write.register
    def _concat(self, op: Concat, node: Node) -> None:
        self.add("Concat", node.inputs, node.output, axis=self.axis(node.output, op.axis))

    @write.register
    def _pad(self, op: Pad, node: Node) -> None:
        x, rank = node.inputs[0], len(op.pads)
        pads = [op.pads[k] for k in _TO_FIRST] if rank == 4 else op.pads
        table = self.weight(f"{node.output}/pads", np.asarray(_pads(tuple(pads)), np.int64))
        value = self.weight(f"{node.output}/value", np.asarray(op.value, np.float32))
        self.add("Pad", [x, table, value], node.output, mode=op.mode)

    @write.register
    def _softmax(self, op: Softmax, node: Node) -> None:
        self.add("Softmax", node.inputs, node.output, axis=self.axis(node.output, op.axis))

    @write.register
    def _resize(self, op: Resize, node: Node) -> None:
        before, after = self.shape(node.inputs[0]), self.shape(node.output)
        scales = np.asarray([b / a for a, b in zip(before, after, strict=True)], np.float32)
        if op.scales and tuple(scales[2:]) != op.scales:
            raise unsupported(op)
        self.add(
            "Resize", [node.inputs[0], "", self.weight(f"{node.output}/scales", scales)],
            node.output, mode=op.mode, coordinate_transformation_mode=op.coordinate,
            nearest_mode=op.rounding,
        )  # fmt: skip

    @write.register
    def _reshape(self, op: Reshape, node: Node) -> None:
        """Through channels last on both sides, where the order of axes shows."""
        (x,), y = node.inputs, node.output
        if _order_shows(self.graph.types[x].shape):
            x = self.add("Transpose", [x], f"{y}/last", perm=_TO_LAST)
        shows = _order_shows(op.shape)
        shape = list(op.shape) if shows else self.shape(y)
        target = self.weight(f"{y}/shape", np.asarray(shape, np.int64))
        self.add("Reshape", [x, target], f"{y}/before" if shows else y)
        if shows:
            self.add("Transpose", [f"{y}/before"], y, perm=_TO_FIRST)

    @write.register
    def _matmul(self, op: MatMul, node: Node) -> None:
        if is_projection(self.graph, node):
            return
        x, w, *bias = node.inputs
        if self.graph.types[x].rank != 2 or op.transpose_a:
            raise unsupported(f"{op} of rank {self.graph.types[x].rank}")
        weights = constant(self.graph, w)
        units = weights.shape[0 if op.transpose_b else 1]
        # Always with a bias: only then pnnx sees a dense layer.
        shift = constant(self.graph, bias[0]) if any(bias) else np.zeros(units, np.float32)
        names = (f"{node.output}/kernel", weights), (f"{node.output}/bias", shift)
        inputs = [x, *(self.weight(name, array) for name, array in names)]
        self.add("Gemm", inputs, node.output, transB=int(op.transpose_b))


def _pads(pads: Pads) -> list[int]:
    """All begins, then all ends."""
    return [begin for begin, _ in pads] + [end for _, end in pads]


def _order_shows(shape: Sequence[int]) -> bool:
    """Whether channels first and channels last differ in memory."""
    return len(shape) == 4 and shape[3] > 1 and shape[1] * shape[2] > 1
