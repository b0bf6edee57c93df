"""The registry of ONNX operators, and the tools of their functions.

ONNX puts channels first, Cannery last. Instead of transposing around each operator, the importer
tracks the order of each value's axes: a Computed value is the tensor of the ONNX model with its
axes permuted. A Transpose in the model moves nothing; it only changes that order. Operators take
their inputs in an order that suits them, and a node is made only where orders disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import numpy as np

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.custom import OWN
from cannery.frontends.onnx.fused import MICROSOFT, UNFUSED
from cannery.frontends.onnx.model import STANDARD, OnnxNode, Reference, Subgraph, Unread
from cannery.frontends.onnx.operators.regroup import regroup, regroup_for
from cannery.frontends.onnx.operators.state import ImportState
from cannery.frontends.onnx.operators.values import (
    Computed,
    Constant,
    Perm,
    Value,
    channels_last,
    identity,
    supported,
)
from cannery.ir.graph import Array
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.random.op import Draw
from cannery.ops.reduce.op import Reduction
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.integers import takes_integers
from cannery.ops.trees.op import TreeEnsemble
from cannery.plugins import OPS, plugins

#: How to get models without the operators of a domain.
_WITHOUT = {
    MICROSOFT: UNFUSED,
    "org.pytorch.aten": "export it with dynamo=True, and a newer version of PyTorch",
}

#: Most nodes of a graph: real networks have some thousand.
MAX_NODES = 20_000

#: Most elements of constants that are folded while a model is read; passes do the rest.
_SMALL = 4096

#: Operators that have a form for constants stored as integers, or that move them.
_STORED = ("Conv", "MatMul", "Gemm", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity")

#: Operators that read only the shape of their inputs.
_SHAPES = ("Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike")

#: Operators that take elements of any type.
_ANY_TYPE = (Cast, Concat, Expand, Identity, Pad, Reshape, Slice, Transpose)


class Scope:
    """One node of an ONNX model: its attributes and inputs, and how to make nodes of the graph."""

    def __init__(self, state: ImportState, node: OnnxNode, inputs: Sequence[Value | None]) -> None:
        self._state = state
        self._builder = state.builder
        self._node = node
        stored = node.kind in _STORED
        self._inputs = tuple(inputs if stored else map(state.floats, inputs))
        self._read: set[str] = set()
        self.name = node.label
        self.kind = node.kind
        self.opset = node.version or state.opsets(node.domain)

    # Attributes

    def raw(self, name: str) -> object:
        """An attribute as it is, None if it is absent."""
        self._read.add(name)
        value = self._node.attributes.get(name)
        if isinstance(value, Unread | Reference | Subgraph):
            raise UnsupportedError(f"attribute {name!r} is a graph or type, which is not supported")
        return value

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self._node.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; ModelError if it is absent without a default, or not an integer."""
        value = self._given(name, default)
        if not isinstance(value, int):
            raise ModelError(f"attribute {name!r} is not an integer")
        return value

    def number(self, name: str, default: float | None = None, *, nan: bool = False) -> float:
        """A float attribute, which may be infinite, and NaN if that is meaningful (`nan`)."""
        value = self._given(name, default)
        if not isinstance(value, int | float) or (value != value and not nan):
            raise ModelError(f"attribute {name!r} is not a number")
        return float(value)

    def text(self, name: str, default: str, choices: Sequence[str] = ()) -> str:
        """A text; UnsupportedError unless it is one of `choices`, if there are any."""
        value = self._given(name, default)
        if not isinstance(value, str):
            raise ModelError(f"attribute {name!r} is not a text")
        if choices and value not in choices:
            listed = ", ".join(choices)
            raise UnsupportedError(f"{name} {value!r:.40} is not one of those supported: {listed}")
        return value

    def integers(
        self, name: str, default: tuple[int, ...] | None = None, count: int | None = None
    ) -> tuple[int, ...]:
        """A list of integers; ModelError if there are not `count`."""
        value = self._given(name, default)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise ModelError(f"attribute {name!r} is not a list of integers")
        if count is not None and len(value) != count:
            raise ModelError(f"attribute {name!r} has {len(value)} entries, expected {count}")
        return value

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of texts."""
        value = self._given(name, default)
        if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
            raise ModelError(f"attribute {name!r} is not a list of texts")
        return value

    def numbers(self, name: str, *, nan: bool = False) -> tuple[float, ...]:
        """A list of floats, empty if it is absent; NaN if that is meaningful (`nan`)."""
        value = self._given(name, ())
        numbers = isinstance(value, tuple) and all(
            isinstance(v, int | float) and (nan or v == v) for v in value
        )
        if not isinstance(value, tuple) or not numbers:
            raise ModelError(f"attribute {name!r} is not a list of numbers")
        return value

    def _given(self, name: str, default: object) -> object:
        value = self.raw(name)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"attribute {name!r} is missing")
        return value

    def ignore(self, *names: str) -> None:
        """Attributes that have no meaning here."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """UnsupportedError for attributes that nothing read."""
        for name in self._node.attributes:
            if name not in self._read:
                raise UnsupportedError(f"attribute {name!r} is not supported")

    # Inputs

    @property
    def count(self) -> int:
        """The number of inputs, including absent ones in between."""
        return len(self._inputs)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self._node.outputs)

    def optional(self, index: int) -> Value | None:
        """An input, None if it is absent."""
        value = self._inputs[index] if index < len(self._inputs) else None
        if self.kind in _SHAPES and isinstance(value, Computed) and value.name in self._state.rows:
            raise UnsupportedError(
                "is about the shape of rows of which only some count",
                cure="end the network before it with --outputs",
            )
        return value

    def input(self, index: int) -> Value:
        """A required input."""
        value = self.optional(index)
        if value is None:
            raise ModelError(f"input {index} is missing")
        return value

    def all_inputs(self) -> list[Value]:
        """All inputs of an operator with any number of them, at least one."""
        if not self._inputs:
            raise ModelError("has no inputs")
        return [self.input(k) for k in range(self.count)]

    def known(self, index: int, what: str) -> Array | None:
        """A constant input, None if it is absent; UnsupportedError if it is computed."""
        value = self.optional(index)
        if isinstance(value, Computed):
            raise UnsupportedError(
                f"{what} are computed at run time",
                cure="export the model with fixed shapes",
            )
        return None if value is None else value.array

    def known_integers(self, index: int, what: str) -> tuple[int, ...] | None:
        """A constant list of integers, None if it is absent."""
        array = self.known(index, what)
        if array is None:
            return None
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise ModelError(f"{what} are not a list of integers")
        return tuple(int(v) for v in array.reshape(-1))

    def known_integer(self, index: int, what: str) -> int | None:
        """A constant integer, None if it is absent; ModelError unless it is one number."""
        array = self.known(index, what)
        if array is None:
            return None
        if array.size != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ModelError(f"{what} are {array.dtype}{array.shape}, expected one number")
        return int(array.reshape(-1)[0])

    def known_floats(self, index: int, what: str, shape: tuple[int, ...]) -> Array | None:
        """A constant of floats, None if it is absent; ModelError unless it has `shape`."""
        array = self.known(index, what)
        if array is not None and (array.dtype.kind != "f" or array.shape != shape):
            raise ModelError(f"{what} are {array.dtype}{array.shape}, expected floats{shape}")
        return array

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front; ModelError if it is outside."""
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is outside of a tensor with {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Axes counted from the front, sorted; ModelError if one occurs twice."""
        found = sorted(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            raise ModelError(f"axes {tuple(axes)} name one twice")
        return tuple(found)

    # Values of the graph

    def place(self, value: Value, perm: Perm) -> str:
        """The value of the graph that holds a tensor with its axes permuted."""
        if isinstance(value, Constant):
            return self._constant(value, perm)
        if value.perm == perm:
            return value.name
        relative = tuple(value.perm.index(p) for p in perm)
        key = (value.name, relative)
        if key not in self._state.moved:
            self._state.moved[key] = self._move(value.name, relative)
        return self._state.moved[key]

    def _move(self, name: str, perm: Perm) -> str:
        """A Transpose, or a Reshape if only dimensions of 1 move."""
        shape = self._builder.types[name].shape
        moved = [p for p in perm if shape[p] != 1]
        op: Op = Transpose(perm)
        if moved == sorted(moved):
            op = Reshape(tuple(shape[p] for p in perm))
        moved_name = self._builder.unique(f"{name}/transposed")
        found = self._builder.node(op, [name], name=moved_name)
        self._state.follow_rows([name], [found])
        return found

    def _constant(self, value: Constant, perm: Perm) -> str:
        array = value.array
        key = (id(array), perm)
        if key not in self._state.constants:
            self._state.kept.append(array)
            moved = np.ascontiguousarray(array.transpose(perm)).reshape(
                tuple(array.shape[p] for p in perm)
            )
            supported(moved.dtype.name)
            hint = value.hint or f"{self.name}/constant"
            self._state.constants[key] = self._builder.constant(hint, moved)
        return self._state.constants[key]

    def plain(self, value: Value) -> str:
        """The value of the graph that holds a tensor in the ONNX model's order."""
        return self.place(value, identity(len(value.shape)))

    def as_is(self, value: Value) -> tuple[str, Perm]:
        """The value of the graph that holds a tensor, and its permutation of the axes."""
        if isinstance(value, Computed):
            return value.name, value.perm
        return self.plain(value), identity(len(value.shape))

    def last(self, value: Value) -> str:
        """The value of the graph that holds a tensor with its channels last."""
        return self.place(value, channels_last(len(value.shape)))

    def node(self, op: Op, inputs: Sequence[str], label: str = "") -> str:
        """Append a node named like this one, or `<name>/<label>`; returns its output."""
        return self.nodes(op, inputs, label)[0]

    def nodes(self, op: Op, inputs: Sequence[str], label: str = "") -> tuple[str, ...]:
        """The same for an operator with several outputs; absent inputs are the empty string."""
        self._check_types(op, inputs)
        if self._builder.size >= MAX_NODES:
            raise ModelError(f"the network has more than {MAX_NODES} nodes")
        name = f"{self.name}/{label}" if label else self.name
        try:
            outputs = self._appended(op, inputs, name)
            self._state.follow_rows(inputs, outputs)
            return outputs
        except CanneryError as error:
            if op.kind != self.kind:  # the node's parts have names that are not in the file
                error.what = error.what.removeprefix(f"{op.kind}: ")
                error.where = self._node.place
            raise

    def _appended(self, op: Op, inputs: Sequence[str], name: str) -> tuple[str, ...]:
        if isinstance(op, DequantizeLinear) and all(i in self._builder.constants for i in inputs):
            outputs = self._builder.nodes(op, inputs, name=self._builder.unique(name))
            self._state.dequantised[outputs[0]] = tuple(inputs)
            return outputs
        if self._is_small(inputs):
            return self._builder.evaluated(op, inputs, name=self._builder.unique(name))
        return self._builder.nodes(op, inputs, name=self._builder.unique(name))

    def _is_small(self, inputs: Sequence[str]) -> bool:
        """Whether inputs are constants small enough to compute the result at once."""
        names = [i for i in inputs if i]
        known = all(name in self._builder.constants for name in names)
        return known and sum(self._builder.types[n].elements for n in names) <= _SMALL

    def _check_types(self, op: Op, inputs: Sequence[str]) -> None:
        """UnsupportedError for element types that an operator does not accept."""
        if isinstance(op, (*_ANY_TYPE, ScalarOp, TreeEnsemble)):
            return
        for name in inputs:
            type_ = self._builder.types[name] if name else TensorType(())
            if not type_.elements and not isinstance(op, (Elementwise, Reduction)):
                raise UnsupportedError(f"{op.kind} of a tensor without elements is not supported")
            dtype = type_.dtype
            if dtype is not DType.FLOAT32 and not takes_integers(op, dtype):
                raise UnsupportedError(f"{op.kind} of {dtype.value} is not supported")

    @property
    def noise(self) -> str:
        """The option NOISE. Raises NoNoiseError without it."""
        return self._state.noise.mode

    def drawn(self, kind: type[Draw], shape: Sequence[int]) -> str:
        """A value of random numbers of a kind."""
        return self._state.noise.drawn(kind, shape, self.name)

    def mark_rows(self, name: str) -> None:
        """Only some rows of a value count."""
        self._state.rows.add(name)

    def constant(self, label: str, array: Array) -> str:
        """A constant `<name>/<label>` of the graph."""
        return self._builder.constant(f"{self.name}/{label}", array)

    def scalar(self, label: str, number: float) -> str:
        """A float32 scalar `<name>/<label>`."""
        return self.constant(label, np.asarray(number, np.float32))

    def type(self, name: str) -> TensorType:
        """The type of a value of the graph."""
        return self._builder.types[name]

    def result(self, name: str, perm: Perm | None = None) -> Computed:
        """The tensor that a value of the graph holds; by default in the ONNX model's order."""
        type_ = self._builder.types[name]
        perm = identity(type_.rank) if perm is None else perm
        shape = [0] * type_.rank
        for d, p in zip(type_.shape, perm, strict=True):
            shape[p] = d
        return Computed(name, perm, tuple(shape), type_.dtype)

    def reshaped(self, value: Value, shape: Sequence[int], label: str = "") -> Value:
        """A tensor with its elements, in the order of the ONNX model, in another shape."""
        shape = tuple(shape)
        if isinstance(value, Constant):
            return Constant(value.array.reshape(shape), value.hint)
        whole = self._state.wholes.get(value, value)
        for known in (value, whole):
            if known.shape == shape:
                return known
        found = self._regrouped(whole, shape, label) or self._regrouped(value, shape, label)
        if found is None:
            found = self.result(self.node(Reshape(shape), [self.plain(value)], label))
        self._state.wholes[found] = whole
        return found

    def _regrouped(self, value: Computed, shape: tuple[int, ...], label: str) -> Computed | None:
        """A tensor in another shape, if nothing moves, or once for readers of channels first."""
        if 0 in shape:
            return None
        way = regroup(value.shape, shape, value.perm)
        if way is None and not label and self._state.meets_channels_first(self.name):
            way = regroup_for(value.shape, shape, channels_last(len(shape)))
        if way is None:
            return None
        y = self.node(Reshape(way.shape), [self.place(value, way.source)], label)
        return self.result(y, way.perm)

    def whole(self, value: Value) -> Value:
        """The tensor before it was merely reshaped."""
        return self._state.wholes.get(value, value) if isinstance(value, Computed) else value

    def name_classes(self, names: tuple[str, ...]) -> None:
        """Record what the classes are called whose indices a label is."""
        self._state.class_names.add(names)

    def dtype(self, value: Value) -> str:
        """The element type of a tensor, as numpy names it."""
        return value.array.dtype.name if isinstance(value, Constant) else value.dtype.value


#: Maps one node to its outputs; missing ones are unsupported.
Build = Callable[[Scope], Value | Sequence[Value]]

_OPERATORS: dict[tuple[str, str], Build] = {}


def operator(*kinds: str, domain: str = "") -> Callable[[Build], Build]:
    """Register a function for operators of a domain."""

    def register(build: Build) -> Build:
        for kind in kinds:
            if (domain, kind) in _OPERATORS:
                raise TypeError(f"operator {kind} is registered twice")
            _OPERATORS[domain, kind] = build
        return build

    return register


@cache
def _discover() -> None:
    package = import_module("cannery.frontends.onnx.operators")
    for found in iter_modules(package.__path__, "cannery.frontends.onnx.operators."):
        import_module(found.name)
    plugins(OPS)


def operators() -> Mapping[tuple[str, str], Build]:
    """The functions of all operators by (domain, kind)."""
    _discover()
    return _OPERATORS


def operator_names() -> tuple[str, ...]:
    """The names of all operators of the standard domain that can be imported, sorted."""
    return tuple(sorted(kind for domain, kind in operators() if not domain))


def find_operator(node: OnnxNode) -> Build:
    """The function of a node's operator. Raises UnsupportedError if there is none."""
    domain = "" if node.domain in STANDARD else node.domain
    build = operators().get((domain, node.kind))
    if build is not None:
        return build
    if domain:
        known = ", ".join(sorted(k for d, k in operators() if d == domain))
        others = f" other than {known}" if known else ""
        without = _WITHOUT.get(domain, "export the network without them")
        raise UnsupportedError(
            f"operators of the domain {domain!r}{others} are not supported",
            cure=f"{without}, or end it before them with --outputs, {OWN.format(node.kind)}",
        )
    raise UnsupportedError(
        "this operator is not supported",
        cure=f"`cannery list` names those that are supported, {OWN.format(node.kind)}",
    )
