"""The registry of operations, and the tools of their functions.

Element types follow Keras: floats and integers give floats, two kinds of integers the one that
holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.json_values import mapping, shown
from cannery.frontends.keras.arguments import Arguments, Operand, parse_value
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, Scope
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Cast, Reshape, Slice

#: Before the class names of operations, where layers have theirs.
PREFIX = "ops."

Function = Callable[["Operation"], "str | list[str]"]

_OPERATIONS: dict[str, tuple[Function, tuple[str, ...]]] = {}


class Operation:
    """One application of an operation: its arguments by name, and tools to make nodes."""

    def __init__(self, scope: Scope, class_name: str) -> None:
        self.scope = scope
        self.given: Arguments = scope.given.arguments
        self.class_name = class_name

    def node(self, op: Op, inputs: Sequence[str], label: str = "") -> str:
        """See Scope.node."""
        return self.scope.node(op, inputs, label)

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self.scope.shape(value)

    def dtype(self, value: str) -> DType:
        """The element type of a value."""
        return self.scope.type(value).dtype

    def tensor(self, key: str = "x") -> str:
        """An argument that is a tensor."""
        return self.given.tensor(key)

    def table(self, key: str = "x") -> str:
        """An argument that is a tensor or a constant."""
        found = self._value(key, self.given.raw(key), 0)
        if isinstance(found, str):
            return found
        return self.literal(
            key, found, DType.FLOAT32 if found.dtype.kind == "f" else DType(found.dtype.name)
        )

    def float_table(self, key: str) -> str:
        """An argument that is a tensor or a constant, as float32."""
        return self.scope.to_float(self.table(key))

    def float(self, key: str = "x") -> str:
        """An argument that is a tensor, as float32."""
        return self.scope.to_float(self.tensor(key))

    def tensors(self, key: str) -> list[str]:
        """An argument that is a list of tensors, of one element type."""
        found = self.given.raw(key)
        if isinstance(found, Operand):
            return [found.name]
        if not isinstance(found, tuple) or not found:
            raise ModelError(f"argument {key} is {shown(found)}, expected tensors")
        return self.alike([self._value(key, part, k) for k, part in enumerate(found)])

    def both(self, *keys: str) -> list[str]:
        """Arguments that are tensors or numbers, with one element type."""
        return self.alike([self._value(key, self.given.raw(key), 0) for key in keys])

    def _value(self, key: str, value: object, index: int) -> str | NDArray[np.generic]:
        if isinstance(value, Operand):
            return value.name
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, bool | int | float | tuple):
            try:
                return np.asarray(value)
            except ValueError:
                pass
        raise UnsupportedError(f"it is called with {key}={shown(value)}")

    def alike(self, values: Sequence[str | NDArray[np.generic]]) -> list[str]:
        """Values and constants as values of one element type."""
        types = [self.dtype(v).numpy for v in values if isinstance(v, str)]
        arrays = [v for v in values if not isinstance(v, str)]
        if any(array.dtype.kind == "f" for array in arrays) or np.dtype(np.float32) in types:
            wanted = DType.FLOAT32
        elif types and any(a.dtype.kind in "iu" for a in arrays) and set(types) == {np.dtype(bool)}:
            wanted = DType.INT32
        elif types:
            wanted = DType(str(_common(types)))
        else:
            raise UnsupportedError("it is called without a tensor")
        return [
            self.cast(v, wanted, k) if isinstance(v, str) else self.literal(f"value{k}", v, wanted)
            for k, v in enumerate(values)
        ]

    def cast(self, value: str, to: DType, index: int = 0) -> str:
        """`value` with another element type."""
        if self.dtype(value) is to:
            return value
        if to is DType.FLOAT32:
            return self.scope.to_float(value)
        return self.node(Cast(to), [value], f"cast{index}")

    def literal(self, label: str, value: object, dtype: DType = DType.FLOAT32) -> str:
        """A constant of this application."""
        array = np.asarray(value)
        if dtype is not DType.FLOAT32 and array.dtype.kind not in "iub":
            raise UnsupportedError(f"it combines {dtype.value} with {shown(array.tolist())}")
        return self.scope.literal(label, array.astype(dtype.numpy))

    def axes(self, value: str, key: str = "axis") -> tuple[int, ...]:
        """The axes of an argument, counted from the front; all of them if it is None."""
        rank = self.scope.rank(value)
        found = self.given.integers(key)
        if found is None:
            return tuple(range(rank))
        return tuple(sorted({self.counted(a, rank) for a in found}))

    def axis(self, value: str, key: str = "axis", default: int = -1) -> int:
        """The axis of an argument, counted from the front."""
        return self.counted(self.given.integer(key, default), self.scope.rank(value))

    def counted(self, axis: int, rank: int) -> int:
        """An axis counted from the front; ModelError if there is none such."""
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is outside of {rank} axes")
        return axis % rank

    def reshaped(self, value: str, shape: Sequence[int], label: str = "") -> str:
        """`value` with another shape."""
        if self.shape(value) == tuple(shape) and label:
            return value
        return self.node(Reshape(tuple(shape)), [value], label)

    def sliced(
        self, value: str, bounds: Mapping[int, tuple[int, int, int]], label: str = ""
    ) -> str:
        """Some of the elements along axes: (start, end, step) as Slice has them."""
        every = [bounds.get(k, (0, d, 1)) for k, d in enumerate(self.shape(value))]
        starts, ends, steps = zip(*every, strict=True)
        return self.node(Slice(starts, ends, steps), [value], label)


def _common(types: Sequence[np.dtype[np.generic]]) -> np.dtype[np.generic]:
    """The integer type that holds all of `types`."""
    found = types[0]
    for other in types[1:]:
        found = np.promote_types(found, other)
    if found.kind == "f":
        raise UnsupportedError("it combines uint64 with signed integers")
    return found


def operation(*names: str, call: str = "x") -> Callable[[Function], Function]:
    """Register a function for operations; `call` are the parameters of `keras.Operation.call`."""

    def register(function: Function) -> Function:
        for name in names:
            if name in _OPERATIONS:
                raise TypeError(f"operation {name} is registered twice")
            _OPERATIONS[name] = (function, tuple(call.split()))
        return function

    return register


@cache
def _discover() -> None:
    package = import_module("cannery.frontends.keras.operations")
    for found in iter_modules(package.__path__, "cannery.frontends.keras.operations."):
        import_module(found.name)


def operation_names() -> tuple[str, ...]:
    """The class names of all operations that can be imported, sorted."""
    _discover()
    return tuple(sorted(_OPERATIONS))


def operation_layer(name: str, class_name: str, entry: Mapping[str, object]) -> KerasLayer:
    """An operation of a functional model, as a layer. UnsupportedError if it is unknown."""
    _discover()
    known = _OPERATIONS.get(class_name)
    if known is None:
        raise UnsupportedError(
            "this function of keras.ops is not supported",
            cure="use a layer or other functions instead",
        )
    function, signature = known
    config = mapping(entry.get("config", {}), "config")
    settings = {k: parse_value(v, lambda _: None) for k, v in config.items() if k not in _UNUSED}

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        return function(Operation(scope, class_name))

    plan = LayerPlan(build, signature=signature, settings=settings)
    return KerasLayer(name, f"{PREFIX}{class_name}", True, plan)


#: What has no influence on what an operation computes.
_UNUSED = frozenset(["name", "sparse", "ragged", "flash_attention", "sorted"])
