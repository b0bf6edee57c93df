"""Operators computed one element after the other: their C is next to their reference.

They are rare in networks, or work on integers. One schedule, `scalar.nest`, is legal for all of
them, everywhere.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import broadcast_shapes, operands, require_type
from cannery.ops.scalar.body import Body
from cannery.ops.shared.axes import Loop, broadcast_strides, dense_strides, merge_loops


@dataclass(frozen=True)
class ScalarOp(Op):
    """An operator with one output and a plain C form; all operands are dense."""

    #: Whether the statements use scalar_math.h.
    scalar_math: ClassVar[bool] = False

    @abstractmethod
    def write(self, c: Body) -> None:
        """Append the statements that compute the output."""

    def helpers(self, symbol: str, c: Body) -> str:
        """C before the function, which calls it."""
        return ""

    def scratch_bytes(self, inputs: tuple[TensorType | None, ...]) -> int:
        """Bytes of scratch memory that the statements need, which is at `c.scratch`."""
        return 0


@dataclass(frozen=True)
class Pointwise(ScalarOp):
    """Each element from the elements at the same place; inputs broadcast as in numpy."""

    #: How many inputs there are.
    arity: ClassVar[int] = 2

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The common shape; raises ModelError if shapes or dtypes do not fit together."""
        types, _ = operands(self, inputs, self.arity)
        dtype = self.result(*(t.dtype for t in types))
        return (TensorType(broadcast_shapes(self, *(t.shape for t in types)), dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """See `value`."""
        arrays, _ = operands(self, inputs, self.arity)
        with np.errstate(all="ignore"):
            return (np.asarray(self.value(*arrays)),)

    @abstractmethod
    def result(self, *dtypes: DType) -> DType:
        """The element type of the output; raises ModelError for types that are not accepted."""

    @abstractmethod
    def value(self, *arrays: Numeric) -> Numeric:
        """The operator on arrays that broadcast."""

    @abstractmethod
    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """A C expression of the output's type; `args` are identifiers."""

    def write(self, c: Body) -> None:
        """One loop nest; see `write_pointwise`."""
        dtypes = tuple(c.input(k).type.dtype for k in range(self.arity))
        write_pointwise(c, lambda args: self.expression(dtypes, args))

    def same(self, *dtypes: DType) -> DType:
        """The dtype that all of them have; raises ModelError if they differ."""
        require_type(len(set(dtypes)) == 1, self, "inputs have different dtypes")
        return dtypes[0]

    def same_integers(self, *dtypes: DType) -> DType:
        """The integer dtype that all of them have; raises ModelError otherwise."""
        dtype = self.same(*dtypes)
        sound = dtype not in (DType.FLOAT32, DType.BOOL)
        require_type(sound, self, f"works on integers, not on {dtype.value}")
        return dtype


@dataclass(frozen=True)
class SignOp(Pointwise):
    """An operator that numpy has as a `function` and C as a `sign`."""

    sign: ClassVar[str]
    function: ClassVar[np.ufunc]

    def value(self, *arrays: Numeric) -> Numeric:
        """Numpy's function."""
        return np.asarray(self.function(*arrays))


def write_pointwise(c: Body, expression: Callable[[tuple[str, ...]], str]) -> None:
    """A loop nest over the output in which every input is broadcast; contiguous axes are joined."""
    shape = c.output.shape
    strides = [dense_strides(shape)]
    tensors = [t for t in c.inputs if t is not None]
    for tensor in tensors:
        own = dense_strides(tensor.shape)
        strides.append(broadcast_strides(tensor.shape, own, len(shape)))
    loops = merge_loops([Loop(d, tuple(s[axis] for s in strides)) for axis, d in enumerate(shape)])
    with c.nest("i", [loop.extent for loop in loops]) as indices:
        at = [
            " + ".join(
                i if loop.strides[k] == 1 else f"{i} * {loop.strides[k]}"
                for i, loop in zip(indices, loops, strict=True)
                if i != "0" and loop.strides[k]
            )
            for k in range(len(strides))
        ]
        names = tuple("abcdefgh"[k] for k in range(len(tensors)))
        for name, tensor, index in zip(names, tensors, at[1:], strict=True):
            c(f"const {tensor.c} {name} = {tensor.name}[{index or 0}];")
        c(f"{c.output.name}[{at[0] or 0}] = {expression(names)};")
