"""An ONNX file as plain dataclasses: nodes, inputs, and weights that are decoded when needed.

Nothing in a model is executed. Weights outside of the file are read only from the model's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.metadata import onnx_metadata
from cannery.frontends.onnx.guard import check_message
from cannery.ir.graph import Array
from cannery.ir.tensor import MAX_ELEMENTS
from cannery.user_files import check_file

#: Bytes of the largest protobuf message.
_MAX_BYTES = 2**31 - 1

#: Bytes of all weights in other files.
_MAX_EXTERNAL = 2**29

#: TensorProto.DataType of 16-bit floats, which are read as float32.
HALVES = {10: "float16", 16: "bfloat16"}

#: Names of the standard domain.
STANDARD = ("", "ai.onnx")


#: The domain of operators that only Cannery itself makes.
OWN = "cannery"


@dataclass(frozen=True)
class OnnxNode:
    """A node. Attributes are numbers, texts, arrays and tuples, or one of the classes below.

    `version` is that of the standard operators if it is not the model's: in functions. `declared`
    is what a branch, body or function declares for its outputs, for each or for none.
    """

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    version: int = 0
    declared: tuple[OnnxInput | None, ...] = ()

    @property
    def label(self) -> str:
        """The node's name in Cannery: its first output, which is unique."""
        return next((o for o in self.outputs if o), self.name)

    @property
    def sort(self) -> str:
        """The operator for messages, with the node's own name if that differs."""
        called = f", {self.name!r}" if self.name and self.name != self.label else ""
        return f"{self.kind}{called}"

    @property
    def place(self) -> str:
        """Where an error is."""
        return f"node {self.label!r} ({self.sort})"


@dataclass(frozen=True)
class Unread:
    """An attribute that Cannery does not read: a type, a sparse tensor, a list of graphs."""


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function that is the attribute `name` of its call."""

    name: str


@dataclass(frozen=True)
class Subgraph:
    """A graph as an attribute: a branch or the body of a loop."""

    nodes: tuple[OnnxNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Callable[[], Array]]


@dataclass(frozen=True)
class OnnxFunction:
    """A function: nodes between formal inputs and outputs, attributes with their defaults.

    The default of an attribute without one is None. `version` is that of the standard operators.
    """

    nodes: tuple[OnnxNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    version: int


@dataclass(frozen=True)
class OnnxInput:
    """An input, or a file's declaration of a value.

    Dimensions are numbers, names or None; `dims` is None if the rank is open.
    """

    name: str
    dims: tuple[int | str | None, ...] | None
    dtype: str


@dataclass(frozen=True)
class OnnxModel:
    """A model. `weights` are the initializers, decoded when called.

    `files` grows as more files are read; `size` is that of the first one in bytes. `halves`: the
    inputs, outputs and weights that are float16 or bfloat16, by name. `declared`: the file's
    declarations of outputs and of values between.
    """

    name: str
    size: int
    opsets: Mapping[str, int]
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Callable[[], Array]]
    files: set[Path]
    functions: Mapping[tuple[str, str], OnnxFunction] = field(default_factory=dict)
    halves: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, OnnxInput] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def opset(self, domain: str) -> int:
        """The version of the operators of a domain; 0 if the model does not import it."""
        return self.opsets.get("" if domain in STANDARD else domain, 0)


def _package() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise CanneryError(
            "reading ONNX needs the Python package onnx", cure="pip install 'cannery[onnx]'"
        ) from None
    return onnx


def read_onnx(path: Path) -> OnnxModel:
    """The model in a file.

    Raises CanneryError if the package onnx is missing, ModelError for a damaged file, and
    UnsupportedError for parts of the format that Cannery does not read.
    """
    onnx = _package()
    if path.stat().st_size > _MAX_BYTES:
        raise ModelError("the file is larger than 2 GiB", cure="store the weights outside of it")
    proto = onnx.ModelProto()
    data = path.read_bytes()
    check_message(data, proto.DESCRIPTOR)
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the class depends on the implementation of protobuf
        raise ModelError(f"damaged ONNX file: {str(error) or type(error).__name__:.80}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError("damaged ONNX file: it holds no graph", cure="save the model again")
    return _Decoder(onnx, path.parent).model(proto, len(data))


class _Decoder:
    """Turns protobuf messages into dataclasses."""

    def __init__(self, onnx: Any, folder: Path) -> None:
        self._onnx = onnx
        self._folder = folder
        self._files: set[Path] = set()
        self._external = 0

    def model(self, proto: Any, size: int) -> OnnxModel:
        graph = proto.graph
        opsets = {("" if o.domain in STANDARD else o.domain): o.version for o in proto.opset_import}
        weights: dict[str, Callable[[], Array]] = {}
        for tensor in graph.initializer:
            if tensor.name in weights:
                raise ModelError(f"two initializers are named {tensor.name!r}")
            weights[tensor.name] = self._later(tensor)
        for sparse in graph.sparse_initializer:
            weights[sparse.values.name] = _refuse_sparse
        return OnnxModel(
            name=graph.name or "model",
            size=size,
            opsets=opsets,
            nodes=tuple(map(self._node, graph.node)),
            inputs=tuple(self._input(i) for i in graph.input if i.name not in weights),
            outputs=tuple(o.name for o in graph.output),
            weights=weights,
            files=self._files,
            functions={(f.domain, f.name): self.function(f) for f in proto.functions},
            halves=_halves(graph),
            declared=self._declared((*graph.value_info, *graph.output)),
            metadata=onnx_metadata(proto, opsets),
        )

    def function(self, proto: Any) -> OnnxFunction:
        """A FunctionProto."""
        defaults: dict[str, object] = dict.fromkeys(proto.attribute)
        defaults |= {a.name: self._attribute(a) for a in proto.attribute_proto}
        versions = [o.version for o in proto.opset_import if o.domain in STANDARD]
        nodes = self._inner(proto.node, getattr(proto, "value_info", ()))
        version = versions[0] if versions else 0
        return OnnxFunction(nodes, tuple(proto.input), tuple(proto.output), defaults, version)

    def _subgraph(self, graph: Any) -> Subgraph:
        return Subgraph(
            self._inner(graph.node, (*graph.value_info, *graph.output)),
            tuple(i.name for i in graph.input),
            tuple(o.name for o in graph.output),
            {t.name: self._later(t) for t in graph.initializer},
        )

    def _declared(self, values: Iterable[Any]) -> dict[str, OnnxInput]:
        """Declarations of tensors, by name."""
        return {
            value.name: self._typed(value)
            for value in values
            if value.type.WhichOneof("value") == "tensor_type"
        }

    def _inner(self, nodes: Iterable[Any], values: Iterable[Any]) -> tuple[OnnxNode, ...]:
        """Nodes within a node, each with the declarations of its outputs: they get other names."""
        declared = self._declared(values)
        found = map(self._node, nodes)
        return tuple(
            replace(n, declared=tuple(map(declared.get, n.outputs)))
            if declared.keys() & set(n.outputs)
            else n
            for n in found
        )

    def _later(self, tensor: Any) -> Callable[[], Array]:
        return lambda: self._tensor(tensor)

    def _input(self, value: Any) -> OnnxInput:
        if value.type.WhichOneof("value") != "tensor_type":
            raise UnsupportedError("is not a tensor", where=f"input {value.name!r}")
        return self._typed(value)

    def _typed(self, value: Any) -> OnnxInput:
        """A ValueInfoProto of a tensor."""
        type_ = value.type.tensor_type
        names = self._onnx.TensorProto.DataType
        known = type_.elem_type in names.values()
        dtype = names.Name(type_.elem_type).lower() if known else "unknown"
        if not type_.HasField("shape"):
            return OnnxInput(value.name, None, dtype)
        return OnnxInput(value.name, tuple(map(_dim, type_.shape.dim)), dtype)

    def _node(self, proto: Any) -> OnnxNode:
        attributes = {a.name: self._attribute(a) for a in proto.attribute}
        if len(attributes) != len(proto.attribute):
            where = f"node {proto.name or next(iter(proto.output), '')!r} ({proto.op_type})"
            raise ModelError("two of its attributes have one name", where=where)
        kind = proto.op_type if proto.op_type.isprintable() else ascii(proto.op_type)
        return OnnxNode(
            kind, proto.domain, proto.name, tuple(proto.input), tuple(proto.output),
            attributes,
        )  # fmt: skip

    def _attribute(self, proto: Any) -> object:
        kind = self._onnx.AttributeProto
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        if proto.type == kind.GRAPH:
            return self._subgraph(proto.g)
        if proto.type == kind.FLOAT:
            return float(proto.f)
        if proto.type == kind.INT:
            return int(proto.i)
        if proto.type == kind.STRING:
            return _text(proto.s)
        if proto.type == kind.TENSOR:
            return self._later(proto.t)
        if proto.type == kind.FLOATS:
            return tuple(map(float, proto.floats))
        if proto.type == kind.INTS:
            return tuple(map(int, proto.ints))
        if proto.type == kind.STRINGS:
            return tuple(map(_text, proto.strings))
        return Unread()

    def _tensor(self, tensor: Any) -> Array:
        """A tensor as an array of its own element type."""
        where = f"tensor {tensor.name!r}"
        dims = tuple(tensor.dims)
        if any(d < 0 for d in dims) or prod(dims) > MAX_ELEMENTS:
            raise ModelError(f"shape {dims} is malformed or too large", where=where)
        if not self._is_known(tensor.data_type):
            raise UnsupportedError("its element type is not supported", where=where)
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            tensor = self._with_data(tensor, where)
        try:
            array = np.asarray(self._onnx.numpy_helper.to_array(tensor))
            array = widened(array.reshape(dims))
        except Exception:  # whatever to_array raises for wrong sizes
            raise ModelError("its data do not match its type and shape", where=where) from None
        return array

    def _is_known(self, data_type: int) -> bool:
        types = self._onnx.TensorProto
        return data_type in {
            types.FLOAT, types.FLOAT16, types.BFLOAT16, types.DOUBLE, types.BOOL, types.INT8,
            types.INT16, types.INT32, types.INT64, types.UINT8, types.UINT16, types.UINT32,
            types.UINT64,
        }  # fmt: skip

    def _with_data(self, tensor: Any, where: str) -> Any:
        """The tensor with the bytes of its file, as if they were stored in the model."""
        entries = {e.key: e.value for e in tensor.external_data}
        path = _beside(self._folder, entries.get("location", ""), where)
        self._files.add(path)
        size = self._bytes(tensor)
        self._external += size
        if self._external > _MAX_EXTERNAL:
            raise ModelError(f"weights in other files are more than {_MAX_EXTERNAL} bytes")
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        except ValueError:
            raise ModelError("the place of its data is malformed", where=where) from None
        if offset < 0 or length != size:
            raise ModelError(f"needs {size} bytes, there are only {length}", where=where)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except (OSError, OverflowError, ValueError) as error:
            raise ModelError(f"{path.name}: {error!s:.80}", where=where) from None
        if len(data) != size:
            raise ModelError(f"{path.name} is shorter than declared", where=where)
        full = self._onnx.TensorProto()
        full.dims.extend(tensor.dims)
        full.data_type, full.raw_data = tensor.data_type, data
        return full

    def _bytes(self, tensor: Any) -> int:
        dtype = self._onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return int(prod(tensor.dims) * dtype.itemsize)


def _beside(folder: Path, location: str, where: str) -> Path:
    """A file within the model's folder; neither names nor links lead out of it."""
    parts = location.replace("\\", "/").split("/")
    inside = location and not Path(location).is_absolute() and ".." not in parts
    inside = inside and "\0" not in location
    path = folder / location if inside else folder
    if not inside or ":" in parts[0] or folder.resolve() not in _resolved(path).parents:
        raise ModelError(
            f"its data are outside of the model's folder: {location!r:.80}", where=where,
            cure="put them next to the model",
        )  # fmt: skip
    check_file(path, error=ModelError, where=f"{where}, {location!r:.80}")
    if not _is_there(path):
        raise ModelError(
            f"the file with its data is missing: {location!r:.80}", where=where,
            cure="keep it next to the model, or export with external_data=False",
        )  # fmt: skip
    return path


def _is_there(path: Path) -> bool:
    """Whether there is a file; none has a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def _resolved(path: Path) -> Path:
    """Where links lead; circular links lead nowhere."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # the latter until Python 3.12
        return Path()


def decode_function(data: bytes) -> OnnxFunction:
    """A serialised FunctionProto, as the package onnx returns those of its operators."""
    onnx = _package()
    proto = onnx.FunctionProto()
    proto.ParseFromString(data)
    return _Decoder(onnx, Path()).function(proto)


def _halves(graph: Any) -> dict[str, str]:
    """The inputs, outputs and weights of a graph that are float16 or bfloat16."""
    ports = (*graph.input, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in ports}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return {name: HALVES[number] for name, number in types.items() if number in HALVES}


def widened(array: Array) -> Array:
    """float16 and bfloat16 as float32, which holds all their numbers; else as it is."""
    return array.astype(np.float32) if array.dtype.name in HALVES.values() else array


def _refuse_sparse() -> Array:
    raise UnsupportedError("sparse tensors are not supported", cure="store them as dense ones")


def _dim(dim: Any) -> int | str | None:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None if kind == "dim_param" else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def readers(nodes: Sequence[OnnxNode]) -> dict[str, list[OnnxNode]]:
    """The nodes that read each value."""
    found: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        for value in dict.fromkeys(node.inputs):
            found.setdefault(value, []).append(node)
    return found
