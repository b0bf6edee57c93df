"""Graphs as TensorFlow Lite models, by the schema that comes with ai-edge-litert.

Activations are fused as TensorFlow's converter would do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Clip, LeakyRelu, Mul, Relu, Sigmoid, Sub, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape
from cannery.ops.recurrent.op import Lstm
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.ops.window import Pads
from rivals.exchange import (
    as_float,
    constant,
    is_projection,
    is_same,
    lstm_layer,
    unsupported,
)

_CODE = schema.BuiltinOperator
_FUSED = schema.ActivationFunctionType


def tflite_model(graph: Graph) -> bytes:
    """The file; raises UnsupportedError for operators that have no form here."""
    model = _Writer(graph).model()
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: list[Any] = []
        self.buffers: list[Any] = [schema.BufferT()]
        self.operators: list[Any] = []
        self.codes: list[int] = []
        self.numbers: dict[str, int] = {}
        #: Activations that an earlier operator has taken in.
        self.fused: set[str] = set()

    def model(self) -> Any:
        """The object form of the file."""
        inputs = [self.value(value) for value in self.graph.inputs]
        for node in self.graph.nodes:
            if node.output not in self.fused:
                self.write(node.op, node)
        main = schema.SubGraphT()
        main.tensors, main.operators = self.tensors, self.operators
        main.inputs = inputs
        main.outputs = [self.value(value) for value in self.graph.outputs]
        main.name = b"main"
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [main], self.buffers
        model.description = b"network"
        model.operatorCodes = list(map(_operator_code, self.codes))
        return model

    def value(self, name: str) -> int:
        """The number of a value that is computed."""
        if name not in self.numbers:
            self.numbers[name] = self._tensor(name, self.graph.types[name].shape, 0)
        return self.numbers[name]

    def weight(self, name: str, array: Array, kind: int = schema.TensorType.FLOAT32) -> int:
        """The number of a new constant."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.buffers.append(buffer)
        return self._tensor(name, array.shape, len(self.buffers) - 1, kind)

    def _tensor(
        self, name: str, shape: Sequence[int], buffer: int, kind: int = schema.TensorType.FLOAT32
    ) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), buffer
        tensor.type = kind
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def add(self, code: int, inputs: Sequence[int], output: str, options: Any = None) -> None:
        """Append an operator; the options' class tells their type."""
        operator = schema.OperatorT()
        if code not in self.codes:
            self.codes.append(code)
        operator.opcodeIndex = self.codes.index(code)
        operator.inputs, operator.outputs = list(inputs), [self.value(output)]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = options
        self.operators.append(operator)

    def activation(self, node: Node) -> tuple[int, str]:
        """The activation behind a node that it can take in, and the value that it then gives."""
        readers = self.graph.consumers(node.output)
        if len(readers) != 1 or node.output in self.graph.outputs:
            return _FUSED.NONE, node.output
        code = _activation(readers[0].op)
        if code == _FUSED.NONE:
            return code, node.output
        self.fused.add(readers[0].output)
        return code, readers[0].output

    @singledispatchmethod
    def write(self, op: Op, node: Node) -> None:
        """Append the operators of one node."""
        raise unsupported(op)

    @write.register
    def _conv(self, op: Conv, node: Node) -> None:
        x, w, *bias = node.inputs
        kernel = as_float(constant(self.graph, w))
        if kernel.ndim != 4:
            raise unsupported(op)
        taken, made = self.graph.types[x].shape[-1], kernel.shape[-1]
        depthwise = op.group == taken and op.group > 1
        if op.group > 1 and not depthwise:
            raise unsupported(f"{op} in groups")
        image, padding = self._padded(x, kernel.shape[:2], op)
        name = node.output
        shift = as_float(constant(self.graph, bias[0])) if any(bias) else np.zeros(made, np.float32)
        options: Any
        if depthwise:
            code, packed = _CODE.DEPTHWISE_CONV_2D, kernel.transpose(2, 0, 1, 3)
            options = schema.DepthwiseConv2DOptionsT()
            options.depthMultiplier = made // taken
        else:
            code, packed = _CODE.CONV_2D, kernel.transpose(3, 0, 1, 2)
            options = schema.Conv2DOptionsT()
        options.padding = padding
        options.strideH, options.strideW = op.strides
        options.dilationHFactor, options.dilationWFactor = op.dilations
        options.fusedActivationFunction, output = self.activation(node)
        weights = self.weight(f"{name}/kernel", packed), self.weight(f"{name}/bias", shift)
        self.add(code, [image, *weights], output, options)

    def _padded(self, x: str, kernel: tuple[int, ...], op: Conv) -> tuple[int, int]:
        """The image, behind a PAD where it needs one, and the kind of padding."""
        size = self.graph.types[x].shape[1:-1]
        if is_same(size, kernel, op.strides, op.pads, op.dilations):
            return self.value(x), schema.Padding.SAME
        if not any(map(any, op.pads)):
            return self.value(x), schema.Padding.VALID
        output = f"{x}/padded{len(self.tensors)}"
        shape = [n + sum(p) for n, p in zip(size, op.pads, strict=True)]
        whole = (self.graph.types[x].shape[0], *shape, self.graph.types[x].shape[-1])
        self.numbers[output] = self._tensor(output, whole, 0)
        self._pad(x, ((0, 0), *op.pads, (0, 0)), output)
        return self.value(output), schema.Padding.VALID

    def _pad(self, x: str, pads: Pads, output: str) -> None:
        """Zeros around all axes."""
        table = np.asarray(pads, np.int32)
        number = self.weight(f"{output}/pads", table, schema.TensorType.INT32)
        self.add(_CODE.PAD, [self.value(x), number], output, schema.PadOptionsT())

    @write.register(MaxPool)
    @write.register(AveragePool)
    def _pool(self, op: MaxPool | AveragePool, node: Node) -> None:
        size = self.graph.types[node.inputs[0]].shape[1:-1]
        window = (op.kernel, op.strides, op.pads, op.dilations)
        same = is_same(size, *window)
        counted = isinstance(op, AveragePool) and op.count_include_pad and any(map(any, op.pads))
        if len(op.kernel) != 2 or max(op.dilations) > 1 or counted:
            raise unsupported(op)
        if not same and any(map(any, op.pads)):
            raise unsupported(op)
        options = schema.Pool2DOptionsT()
        options.padding = schema.Padding.SAME if same else schema.Padding.VALID
        options.filterHeight, options.filterWidth = op.kernel
        options.strideH, options.strideW = op.strides
        code = _CODE.MAX_POOL_2D if isinstance(op, MaxPool) else _CODE.AVERAGE_POOL_2D
        self.add(code, [self.value(node.inputs[0])], node.output, options)

    @write.register
    def _leaky_relu(self, op: LeakyRelu, node: Node) -> None:
        options = schema.LeakyReluOptionsT()
        options.alpha = op.alpha
        self.add(_CODE.LEAKY_RELU, [self.value(node.inputs[0])], node.output, options)

    @write.register(Relu)
    @write.register(Clip)
    @write.register(Sigmoid)
    @write.register(Tanh)
    def _unary(self, op: Op, node: Node) -> None:
        codes = {
            _FUSED.RELU: _CODE.RELU, _FUSED.RELU6: _CODE.RELU6,
            _FUSED.RELU_N1_TO_1: _CODE.RELU_N1_TO_1,
        }  # fmt: skip
        others: dict[type[Op], int] = {Sigmoid: _CODE.LOGISTIC, Tanh: _CODE.TANH}
        code = others.get(type(op)) or codes.get(_activation(op))
        if code is None:
            raise unsupported(op)
        self.add(code, [self.value(node.inputs[0])], node.output)

    @write.register(Add)
    @write.register(Sub)
    @write.register(Mul)
    def _binary(self, op: Op, node: Node) -> None:
        known = self.graph.constants
        inputs = [
            self.weight(f"{node.output}/{v}", as_float(known[v])) if v in known else self.value(v)
            for v in node.inputs
        ]
        kind = type(op).__name__
        options = getattr(schema, f"{kind}OptionsT")()
        options.fusedActivationFunction, output = self.activation(node)
        self.add(getattr(_CODE, kind.upper()), inputs, output, options)

    @write.register
    def _pad_alone(self, op: Pad, node: Node) -> None:
        if op.mode != "constant" or op.value:
            raise unsupported(op)
        self._pad(node.inputs[0], op.pads, node.output)

    @write.register
    def _concat(self, op: Concat, node: Node) -> None:
        options = schema.ConcatenationOptionsT()
        options.axis = op.axis
        inputs = [self.value(value) for value in node.inputs]
        self.add(_CODE.CONCATENATION, inputs, node.output, options)

    @write.register
    def _softmax(self, op: Softmax, node: Node) -> None:
        if op.axis != self.graph.types[node.output].rank - 1:
            raise unsupported(op)
        options = schema.SoftmaxOptionsT()
        options.beta = 1.0
        self.add(_CODE.SOFTMAX, [self.value(node.inputs[0])], node.output, options)

    @write.register
    def _resize(self, op: Resize, node: Node) -> None:
        """Where each element is repeated, all ways to map coordinates agree but aligned corners."""
        size = self.graph.types[node.inputs[0]].shape[1:-1]
        whole = all(b % a == 0 for a, b in zip(size, op.sizes, strict=True))
        repeats = (op.coordinate, op.rounding) in (
            ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"),
            ("half_pixel", "round_prefer_ceil"),
        )  # fmt: skip
        if op.mode != "nearest" or not whole or not repeats or len(op.sizes) != 2:
            raise unsupported(op)
        sizes = np.asarray(op.sizes, np.int32)
        table = self.weight(f"{node.output}/sizes", sizes, schema.TensorType.INT32)
        options = schema.ResizeNearestNeighborOptionsT()
        inputs = [self.value(node.inputs[0]), table]
        self.add(_CODE.RESIZE_NEAREST_NEIGHBOR, inputs, node.output, options)

    @write.register
    def _reshape(self, op: Reshape, node: Node) -> None:
        options = schema.ReshapeOptionsT()
        options.newShape = list(op.shape)
        shape = np.asarray(op.shape, np.int32)
        table = self.weight(f"{node.output}/shape", shape, schema.TensorType.INT32)
        self.add(_CODE.RESHAPE, [self.value(node.inputs[0]), table], node.output, options)

    @write.register
    def _lstm(self, op: Lstm, node: Node) -> None:
        """Inputs in the order of TensorFlow Lite: weights, peepholes, biases; gates i, f, c, o."""
        if op.reverse not in ((False,), (False, True)):
            raise unsupported(op)
        layer, both, name = lstm_layer(self.graph, node), op.directions == 2, node.output
        inputs = [self.value(layer.x)]
        for d in range(op.directions):
            for what, array in (("w", layer.w[d]), ("r", layer.r[d])):
                parts = layer.gates(array, "ifco")
                inputs += [self.weight(f"{name}/{what}{d}{k}", p) for k, p in enumerate(parts)]
            inputs += self._peepholes(f"{name}/p{d}", layer.peepholes, d)
            parts = layer.gates(layer.bias[d], "ifco")
            inputs += [self.weight(f"{name}/b{d}{k}", p) for k, p in enumerate(parts)]
            inputs += [-1, -1]  # no projection
        batch = self.graph.types[layer.x].shape[0]
        for k in range(2 * op.directions):
            state = self._tensor(f"{name}/state{k}", (batch, op.cells), 0)
            self.tensors[state].isVariable = True
            inputs.append(state)
        kind = "Bidirectional" if both else "Unidirectional"
        options = getattr(schema, f"{kind}SequenceLSTMOptionsT")()
        options.fusedActivationFunction, options.timeMajor = _FUSED.TANH, False
        if both:
            options.mergeOutputs = True
        inputs += [-1] * (9 if both else 4)  # no auxiliary input, no normalisation
        self.add(getattr(_CODE, f"{kind.upper()}_SEQUENCE_LSTM"), inputs, name, options)

    def _peepholes(self, name: str, weights: Array | None, d: int) -> list[int]:
        """Of i, f, o; absent ones are -1."""
        if weights is None:
            return [-1] * 3
        parts = np.split(as_float(weights[d]), 3)
        return [self.weight(f"{name}{k}", parts[k]) for k in (0, 2, 1)]

    @write.register
    def _matmul(self, op: MatMul, node: Node) -> None:
        if is_projection(self.graph, node):
            return
        x, w, *bias = node.inputs
        if self.graph.types[x].rank != 2 or op.transpose_a:
            raise unsupported(op)
        kernel = as_float(constant(self.graph, w))
        weights = [self.weight(f"{node.output}/kernel", kernel if op.transpose_b else kernel.T)]
        if any(bias):
            shift = as_float(constant(self.graph, bias[0]))
            weights.append(self.weight(f"{node.output}/bias", shift))
        options = schema.FullyConnectedOptionsT()
        options.fusedActivationFunction, output = self.activation(node)
        self.add(_CODE.FULLY_CONNECTED, [self.value(x), *weights], output, options)


def _activation(op: Op) -> int:
    """The operator's number as a fused activation, NONE where it is none."""
    if isinstance(op, Relu):
        return int(_FUSED.RELU)
    if isinstance(op, Clip) and (op.minimum, op.maximum) == (0.0, 6.0):
        return int(_FUSED.RELU6)
    if isinstance(op, Clip) and (op.minimum, op.maximum) == (-1.0, 1.0):
        return int(_FUSED.RELU_N1_TO_1)
    return int(_FUSED.NONE)


def _operator_code(code: int) -> Any:
    """Older readers take small numbers from the field that they know."""
    found = schema.OperatorCodeT()
    found.builtinCode = code
    found.deprecatedBuiltinCode = min(code, 127)
    found.version = 1
    return found
