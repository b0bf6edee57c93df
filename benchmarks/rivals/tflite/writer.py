"""The file of a TensorFlow Lite model: tensors, constants, operators in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Clip, Relu
from rivals.exchange import as_float, unsupported

CODE = schema.BuiltinOperator
FUSED = schema.ActivationFunctionType
FLOAT = schema.TensorType.FLOAT32

_TYPES = {
    DType.FLOAT32: FLOAT, DType.INT32: schema.TensorType.INT32,
    DType.INT64: schema.TensorType.INT64, DType.UINT8: schema.TensorType.UINT8,
    DType.INT8: schema.TensorType.INT8, DType.BOOL: schema.TensorType.BOOL,
}  # fmt: skip

#: Writes the operators of one node.
Form = Callable[["TfliteFile", Any, Node], None]
_Form = TypeVar("_Form", bound=Form)

_FORMS: dict[type[Op], Form] = {}


def form(*kinds: type[Op]) -> Callable[[_Form], _Form]:
    """Registers a function that writes nodes with these operators."""

    def enter(write: _Form) -> _Form:
        _FORMS.update(dict.fromkeys(kinds, write))
        return write

    return enter


class TfliteFile:
    """A model that is being written; raises UnsupportedError for operators without a form."""

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
            if node.outputs[0] in self.fused:
                continue
            if type(node.op) not in _FORMS:
                raise unsupported(node.op)
            _FORMS[type(node.op)](self, node.op, node)
        main = schema.SubGraphT()
        main.tensors, main.operators = self.tensors, self.operators
        main.inputs = inputs
        main.outputs = [self.value(value) for value in self.graph.outputs]
        main.name = b"main"
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [main], self.buffers
        model.description = b"network"
        model.operatorCodes = list(map(_operator_code, self.codes))
        model.signatureDefs = [self.signature(inputs, main.outputs)]
        return model

    def signature(self, inputs: Sequence[int], outputs: Sequence[int]) -> Any:
        """The names by which callers know inputs and outputs, which quantisers ask for."""
        found = schema.SignatureDefT()
        found.signatureKey, found.subgraphIndex = b"serving_default", 0
        found.inputs = list(map(self.named, inputs))
        found.outputs = list(map(self.named, outputs))
        return found

    def named(self, number: int) -> Any:
        """A tensor under its own name."""
        found = schema.TensorMapT()
        found.name, found.tensorIndex = self.tensors[number].name, number
        return found

    def shape(self, value: str) -> tuple[int, ...]:
        """Of a value of the graph."""
        return self.graph.types[value].shape

    def value(self, name: str) -> int:
        """The number of a value: one that is computed, or a constant."""
        if name not in self.numbers:
            known = self.graph.constants.get(name)
            self.numbers[name] = (
                self.weight(name, known if known.dtype.kind != "f" else as_float(known))
                if known is not None
                else self.tensor(name, self.shape(name), self.graph.types[name].dtype)
            )
        return self.numbers[name]

    def weight(self, name: str, array: Array) -> int:
        """The number of a new constant, in the type of its elements."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.buffers.append(buffer)
        return self.tensor(name, array.shape, DType(array.dtype.name), len(self.buffers) - 1)

    def integers(self, name: str, values: Sequence[Any]) -> int:
        """A table of shapes, axes or pads."""
        return self.weight(name, np.asarray(values, np.int32))

    def tensor(
        self, name: str, shape: Sequence[int], dtype: DType = DType.FLOAT32, buffer: int = 0
    ) -> int:
        """The number of a new tensor; without a buffer it is computed."""
        if dtype not in _TYPES:
            raise unsupported(f"elements of type {dtype.value}")
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), buffer
        tensor.type = _TYPES[dtype]
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def add(self, code: int, inputs: Sequence[int], output: str | int, options: Any = None) -> int:
        """Append an operator; the options' class determines their type. Returns its output."""
        operator = schema.OperatorT()
        if code not in self.codes:
            self.codes.append(code)
        made = self.value(output) if isinstance(output, str) else output
        operator.opcodeIndex = self.codes.index(code)
        operator.inputs, operator.outputs = list(inputs), [made]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = options
        self.operators.append(operator)
        return made

    def made(
        self, code: int, inputs: Sequence[int], shape: Sequence[int], options: Any = None
    ) -> int:
        """Append an operator whose output is a tensor of this shape that the graph has not."""
        return self.add(code, inputs, self.tensor(f"t{len(self.tensors)}", shape), options)

    def reshape(self, x: int, shape: Sequence[int], output: str | int | None = None) -> int:
        """The same elements in another shape; returns its number."""
        options = schema.ReshapeOptionsT()
        options.newShape = list(shape)
        inputs = [x, self.integers(f"shape{len(self.tensors)}", shape)]
        if output is None:
            return self.made(CODE.RESHAPE, inputs, shape, options)
        return self.add(CODE.RESHAPE, inputs, output, options)

    def slice(
        self, x: int, begin: Sequence[int], size: Sequence[int], output: str | None = None
    ) -> int:
        """A part of a tensor; returns its number."""
        tables = [self.integers(f"cut{len(self.tensors)}", table) for table in (begin, size)]
        if output is None:
            return self.made(CODE.SLICE, [x, *tables], size, schema.SliceOptionsT())
        return self.add(CODE.SLICE, [x, *tables], output, schema.SliceOptionsT())

    def binary(self, kind: str, a: int, b: int, shape: Sequence[int]) -> int:
        """ADD, SUB or MUL of two tensors, into a new one."""
        options = getattr(schema, f"{kind.capitalize()}OptionsT")()
        options.fusedActivationFunction = FUSED.NONE
        return self.made(getattr(CODE, kind), [a, b], shape, options)

    def activation(self, node: Node) -> tuple[int, str]:
        """The activation after a node that it can take in, and the value that it then gives."""
        readers = self.graph.consumers(node.output)
        if len(readers) != 1 or node.output in self.graph.outputs:
            return FUSED.NONE, node.output
        code = activation_code(readers[0].op)
        if code == FUSED.NONE:
            return code, node.output
        self.fused.add(readers[0].output)
        return code, readers[0].output


def activation_code(op: Op) -> int:
    """The operator's number as a fused activation, NONE where it is none."""
    if isinstance(op, Relu):
        return int(FUSED.RELU)
    bounds: Mapping[tuple[float, float], int] = {
        (0.0, 6.0): FUSED.RELU6, (-1.0, 1.0): FUSED.RELU_N1_TO_1,
    }  # fmt: skip
    if isinstance(op, Clip):
        return int(bounds.get((op.minimum, op.maximum), FUSED.NONE))
    return int(FUSED.NONE)


def packed(graph: Graph) -> bytes:
    """The file of a graph."""
    model = TfliteFile(graph).model()
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _operator_code(code: int) -> Any:
    """Older readers take small numbers from the field that they know."""
    found = schema.OperatorCodeT()
    found.builtinCode = code
    found.deprecatedBuiltinCode = min(code, 127)
    found.version = 1
    return found
