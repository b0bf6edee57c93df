"""The registry of TensorFlow Lite's operators, and the tools of their functions.

Values keep the order of axes that they have in the file: channels are last in both worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.noise import Noise
from cannery.frontends.onnx.unfinished import Unfinished
from cannery.frontends.tflite.model import Operator, Tensor
from cannery.frontends.tflite.refused import why_not_read
from cannery.frontends.tflite.variables import Variables
from cannery.ir.graph import Array, GraphBuilder
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.elementwise import Clip, Relu, Tanh
from cannery.ops.movement.op import Reshape
from cannery.ops.random.op import Draw

#: Numbers of the activations that operators have, by the schema, and what they are.
ACTIVATIONS: Mapping[int, tuple[Elementwise, ...]] = {
    0: (), 1: (Relu(),), 2: (Clip(-1.0, 1.0),), 3: (Clip(0.0, 6.0),), 4: (Tanh(),),
}  # fmt: skip


_Draws = type[Draw]

#: Most nodes of a graph whose loops are unrolled.
MOST_NODES = 20_000

#: The beginning of values that are not tensors, but names of variables.
HANDLE = "variable "

#: The beginning of values that are not tensors, but names of pairs of them: complex numbers.
PAIR = "complex "


@dataclass(frozen=True)
class Shared:
    """What all operators share: the graph being built, its variables, how a graph of the file
    that runs once is run (None within such a graph), how others are called, where random numbers
    come from, the option MAX_TRIPS and the loops that it ends, the real and imaginary parts of
    complex values, and the values in which rows are found.
    """

    builder: GraphBuilder
    variables: Variables
    run_once: Callable[[int], None] | None
    call: Callable[[int, Sequence[str]], list[str]]
    noise: Noise
    max_trips: int | None = None
    unfinished: Unfinished = field(default_factory=Unfinished)
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)
    finders: list[str] = field(default_factory=list)


class Scope:
    """One operator of a file: its options, inputs and outputs, and how to make nodes."""

    def __init__(
        self, shared: Shared, operator: Operator, tensors: Sequence[Tensor],
        inputs: Sequence[str], name: str,
    ) -> None:  # fmt: skip
        self._shared = shared
        self._builder = shared.builder
        self._operator = operator
        self._tensors = tensors
        self._inputs = inputs
        self._read: set[str] = set()
        self.kind = operator.kind
        self.name = name

    # Options

    def _option(self, name: str) -> object:
        self._read.add(name)
        if self._operator.unread:
            raise UnsupportedError(self._operator.unread)
        return self._operator.options.get(name)

    def integer(self, name: str, default: int = 0) -> int:
        """An option that is a whole number."""
        value = self._option(name)
        return int(value) if isinstance(value, int | np.integer) else default

    def flag(self, name: str) -> bool:
        """An option that is true or false."""
        return bool(self._option(name))

    def number(self, name: str, default: float = 0.0) -> float:
        """An option that is a float; ModelError unless it is finite."""
        value = self._option(name)
        found = float(value) if isinstance(value, float | int | np.floating) else default
        if not np.isfinite(found):
            raise ModelError(f"{name} is {found}")
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """An option that is a list of whole numbers; empty if it is absent."""
        value = self._option(name)
        return value if isinstance(value, tuple) else ()

    def numbers(self, name: str) -> tuple[float, ...]:
        """An option that is a list of numbers; ModelError unless all are finite."""
        found = tuple(map(float, self.integers(name)))
        if not np.isfinite(found).all():
            raise ModelError(f"{name} is {found}")
        return found

    def text(self, name: str) -> str:
        """An option that is a text."""
        value = self._option(name)
        return value if isinstance(value, str) else ""

    def ignore(self, *names: str) -> None:
        """Options that do not matter."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """Raises UnsupportedError for an option that is set and that nothing looked at."""
        for name, value in self._operator.options.items():
            if name not in self._read and value:
                raise UnsupportedError(f"its option {name} ({value!r:.40}) is not supported")

    # Inputs and outputs

    @property
    def count(self) -> int:
        """How many inputs there are, absent ones included."""
        return len(self._inputs)

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self._inputs) and bool(self._inputs[index])

    def input(self, index: int) -> str:
        """An input, as a value of the graph; ModelError if it is absent."""
        if not self.has(index):
            raise ModelError(f"its input {index} is absent")
        return self._inputs[index]

    def inputs(self) -> list[str]:
        """All inputs; ModelError if one is absent."""
        return [self.input(k) for k in range(self.count)]

    def tensor(self, index: int) -> Tensor:
        """What the file says of an input."""
        if not self.has(index):
            raise ModelError(f"its input {index} is absent")
        return self._tensors[self._operator.inputs[index]]

    @property
    def outputs(self) -> list[Tensor]:
        """What the file says of the outputs; ModelError if one is absent."""
        if min(self._operator.outputs, default=0) < 0:
            raise ModelError("an output is absent")
        return [self._tensors[k] for k in self._operator.outputs]

    @property
    def output(self) -> Tensor:
        """What the file says of the first output; ModelError if there is none."""
        return self.output_at(0)

    def output_at(self, index: int) -> Tensor:
        """What the file says of an output; ModelError if it is not there."""
        if index >= len(self.outputs):
            raise ModelError("it has no outputs" if not index else f"it has no output {index}")
        return self.outputs[index]

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self._builder.types[value].shape

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self._builder.types[value]

    def rank(self, value: str) -> int:
        """The number of its axes."""
        return len(self.shape(value))

    def dtype(self, value: str) -> DType:
        """Its element type."""
        return self._builder.types[value].dtype

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front; ModelError for one that is not there."""
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} of {rank}")
        return axis % rank

    def array(self, value: str) -> Array | None:
        """The elements of a constant, else None."""
        return self._builder.constants.get(value)

    def known(self, index: int, what: str) -> Array:
        """The elements of an input that has to be a constant."""
        found = self.array(self.input(index))
        if found is None:
            cure = "convert the network with it as a constant"
            raise UnsupportedError(f"{what} is computed while the network runs", cure=cure)
        return found

    def known_integers(self, index: int, what: str) -> tuple[int, ...]:
        """The elements of an input that has to be constant whole numbers, in one list."""
        found = self.known(index, what)
        if found.dtype.kind not in "iu":
            raise ModelError(f"{what} has the type {found.dtype.name}")
        if found.size > 4096:
            raise ModelError(f"{what} has {found.size} elements")
        return tuple(map(int, found.reshape(-1)))

    # Nodes

    def node(self, op: Op, inputs: Sequence[str], label: str = "") -> str:
        """Append a node named like this operator, or `<name>/<label>`; returns its output.

        What is computed from constants is a constant.
        """
        name = self._builder.unique(f"{self.name}/{label}" if label else self.name)
        constants = self._builder.constants
        if all(i in constants for i in inputs if i):
            return self._builder.evaluated(op, inputs, name=name)[0]
        return self._builder.node(op, inputs, name=name)

    def nodes(self, op: Op, inputs: Sequence[str], label: str = "") -> tuple[str, ...]:
        """The same for an operator with several outputs; absent inputs are the empty string."""
        name = f"{self.name}/{label}" if label else self.name
        return self._builder.nodes(op, inputs, name=self._builder.unique(name))

    def constant(self, label: str, array: Array) -> str:
        """A constant of this operator."""
        return self._builder.constant(f"{self.name}/{label}", np.ascontiguousarray(array))

    def scalar(self, label: str, value: float) -> str:
        """A constant float32 without axes."""
        return self.constant(label, np.asarray(value, np.float32).reshape(()))

    def reshaped(self, value: str, shape: Sequence[int], label: str = "") -> str:
        """The same elements in another shape; the value itself if it has that shape."""
        if self.shape(value) == tuple(shape):
            return value
        return self.node(Reshape(tuple(shape)), [value], label)

    def fused(self, value: str, name: str = "FusedActivationFunction") -> str:
        """The value after the activation that is an option of this operator."""
        return self.activated(value, self.integer(name))

    def activated(self, value: str, number: int) -> str:
        """The value after an activation, by its number in the schema."""
        if number not in ACTIVATIONS:
            raise UnsupportedError(f"its activation {number} is not supported")
        for op in ACTIVATIONS[number]:
            value = self.node(op, [value], "activation")
        return value

    # Random numbers, complex ones, rows

    @property
    def noise(self) -> str:
        """The option NOISE; raises UnsupportedError without it."""
        return self._shared.noise.mode

    def drawn(self, kind: _Draws, shape: Sequence[int]) -> str:
        """A value of random numbers."""
        return self._shared.noise.drawn(kind, shape, self.name)

    def pair(self, real: str, imaginary: str) -> str:
        """A complex value of two parts."""
        return make_pair(self._shared, real, imaginary)

    def parts(self, index: int) -> tuple[str, str]:
        """The parts of an input; ModelError if it is not complex."""
        found = self._shared.pairs.get(self.input(index))
        if found is None:
            raise ModelError("its input is not complex")
        return found

    def finds_rows(self, found: str) -> None:
        """How many rows of a value count is known only while the network runs."""
        self._shared.finders.append(found)

    # Control flow

    @property
    def max_trips(self) -> int | None:
        """The option MAX_TRIPS."""
        return self._shared.max_trips

    @property
    def unfinished(self) -> Unfinished:
        """Loops that the option ends, and the conditions around this operator."""
        return self._shared.unfinished

    def kept(self) -> dict[str, str]:
        """What each variable holds now."""
        return self._shared.variables.now()

    def is_special(self, value: str) -> bool:
        """Whether a value is not a tensor, but a variable or a complex number."""
        return value.startswith(HANDLE) or value in self._shared.pairs

    # Variables

    @property
    def is_inner(self) -> bool:
        """Whether this operator is in a graph that runs once."""
        return self._shared.run_once is None

    def handle(self, container: str, name: str) -> str:
        """The value that stands for a variable."""
        return f"{HANDLE}{container}/{name}"

    def run_once(self, index: int) -> None:
        """Run another graph of the file, which initialises variables."""
        assert self._shared.run_once is not None
        self._shared.run_once(index)

    def call(self, index: int, values: Sequence[str]) -> list[str]:
        """The outputs of another graph of the file for these inputs."""
        if self._builder.size > MOST_NODES:
            raise UnsupportedError(f"without its loops the network has over {MOST_NODES} nodes")
        return self._shared.call(index, values)

    def read(self, handle: str) -> str:
        """What a variable holds now."""
        if self.is_inner:
            raise UnsupportedError("it reads a variable before the first run")
        type_ = type_of(self.output)
        return self._shared.variables.read(handle, _named(handle), type_)

    def assign(self, handle: str, value: str) -> None:
        """A variable holds this value from here on."""
        if not self.is_inner:
            self._shared.variables.assign(handle, _named(handle), value)
            return
        array = self.array(value)
        if array is None:
            raise UnsupportedError("it assigns what is not known before the first run")
        self._shared.variables.begin(handle, array)

    def keep(self, index: int, value: str) -> None:
        """An input that is a variable holds this value from here on."""
        tensor = self.tensor(index)
        self._shared.variables.assign(f"{HANDLE}{tensor.index}", tensor.name, value)


def _named(handle: str) -> str:
    """The name of a variable, for the interface."""
    if not handle.startswith(HANDLE):
        raise ModelError("its input is not a variable")
    return handle.removeprefix(HANDLE).strip("/") or "variable"


def make_pair(shared: Shared, real: str, imaginary: str) -> str:
    """A complex value of two parts."""
    name = f"{PAIR}{len(shared.pairs)}"
    shared.pairs[name] = real, imaginary
    return name


#: Numpy's types by the schema's, as far as tensors may have them.
DTYPES = {
    "FLOAT32": DType.FLOAT32, "FLOAT16": DType.FLOAT32, "UINT8": DType.UINT8, "INT8": DType.INT8,
    "INT16": DType.INT16, "INT32": DType.INT32, "INT64": DType.INT64, "BOOL": DType.BOOL,
    "UINT16": DType.UINT16, "UINT32": DType.UINT32, "UINT64": DType.UINT64,
}  # fmt: skip


def type_of(tensor: Tensor) -> TensorType:
    """The type that the file declares; raises UnsupportedError for other elements."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise UnsupportedError(f"{tensor.name!r} is {tensor.dtype}, which is not supported")
    return TensorType(tensor.shape, dtype)


#: From an operator to the values of its outputs.
Build = Callable[[Scope], "str | Sequence[str]"]


@dataclass(frozen=True)
class _Form:
    """How to build an operator of floats, and of integers that stand for other numbers.

    `moves`: it does not look at elements, so that the first form serves all.
    """

    plain: Build | None = None
    integers: Build | None = None
    moves: bool = False


_FORMS: dict[str, _Form] = {}


def operator(*kinds: str, moves: bool = False) -> Callable[[Build], Build]:
    """Register a function for operators; `moves`: it is right for quantised tensors too, if those
    that it reads and writes have the same scales.
    """

    def register(build: Build) -> Build:
        for kind in kinds:
            form = _FORMS.get(kind, _Form())
            if form.plain is not None:
                raise TypeError(f"operator {kind} is registered twice")
            _FORMS[kind] = _Form(build, form.integers, moves)
        return build

    return register


def quantised(*kinds: str) -> Callable[[Build], Build]:
    """Register a function for operators on quantised tensors."""

    def register(build: Build) -> Build:
        for kind in kinds:
            form = _FORMS.get(kind, _Form())
            if form.integers is not None:
                raise TypeError(f"operator {kind} is registered twice")
            _FORMS[kind] = _Form(form.plain, build, form.moves)
        return build

    return register


@cache
def _discover() -> None:
    package = import_module("cannery.frontends.tflite.operators")
    for found in iter_modules(package.__path__, "cannery.frontends.tflite.operators."):
        import_module(found.name)


def moves_alone(kind: str) -> bool:
    """Whether an operator only moves elements, whatever these are."""
    _discover()
    return _FORMS.get(kind, _Form()).moves


def operator_names() -> tuple[str, ...]:
    """The operators that can be imported, sorted."""
    _discover()
    return tuple(sorted(_FORMS))


def kinds_of_tensors(kind: str) -> tuple[str, ...]:
    """On which tensors an operator is read."""
    _discover()
    form = _FORMS.get(kind, _Form())
    plain = ("plain tensors",) if form.plain is not None else ()
    if form.integers is not None:
        return (*plain, "quantised tensors")
    return (*plain, "quantised tensors of one scale") if form.moves else plain


def find_operator(node: Operator, tensors: Sequence[Tensor]) -> Build:
    """The function for an operator on these tensors; raises UnsupportedError if there is none."""
    _discover()
    form = _FORMS.get(node.kind)
    if form is None:
        reason = why_not_read(node.kind)
        raise UnsupportedError(f"this operator is not supported{reason and ': '}{reason}")
    read = [tensors[k] for k in node.inputs if k >= 0]
    written = [tensors[k] for k in node.outputs if k >= 0]
    if not any(t.is_quantised for t in (*read, *written)):
        if form.plain is None:
            raise UnsupportedError("it is supported on quantised tensors alone")
        return form.plain
    if form.integers is not None:
        return form.integers
    if form.moves and form.plain is not None:
        _require_same_scales(read, written)
        return form.plain
    raise UnsupportedError("on quantised tensors it is not supported")


def _require_same_scales(read: Sequence[Tensor], written: Sequence[Tensor]) -> None:
    """Raises UnsupportedError unless elements mean the same after they were moved."""
    known = [t for t in (*read, *written) if t.is_quantised]
    first = known[0].scales
    same = all(t.dtype == known[0].dtype and first and first.same(t.scales) for t in known)
    if not same or (first is not None and not first.single):
        raise UnsupportedError("it moves integers between tensors with different scales")
