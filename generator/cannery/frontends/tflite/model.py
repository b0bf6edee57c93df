"""A TensorFlow Lite file as plain dataclasses. Files are untrusted: nothing in them is believed.

The package tflite has the published schema as classes over flatbuffers, which do not check where
offsets lead. Python's slices and `struct` do: whatever they raise is a damaged file. Counts are
limited before anything is built from them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import isfunction, signature
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.metadata import make_metadata
from cannery.frontends.tflite.custom_options import custom_options
from cannery.frontends.tflite.sparse import dense, read_sparsity
from cannery.ir.graph import Array
from cannery.ir.tensor import MAX_ELEMENTS, MAX_RANK

#: Most operators and tensors of all graphs of a file: real networks have some thousand.
_MAX_OPERATORS, _MAX_TENSORS = 20_000, 200_000

#: What reading outside of a file, or bytes that mean nothing, raises.
_DAMAGE = (
    struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError,
    AssertionError,
)  # fmt: skip

_CURE = "download or convert the file again"

#: Element types that Cannery reads, and numpy's names of their elements in the file.
_STORED = {
    "FLOAT32": "float32", "FLOAT16": "float16", "INT32": "int32", "UINT8": "uint8",
    "INT64": "int64", "BOOL": "bool", "INT16": "int16", "INT8": "int8", "UINT16": "uint16",
    "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip

_T = TypeVar("_T")
_Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Scales:
    """What integers mean: scale * (q - zero), one of both for all, or one per index of `axis`."""

    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    axis: int

    @property
    def single(self) -> bool:
        """Whether all elements have the same scale."""
        return self.scales.size == 1

    def same(self, other: Scales | None) -> bool:
        """Whether both mean the same by each integer."""
        return (
            other is not None
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zeros, other.zeros)
            and (self.single or self.axis == other.axis)
        )


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file. `dims` has None for open dimensions, `shape` the file's size for them.

    `dtype` is the name of the type in the schema, such as INT8. `data` makes the array of a
    constant; None if the tensor is computed.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dims: tuple[int | None, ...]
    dtype: str
    data: Callable[[], Array] | None
    scales: Scales | None
    is_variable: bool

    @property
    def is_quantised(self) -> bool:
        """Whether it holds integers that stand for other numbers."""
        return self.dtype in ("INT8", "UINT8", "INT16", "INT4") and self.scales is not None


@dataclass(frozen=True)
class Operator:
    """An operator: `kind` as in the schema, such as CONV_2D; numbers of tensors, -1 if absent.

    `options` are all fields of its table, by the names that the package's classes have.
    """

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, object]
    unread: str = ""

    @property
    def sort(self) -> str:
        """The operator for messages."""
        return f"{self.kind}, operator {self.index}"


@dataclass(frozen=True)
class Subgraph:
    """A graph of a file: tensors, operators in the order in which they run, inputs, outputs."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TfliteModel:
    """A file. `inputs` and `outputs` are the names in the signature of the first graph, by the
    number of the tensor.
    """

    graphs: tuple[Subgraph, ...]
    inputs: Mapping[int, str]
    outputs: Mapping[int, str]
    metadata: Mapping[str, str]


def _package() -> Any:
    try:
        import tflite
    except ImportError:
        raise CanneryError(
            "reading TensorFlow Lite needs the Python package tflite",
            cure="pip install 'cannery[tflite]'",
        ) from None
    return tflite


def read_tflite(path: Path) -> TfliteModel:
    """The model in a file.

    Raises CanneryError if the package tflite is missing, ModelError for a damaged file.
    """
    package = _package()
    data = path.read_bytes()
    return _sound(lambda: _Decoder(package, data).model())


def _sound(read: Callable[[], _T]) -> _T:
    """What `read` returns; ModelError if the file is damaged."""
    try:
        return read()
    except _DAMAGE as error:
        outside = isinstance(error, struct.error | IndexError)
        what = "it is cut off, or leads outside of itself" if outside else "a value has no meaning"
        raise ModelError(f"damaged TensorFlow Lite file: {what}", cure=_CURE) from error


class _Decoder:
    """Turns tables into dataclasses."""

    def __init__(self, package: Any, data: bytes) -> None:
        self._package = package
        self._data = data
        self._operators, self._tensors = _MAX_OPERATORS, _MAX_TENSORS
        #: Entries of vectors that may still be read: each has bytes of its own in a sound file.
        self._entries = len(data)
        self._types = _names(package.TensorType)
        self._codes = _names(package.BuiltinOperator)
        self._options = _names(package.BuiltinOptions)
        self._options2 = _names(package.BuiltinOptions2)
        self._model = package.Model.GetRootAs(data, 0)

    def model(self) -> TfliteModel:
        """The whole file."""
        graphs = tuple(
            self._graph(self._model.Subgraphs(k))
            for k in range(self._count(self._model.SubgraphsLength(), "graphs"))
        )
        if not graphs:
            raise ModelError("the file holds no network", cure=_CURE)
        inputs, outputs = self._signature()
        described = [
            ("format", "TensorFlow Lite"), ("tflite.version", self._model.Version()),
            ("tflite.description", _text(self._model.Description())), ("name", graphs[0].name),
        ]  # fmt: skip
        return TfliteModel(graphs, inputs, outputs, make_metadata(described))

    def _count(self, count: int, what: str) -> int:
        """The length of a vector; ModelError for more entries than the file can hold."""
        self._entries -= count
        if self._entries < 0:
            what = f"damaged TensorFlow Lite file: more {what} than the file can hold"
            raise ModelError(what, cure=_CURE)
        return count

    def _vector(self, table: Any, field: str) -> tuple[int, ...] | tuple[float, ...]:
        """A vector of numbers."""
        self._count(getattr(table, f"{field}Length")(), field)
        array = getattr(table, f"{field}AsNumpy")()
        if not isinstance(array, np.ndarray):
            return ()
        return tuple(map(float, array)) if array.dtype.kind == "f" else tuple(map(int, array))

    def _integers(self, table: Any, field: str) -> tuple[int, ...]:
        """A vector of integers."""
        return tuple(map(int, self._vector(table, field)))

    def _signature(self) -> tuple[dict[int, str], dict[int, str]]:
        """Names of the inputs and outputs of the first graph; none if nothing names them."""
        count = self._count(self._model.SignatureDefsLength(), "signatures")
        found = [self._model.SignatureDefs(k) for k in range(count)]
        own = next((s for s in found if s.SubgraphIndex() == 0), None)
        if own is None:
            return {}, {}
        sides = []
        for side in ("Inputs", "Outputs"):
            size = self._count(getattr(own, f"{side}Length")(), "names")
            maps = [getattr(own, side)(k) for k in range(size)]
            sides.append({m.TensorIndex(): _text(m.Name()) for m in maps})
        return sides[0], sides[1]

    def _graph(self, table: Any) -> Subgraph:
        tensors = self._count(table.TensorsLength(), "tensors")
        operators = self._count(table.OperatorsLength(), "operators")
        self._tensors -= tensors
        self._operators -= operators
        if min(self._tensors, self._operators) < 0:
            raise UnsupportedError(
                f"more than {_MAX_OPERATORS} operators or {_MAX_TENSORS} tensors",
                cure="split the network",
            )
        return Subgraph(
            _text(table.Name()),
            tuple(self._tensor(k, table.Tensors(k)) for k in range(tensors)),
            tuple(self._operator(k, table.Operators(k), tensors) for k in range(operators)),
            self._numbers(table, "Inputs", tensors),
            self._numbers(table, "Outputs", tensors),
        )

    def _numbers(self, table: Any, field: str, count: int, least: int = 0) -> tuple[int, ...]:
        """Numbers of tensors; ModelError for one that is not there."""
        found = self._integers(table, field)
        for number in found:
            if not least <= number < count:
                what = f"damaged TensorFlow Lite file: tensor {number} of {count}"
                raise ModelError(what, cure=_CURE)
        return found

    def _tensor(self, index: int, table: Any) -> Tensor:
        name = _text(table.Name()) or f"tensor{index}"
        shape = self._integers(table, "Shape")
        open_dims = self._integers(table, "ShapeSignature") or shape
        if any(d < 0 for d in shape) or len(open_dims) != len(shape) or len(shape) > MAX_RANK:
            raise ModelError(f"shape {shape} is malformed", where=f"tensor {name!r}", cure=_CURE)
        if prod(max(d, 1) for d in shape) > MAX_ELEMENTS:
            raise ModelError(f"shape {shape} is too large", where=f"tensor {name!r}")
        dims = tuple(None if o < 0 else d for d, o in zip(shape, open_dims, strict=True))
        dtype = self._types.get(table.Type(), f"type {table.Type()}")
        number = table.Buffer()
        stored = self._buffer(number) if number else np.empty(0, np.uint8)
        data: Callable[[], Array] | None = None
        if table.Sparsity() is not None:
            data = self._sparse(name, dtype, shape, stored, table.Sparsity())
        elif len(stored):
            data = self._constant(name, dtype, shape, stored)
        scales = self._scales(table.Quantization(), name)
        return Tensor(index, name, shape, dims, dtype, data, scales, bool(table.IsVariable()))

    def _buffer(self, number: int) -> _Bytes:
        """The bytes of a constant: in the table, or after it in large files."""
        if number >= self._model.BuffersLength():
            raise ModelError(f"damaged TensorFlow Lite file: no buffer {number}", cure=_CURE)
        buffer = self._model.Buffers(number)
        if buffer.Offset() > 1:
            end = buffer.Offset() + buffer.Size()
            if end > len(self._data):
                what = "damaged TensorFlow Lite file: it ends within a constant"
                raise ModelError(what, cure=_CURE)
            return np.frombuffer(self._data, np.uint8)[buffer.Offset() : end]
        array = buffer.DataAsNumpy()
        return np.asarray(array if isinstance(array, np.ndarray) else (), np.uint8)

    def _constant(
        self, name: str, dtype: str, shape: tuple[int, ...], stored: _Bytes
    ) -> Callable[[], Array]:
        def decode() -> Array:
            where = f"tensor {name!r}"
            if dtype == "INT4":
                return _halves(stored, shape, where)
            array = _elements(stored, dtype, where)
            if array.size != prod(shape):
                what = f"has {array.size} elements, but its shape is {shape}"
                raise ModelError(what, where=where, cure=_CURE)
            return array.reshape(shape)

        return lambda: _sound(decode)

    def _sparse(
        self, name: str, dtype: str, shape: tuple[int, ...], stored: _Bytes, table: Any
    ) -> Callable[[], Array]:
        sparsity = read_sparsity(self._package, table, self._count)

        def decode() -> Array:
            where = f"tensor {name!r}"
            try:
                return dense(sparsity, shape, _elements(stored, dtype, where))
            except ModelError as error:
                error.where, error.cure = where, _CURE
                raise

        return lambda: _sound(decode)

    def _scales(self, table: Any, name: str) -> Scales | None:
        """Scales, if there are any; some files have only ranges."""
        if table is None or not table.ScaleLength():
            return None
        count = self._count(table.ScaleLength(), "scales")
        scales = np.asarray(table.ScaleAsNumpy(), np.float32)
        zeros = np.asarray(self._integers(table, "ZeroPoint"), np.int64)
        zeros = np.zeros(count, np.int64) if zeros.size == 0 else zeros
        if zeros.size not in (1, count):
            what = f"{count} scales with {zeros.size} zero points"
            raise ModelError(what, where=f"tensor {name!r}", cure=_CURE)
        return Scales(scales, np.resize(zeros, count), int(table.QuantizedDimension()))

    def _operator(self, index: int, table: Any, tensors: int) -> Operator:
        number = table.OpcodeIndex()
        if number >= self._model.OperatorCodesLength():
            raise ModelError(f"damaged TensorFlow Lite file: no operator code {number}", cure=_CURE)
        code = self._model.OperatorCodes(number)
        value = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        kind = self._codes.get(value, f"operator code {value}")
        if kind == "CUSTOM":
            kind = f"CUSTOM {_text(code.CustomCode())}"
        options, unread = self._custom(table) if " " in kind else self._fields(table)
        return Operator(
            index, kind, self._numbers(table, "Inputs", tensors, -1),
            self._numbers(table, "Outputs", tensors, -1), options, unread,
        )  # fmt: skip

    def _custom(self, table: Any) -> tuple[dict[str, object], str]:
        """Numbers of a custom operator's options, and the reason why there are none."""
        if not table.CustomOptionsLength():
            return {}, ""
        data = bytes(table.CustomOptionsAsNumpy())
        self._count(len(data), "bytes of options")
        return custom_options(data)

    def _fields(self, table: Any) -> tuple[dict[str, object], str]:
        """All fields of the table of options, and the reason why there are none."""
        names, kind, union = self._options, table.BuiltinOptionsType(), table.BuiltinOptions()
        if table.BuiltinOptions2Type():
            names, kind, union = (
                self._options2, table.BuiltinOptions2Type(), table.BuiltinOptions2()
            )  # fmt: skip
        name = names.get(kind, "")
        if union is None or name in ("", "NONE"):
            return {}, "" if not kind or name else f"its options have the unknown type {kind}"
        table_class: Any = getattr(self._package, name)
        options = table_class()
        options.Init(union.Bytes, union.Pos)
        fields: dict[str, object] = {}
        for field in _scalars(table_class):
            value = getattr(options, field)()
            fields[field] = _text(value) if isinstance(value, bytes) else value
        for field in _vectors(table_class):
            fields[field] = self._vector(options, field)
        return fields, ""


def _names(enum: Any) -> dict[int, str]:
    """The names of an enumeration's numbers."""
    return {v: k for k, v in vars(enum).items() if isinstance(v, int) and not k.startswith("_")}


@cache
def _scalars(table: Any) -> tuple[str, ...]:
    """The fields of a table's class that are numbers or texts."""
    return tuple(
        name
        for name, value in vars(table).items()
        if isfunction(value)
        and len(signature(value).parameters) == 1
        and not name.endswith(("AsNumpy", "IsNone", "Length"))
    )


@cache
def _vectors(table: Any) -> tuple[str, ...]:
    """The fields of a table's class that are vectors of numbers."""
    return tuple(n.removesuffix("AsNumpy") for n in vars(table) if n.endswith("AsNumpy"))


def _text(value: bytes | None) -> str:
    """A name, whatever its bytes are."""
    return (value or b"").decode("utf-8", "replace")


def _elements(stored: _Bytes, dtype: str, where: str) -> Array:
    """Bytes as numbers in a row; float16 becomes float32."""
    if dtype not in _STORED:
        what = f"its elements are {dtype}, which is not supported"
        raise UnsupportedError(what, where=where)
    array = np.frombuffer(stored.data, np.dtype(_STORED[dtype]).newbyteorder("<"))
    return array.astype(np.float32 if dtype == "FLOAT16" else _STORED[dtype])


def _halves(stored: _Bytes, shape: tuple[int, ...], where: str) -> Array:
    """Numbers of four bits, the low half of a byte first, as int8."""
    count = prod(shape)
    if stored.size != -(-count // 2):
        what = f"has {stored.size} bytes, but its shape is {shape}"
        raise ModelError(what, where=where, cure=_CURE)
    both = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    return np.asarray((both ^ 8) - 8, np.int8).reshape(shape)
