"""The shapes and element types that an ONNX file declares for its values, beside what is computed.

Open dimensions are of a size that the file's exporter may not have had when it wrote the shapes, so
what depends on them may differ. Names of dimensions, and what is not declared, fit everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cannery.errors import CanneryError, ModelError
from cannery.frontends.onnx_model import HALVES, OnnxInput
from cannery.frontends.onnx_ops.values import Constant, Value

#: Floats of any width, which are computed as float32, by the names of onnx.proto.
_FLOATS = ("float", "double", *HALVES.values())

#: What is no declaration: of TensorProto.DataType, the first one, and what Cannery does not know.
_NO_TYPES = ("undefined", "unknown")


@dataclass(frozen=True)
class Parting:
    """A value that is not what the file declares: which node computes it, and its shape."""

    where: str
    declared: OnnxInput
    shape: tuple[int, ...]
    dtype: str

    @property
    def error(self) -> ModelError:
        """What to tell the user."""
        return ModelError(
            f"computes {self.declared.name!r} as {_text(self.dtype, self.shape)}, but the file "
            f"declares {_text(self.declared.dtype, self.declared.dims)}",
            where=self.where,
            cure="export the model again, or correct what it declares (value_info, outputs)",
        )

    def is_fixed(self, other: tuple[int, ...]) -> bool:
        """Whether it is the same if open dimensions have other sizes; `other`: its shape then."""
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
    """Whether a dimension is another one; 0 is how some exporters write an open one."""
    return isinstance(declared, int) and declared not in (0, size)


def parting(where: str, declared: OnnxInput, value: Value) -> Parting | None:
    """How a value parts from what is declared, if it does.

    A scalar may be declared for anything: exporters write that where they know nothing.
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
    """Raise the error of the first value that parts for another reason than open dimensions.

    `other_shapes` returns the shapes of values where these have other sizes.
    """
    if not partings:
        return
    try:
        others = other_shapes()
    except CanneryError:  # not of any size: what is declared was of one that is not known
        return
    for name, found in partings.items():
        if name in others and found.is_fixed(others[name]):
            raise found.error
