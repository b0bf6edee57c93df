"""Operators of the user's own: a C function and its numpy reference, both in files of the user's.

The shape and the element type of the result are those of the reference's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from cannery.ctext.environment import c_comment
from cannery.ctext.literals import c_float, c_integer
from cannery.errors import ModelError
from cannery.ir.registry import RefArray
from cannery.ir.tensor import MAX_RANK, MODEL_DTYPES, DType, TensorType
from cannery.ops.checks import require
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, Tensor
from cannery.target.user_code import marked

#: A number or a text, or several numbers.
Attribute = int | float | str | tuple[int | float, ...]


@dataclass(frozen=True)
class Source:
    """The contents of a user's files: C, and Python with the function `reference`."""

    file: str
    code: str
    reference: str

    def __repr__(self) -> str:
        digest = sha256(f"{self.code}\0{self.reference}".encode()).hexdigest()
        return f"{self.file}:{digest[:12]}"

    def run(self, arrays: tuple[RefArray, ...], attributes: dict[str, Attribute]) -> RefArray:
        """What `reference` returns. Raises ModelError if it fails."""
        function = _function(self)
        try:
            with np.errstate(all="ignore"):
                return np.asarray(function([np.array(a) for a in arrays], dict(attributes)))
        except Exception as error:
            raise ModelError(
                f"its reference fails: {type(error).__name__}: {error}",
                cure=f"correct the Python file of CUSTOM {self.file}",
            ) from error


@cache
def _function(source: Source) -> Any:
    """The function `reference` of the user's file, which this runs."""
    place = f"the Python file of CUSTOM {source.file}"
    names: dict[str, Any] = {"__name__": "custom"}
    try:
        exec(compile(source.reference, place, "exec"), names)
    except Exception as error:
        raise ModelError(
            f"cannot be run: {type(error).__name__}: {error}", where=place, cure="correct it"
        ) from error
    if not callable(names.get("reference")):
        raise ModelError(
            "has no function reference", where=place,
            cure="define reference(inputs, attributes), which returns an array",
        )  # fmt: skip
    return names["reference"]


@dataclass(frozen=True)
class Custom(ScalarOp):
    """`function` with its attributes, computed as `source` says. Not in the registry: each of them
    belongs to one network.
    """

    function: str
    attributes: tuple[tuple[str, Attribute], ...]
    source: Source

    @property
    def kind(self) -> str:
        """The name in the model."""
        return self.function

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """What the reference makes of zeros; raises ModelError if that is no tensor."""
        types = [t for t in inputs if t is not None]
        require(len(types) == len(inputs), self, "an input is absent")
        return (_result_type(self, tuple(types)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """The user's own; floats are float64."""
        y = self.source.run(tuple(a for a in inputs if a is not None), dict(self.attributes))
        return (y.astype(np.float64) if y.dtype.kind == "f" else y,)

    def helpers(self, symbol: str, c: Body) -> str:
        """The user's C file, with macros for all that is known."""
        tensors = {f"X{k}": t for k, t in enumerate(c.inputs) if t is not None}
        defined = {"CUSTOM": f"{symbol}_custom", "CUSTOM_NAME(name)": f"{symbol}_##name"}
        for prefix, tensor in {**tensors, "Y": c.output}.items():
            defined |= dict(_sizes(prefix, tensor))
        for key, value in self.attributes:
            defined |= dict(_attribute(key, value))
        begin = "".join(f"#define {name} {value}\n" for name, value in defined.items())
        end = "".join(f"#undef {name.partition('(')[0]}\n" for name in defined)
        return f"{begin}{marked(c_comment(self.source.file), self.source.code)}{end}\n"

    def write(self, c: Body) -> None:
        """The call."""
        names = [t.name for t in (*c.inputs, c.output) if t is not None]
        c(f"{c.symbol}_custom({', '.join(names)});")


@cache
def _result_type(op: Custom, types: tuple[TensorType, ...]) -> TensorType:
    zeros = tuple(
        np.zeros(t.shape, np.float64 if t.dtype is DType.FLOAT32 else t.dtype.numpy) for t in types
    )
    y = op.source.run(zeros, dict(op.attributes))
    name = "float32" if y.dtype.kind == "f" else str(y.dtype)
    known = [dtype.value for dtype in MODEL_DTYPES]
    require(name in known, op, f"its reference returns {name}, expected one of {', '.join(known)}")
    require(y.ndim <= MAX_RANK, op, f"its reference returns {y.ndim} axes, at most {MAX_RANK}")
    return TensorType(y.shape, DType(name))


def _sizes(prefix: str, tensor: Tensor) -> Iterator[tuple[str, str]]:
    """Macros for the shape of a tensor."""
    yield f"{prefix}_SIZE", str(tensor.type.elements)
    yield f"{prefix}_RANK", str(tensor.type.rank)
    for axis, size in enumerate(tensor.shape):
        yield f"{prefix}_DIM{axis}", str(size)


def _attribute(key: str, value: Attribute) -> Iterator[tuple[str, str]]:
    """Macros for an attribute: a literal, or a list in braces and how long it is."""
    if isinstance(value, tuple):
        yield f"ATTR_{key}", f"{{{', '.join(map(_literal, value))}}}"
        yield f"ATTR_{key}_SIZE", str(len(value))
    else:
        yield f"ATTR_{key}", json.dumps(value) if isinstance(value, str) else _literal(value)


def _literal(value: int | float) -> str:
    return c_float(value) if isinstance(value, float) else c_integer(int(value))
