"""Small TensorFlow Lite files, written with the builders of the package tflite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

#: Schema types by numpy's names.
TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int32": "INT32", "uint8": "UINT8",
    "int64": "INT64", "bool": "BOOL", "int16": "INT16", "int8": "INT8",
}  # fmt: skip


@dataclass
class Tensor:
    """A tensor of a file; `signature` has -1 for open dimensions."""

    name: str
    shape: Sequence[int]
    dtype: str = "FLOAT32"
    buffer: int = 0
    scales: Sequence[float] = ()
    zeros: Sequence[int] = ()
    axis: int = 0
    signature: Sequence[int] = ()
    is_variable: bool = False
    sparsity: Sparsity | None = None


@dataclass
class Sparsity:
    """What a sparse tensor says of its axes. A level is a size, or segments and indices."""

    order: Sequence[int]
    blocked: Sequence[int]
    levels: Sequence[int | tuple[Sequence[int], Sequence[int]]]
    #: The class of vectors of places.
    vector: str = "Int32Vector"


@dataclass
class Operator:
    """An operator, by the number of its code; `custom` are the options of a custom one."""

    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: tuple[str, Mapping[str, Any]] | None
    custom: bytes = b""


@dataclass
class Graph:
    """A graph under construction."""

    file: TfliteFile
    name: str = "main"
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str = "FLOAT32", **more: Any) -> int:
        """A tensor that is computed."""
        number = len(self.tensors)
        self.tensors.append(Tensor(more.pop("name", f"t{number}"), shape, dtype, **more))
        return number

    def input(self, shape: Sequence[int], dtype: str = "FLOAT32", **more: Any) -> int:
        """An input, x0, x1 and so on unless it has a name."""
        name = more.pop("name", f"x{len(self.inputs)}")
        self.inputs.append(self.tensor(shape, dtype, name=name, **more))
        return self.inputs[-1]

    def constant(self, values: Any, dtype: str = "", **more: Any) -> int:
        """A constant; `dtype` is the schema's if numpy has another one for it."""
        array = np.asarray(values)
        array = array.astype(np.int32) if array.dtype == int and dtype != "INT64" else array
        array = array.astype(np.float32) if array.dtype == float else array
        self.file.buffers.append(np.ascontiguousarray(array).tobytes())
        number = len(self.file.buffers) - 1
        kind = dtype or TYPES[array.dtype.name]
        return self.tensor(more.pop("shape", array.shape), kind, buffer=number, **more)

    def add(
        self, kind: str, inputs: Sequence[int], *outputs: int, options: str = "", **fields: Any
    ) -> int:
        """Append an operator; the fields are those of its options. Returns the first output."""
        code = self.file.code(kind)
        custom = fields.pop("custom", b"")
        more = (options, fields) if options else None
        self.operators.append(Operator(code, inputs, outputs, more, custom))
        return outputs[0] if outputs else -1


class TfliteFile:
    """A file; `main` is its first graph."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = [b""]
        self.codes: list[int | str] = []
        self.main = Graph(self)
        self.graphs = [self.main]
        self.signature: tuple[Mapping[str, int], Mapping[str, int]] | None = None

    def graph(self, name: str) -> Graph:
        """A further graph."""
        self.graphs.append(Graph(self, name))
        return self.graphs[-1]

    def code(self, kind: str) -> int:
        """The number of an operator's code; names that the schema has not are custom ones."""
        code = getattr(tflite.BuiltinOperator, kind, kind)
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)

    def data(self) -> bytes:
        """The bytes of the file."""
        b = flatbuffers.Builder(4096)
        buffers = [_buffer(b, data) for data in self.buffers]
        graphs = [_graph(b, graph) for graph in self.graphs]
        codes = [_code(b, code) for code in self.codes]
        signatures = [_signature(b, *self.signature)] if self.signature else []
        vectors = {
            "OperatorCodes": codes, "Subgraphs": graphs, "Buffers": buffers,
            "SignatureDefs": signatures,
        }  # fmt: skip
        made = {name: _offsets(b, each) for name, each in vectors.items() if each}
        description = b.CreateString("made for tests")
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddDescription(b, description)
        for name, vector in made.items():
            getattr(tflite, f"ModelAdd{name}")(b, vector)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())


def _offsets(b: Any, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _numbers(b: Any, values: Sequence[Any], dtype: type[Any] = np.int32) -> int:
    return int(b.CreateNumpyVector(np.asarray(values, dtype)))


def _table(b: Any, kind: str, fields: Mapping[str, Any]) -> int:
    """A table; vectors of integers and texts are made before it."""
    made = {
        name: b.CreateNumpyVector(value)
        if isinstance(value, np.ndarray)
        else _numbers(b, value)
        if isinstance(value, list | tuple)
        else b.CreateString(value)
        if isinstance(value, str)
        else value
        for name, value in fields.items()
    }
    getattr(tflite, f"{kind}Start")(b)
    for name, value in made.items():
        getattr(tflite, f"{kind}Add{name}")(b, value)
    return int(getattr(tflite, f"{kind}End")(b))


def _buffer(b: Any, data: bytes) -> int:
    vector = _numbers(b, np.frombuffer(data, np.uint8), np.uint8) if data else 0
    return _table(b, "Buffer", {"Data": vector} if data else {})


def _code(b: Any, code: int | str) -> int:
    if isinstance(code, str):
        name = b.CreateString(code)
        return _table(b, "OperatorCode", {
            "CustomCode": name, "BuiltinCode": tflite.BuiltinOperator.CUSTOM,
            "DeprecatedBuiltinCode": tflite.BuiltinOperator.CUSTOM, "Version": 1,
        })  # fmt: skip
    version = 2 if code == tflite.BuiltinOperator.BROADCAST_TO else 1
    fields = {"BuiltinCode": code, "DeprecatedBuiltinCode": min(code, 127), "Version": version}
    return _table(b, "OperatorCode", fields)


def _signature(b: Any, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> int:
    sides = []
    for names in (inputs, outputs):
        maps = [
            _table(b, "TensorMap", {"Name": b.CreateString(name), "TensorIndex": number})
            for name, number in names.items()
        ]
        sides.append(_offsets(b, maps))
    key = b.CreateString("serving_default")
    fields = {"Inputs": sides[0], "Outputs": sides[1], "SignatureKey": key, "SubgraphIndex": 0}
    return _table(b, "SignatureDef", fields)


def _tensor(b: Any, tensor: Tensor) -> int:
    fields: dict[str, Any] = {}
    if tensor.scales:
        scales = _numbers(b, tensor.scales, np.float32)
        zeros = _numbers(b, tensor.zeros or [0] * len(tensor.scales), np.int64)
        fields["Quantization"] = _table(b, "QuantizationParameters", {
            "Scale": scales, "ZeroPoint": zeros, "QuantizedDimension": tensor.axis,
        })  # fmt: skip
    if tensor.signature:
        fields["ShapeSignature"] = _numbers(b, tensor.signature)
    if tensor.sparsity:
        fields["Sparsity"] = _sparsity(b, tensor.sparsity)
    return _table(b, "Tensor", {
        **fields, "Name": b.CreateString(tensor.name), "Shape": _numbers(b, tensor.shape),
        "Type": getattr(tflite.TensorType, tensor.dtype), "Buffer": tensor.buffer,
        "IsVariable": tensor.is_variable, "HasRank": True,
    })  # fmt: skip


def _sparsity(b: Any, sparsity: Sparsity) -> int:
    dtype = {"Int32Vector": np.int32, "Uint16Vector": np.uint16, "Uint8Vector": np.uint8}
    kind = getattr(tflite.SparseIndexVector, sparsity.vector)
    levels = []
    for level in sparsity.levels:
        if isinstance(level, int):
            levels.append(_table(b, "DimensionMetadata", {"Format": 0, "DenseSize": level}))
            continue
        segments, indices = (
            _table(b, sparsity.vector, {"Values": _numbers(b, v, dtype[sparsity.vector])})
            for v in level
        )
        levels.append(_table(b, "DimensionMetadata", {
            "Format": 1, "ArraySegmentsType": kind, "ArraySegments": segments,
            "ArrayIndicesType": kind, "ArrayIndices": indices,
        }))  # fmt: skip
    return _table(b, "SparsityParameters", {
        "TraversalOrder": _numbers(b, sparsity.order), "BlockMap": _numbers(b, sparsity.blocked),
        "DimMetadata": _offsets(b, levels),
    })  # fmt: skip


def _operator(b: Any, operator: Operator) -> int:
    fields: dict[str, Any] = {"OpcodeIndex": operator.code}
    if operator.options:
        kind, values = operator.options
        second = "" if hasattr(tflite.BuiltinOptions, kind) else "2"
        numbers = getattr(tflite, f"BuiltinOptions{second}")
        fields[f"BuiltinOptions{second}Type"] = getattr(numbers, kind)
        fields[f"BuiltinOptions{second}"] = _table(b, kind, values)
    if operator.custom:
        fields["CustomOptions"] = _numbers(b, np.frombuffer(operator.custom, np.uint8), np.uint8)
    inputs, outputs = _numbers(b, operator.inputs), _numbers(b, operator.outputs)
    return _table(b, "Operator", {"Inputs": inputs, "Outputs": outputs, **fields})


def _graph(b: Any, graph: Graph) -> int:
    tensors = _offsets(b, [_tensor(b, t) for t in graph.tensors])
    operators = _offsets(b, [_operator(b, o) for o in graph.operators])
    name = b.CreateString(graph.name)
    return _table(b, "SubGraph", {
        "Name": name, "Tensors": tensors, "Operators": operators,
        "Inputs": _numbers(b, graph.inputs), "Outputs": _numbers(b, graph.outputs),
    })  # fmt: skip


#: Fills a graph with tensors and operators; returns its outputs.
Fill = Callable[[Graph], Sequence[int]]


def tflite_file(fill: Fill) -> bytes:
    """The file of a graph that `fill` makes."""
    file = TfliteFile()
    file.main.outputs = list(fill(file.main))
    return file.data()


def input_shape(data: bytes) -> tuple[int, ...]:
    """The shape of the first input of a file."""
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    return tuple(int(d) for d in graph.Tensors(graph.Inputs(0)).ShapeAsNumpy())


def by_litert(
    data: bytes, inputs: Mapping[str, NDArray[Any]], *, reference: bool = True
) -> list[NDArray[Any]]:
    """The outputs of LiteRT's reference kernels, or of its others without delegates, in order;
    inputs have the tensors' names.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kinds = OpResolverType
    kind = kinds.BUILTIN_REF if reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


def runs_of_litert(data: bytes, runs: Sequence[Mapping[str, NDArray[Any]]]) -> list[NDArray[Any]]:
    """The first output of each of several runs of one interpreter, which keeps its variables."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    found = []
    for inputs in runs:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        interpreter.invoke()
        found.append(np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])))
    return found
