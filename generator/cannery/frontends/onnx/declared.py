"""Compares the shapes and element types that an ONNX file declares with the computed ones.

Open dimensions have a size here that the exporter may not have used when it wrote the shapes, so
values that depend on them may differ. Named dimensions, and undeclared values, match everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cannery.errors import CanneryError, ModelError
from cannery.frontends.onnx.model import HALVES, OnnxInput
from cannery.frontends.onnx.operators.values import Constant, Value

#: Floats of any width, which are computed as float32, by the names of onnx.proto.
_FLOATS = ("float", "double", *HALVES.values())

#: Types that declare nothing: the first of TensorProto.DataType, those that Cannery does not know,
#: and texts, for which indices stand.
_NO_TYPES = ("undefined", "unknown", "string")


@dataclass(frozen=True)
class Parting:
    """A value that differs from the file's declaration: the node that computes it, and its
    shape.
    """

    where: str
    declared: OnnxInput
    shape: tuple[int, ...]
    dtype: str

    @property
    def error(self) -> ModelError:
        """The message for the user."""
        return ModelError(
            f"computes {self.declared.name!r} as {_text(self.dtype, self.shape)}, but the file "
            f"declares {_text(self.declared.dtype, self.declared.dims)}",
            where=self.where,
            cure="export the model again, or correct its declarations (value_info, outputs)",
        )

    def is_fixed(self, other: tuple[int, ...]) -> bool:
        """Whether it stays the same if open dimensions have other sizes; `other` is its shape
        then.
        """
        dims = self.declared.dims
        if dims is None or _kind(self.dtype) != _kind(self.declared.dtype):
            return True
        if not len(dims) == len(self.shape) == len(other):
            return len(other) == len(self.shape)
        each = zip(dims, self.shape, other, strict=True)
        return any(_differs(d, s) and s == o for d, s, o in each)


def _text(dtype: str, dims: tuple[int | str | None, ...] | None) -> str:
    shape = "" if dims is None else "x".join("?" if d is None else str(d) for d in dims)
    return f"{'float32' if dtype == 'float' else dtype}[{shape}]"


def _kind(dtype: str) -> str:
    return "float" if dtype in (*_FLOATS, "float32", "float64") else dtype


def _differs(declared: int | str | None, size: int) -> bool:
    """Whether a dimension differs; some exporters write an open one as 0."""
    return isinstance(declared, int) and declared not in (0, size)


def parting(where: str, declared: OnnxInput, value: Value) -> Parting | None:
    """How a value differs from its declaration, if it does.

    A scalar may be declared for anything: exporters write that when they know nothing.
    """
    dtype = value.array.dtype.name if isinstance(value, Constant) else value.dtype.value
    found = Parting(where, declared, value.shape, dtype)
    if declared.dtype not in _NO_TYPES and _kind(dtype) != _kind(declared.dtype):
        return found
    dims = declared.dims or value.shape
    if len(dims) != len(value.shape):
        return found
    return found if any(map(_differs, dims, value.shape)) else None


def require_declared(
    partings: Mapping[str, Parting], other_shapes: Callable[[], Mapping[str, tuple[int, ...]]]
) -> None:
    """Raise the error of the first value that differs for a reason other than open dimensions.

    `other_shapes` returns the shapes of values if open dimensions have other sizes.
    """
    if not partings:
        return
    try:
        others = other_shapes()
    except CanneryError:  # impossible with other sizes: the declared one is unknown
        return
    for name, found in partings.items():
        if name in others and found.is_fixed(others[name]):
            raise found.error
