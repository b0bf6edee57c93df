"""Bases of the elementwise operators."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from cannery.ctext.words import Words
from cannery.ir.numeric import Numeric, f32
from cannery.ir.registry import Elementwise, RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import broadcast_shapes, operands, require, require_float


@dataclass(frozen=True)
class _Pointwise(Elementwise):
    #: Whether integers are accepted too; the result has their dtype. `c` is only for floats.
    integers: ClassVar[bool] = False

    def check_dtypes(self, *types: TensorType) -> None:
        """Raises ModelError for an element type that the operator does not accept."""
        if not self.integers:
            require_float(self, *types)
            return
        first = types[0].dtype
        require(all(t.dtype is first for t in types), self, "inputs have different dtypes")
        require(first is not DType.BOOL, self, "does not work on bool")

    def require_finite(self, **attributes: float) -> None:
        """Raises ModelError for an attribute that is infinite in float32 or not a number."""
        for name, value in attributes.items():
            require(isfinite(f32(value)), self, f"{name} {value} must be finite")

    def check_form(self, form: str) -> None:
        """Raises ValueError for a form that the operator does not have."""
        if form and form not in self.approximations:
            raise ValueError(f"{self.kind} has no form {form!r}")


@dataclass(frozen=True)
class Unary(_Pointwise):
    """x -> y of the same type."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises ModelError for a wrong dtype or bad attributes."""
        (x,), _ = operands(self, inputs, 1)
        self.check_dtypes(x)
        self.check_attributes()
        return (x,)

    def check_attributes(self) -> None:
        """Raises ModelError for meaningless attributes."""

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """See `value`."""
        (x,), _ = operands(self, inputs, 1)
        with np.errstate(all="ignore"):
            return (self.value(x),)

    def c(self, vec: str, *args: str, form: str = "") -> str:
        """See `expression`."""
        (x,) = args
        self.check_form(form)
        return self.expression(Words(vec), x, form)

    @abstractmethod
    def value(self, x: Numeric) -> Numeric:
        """The operator on an array, in float64."""

    @abstractmethod
    def expression(self, w: Words, x: str, form: str) -> str:
        """The operator over the vocabulary; `x` is an identifier."""


@dataclass(frozen=True)
class Binary(_Pointwise):
    """a, b -> y; shapes broadcast as in numpy."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError if shapes or dtypes do not fit together."""
        (a, b), _ = operands(self, inputs, 2)
        self.check_dtypes(a, b)
        return (TensorType(broadcast_shapes(self, a.shape, b.shape), a.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """See `value`."""
        (a, b), _ = operands(self, inputs, 2)
        with np.errstate(all="ignore"):
            return (self.value(a, b),)

    def c(self, vec: str, *args: str, form: str = "") -> str:
        """See `expression`."""
        a, b = args
        self.check_form(form)
        return self.expression(Words(vec), a, b)

    @abstractmethod
    def value(self, a: Numeric, b: Numeric) -> Numeric:
        """The operator on arrays, in float64."""

    @abstractmethod
    def expression(self, w: Words, a: str, b: str) -> str:
        """The operator over the vocabulary; `a` and `b` are identifiers."""
