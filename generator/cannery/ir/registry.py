"""Operators: what they compute. Schedules (how) are next to them, see `cannery.schedule`.

An operator is a frozen dataclass whose fields are its attributes. `infer` and `reference` take one
argument per input, in order, and None for an absent optional input.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import TensorType
from cannery.plugins import OPS, plugins

#: The arrays that references compute with: float64 for float tensors, else the tensor's dtype.
RefArray = NDArray[np.generic]


#: Marks a field of an operator that is left out of text forms where it has its default.
RARE: Mapping[str, object] = MappingProxyType({"rare": True})


@dataclass(frozen=True)
class Op(ABC):
    """One operator of the graph: attributes (the fields), types and meaning."""

    #: Whether `reference` also takes float32 and widens it piece by piece, as constants may be
    #: large.
    widens: ClassVar[bool] = False
    #: Whether its attributes, not its inputs, say which element type results.
    converts: ClassVar[bool] = False
    #: Whether it rounds what it multiplies to bfloat16.
    of_bfloat: ClassVar[bool] = False

    @abstractmethod
    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Output types. Raises ModelError if the inputs do not fit the attributes."""

    @abstractmethod
    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Outputs, computed plainly in float64: the judge of every schedule."""

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """Multiply-accumulates of the direct form; 0 where that makes no sense."""
        return 0

    @property
    def kind(self) -> str:
        """The ONNX name of the operator."""
        return type(self).__name__


@dataclass(frozen=True)
class Elementwise(Op):
    """An operator that computes each output element from the same element of its inputs.

    Inputs broadcast as in numpy. `c` renders it over the vector vocabulary, so it can join any
    epilogue. `needs_math`: the expression uses vec_math.h.
    """

    needs_math: ClassVar[bool] = False
    #: Names of the approximate forms that MAX_ERROR may allow, see `c`.
    approximations: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def c(self, vec: str, *args: str, form: str = "") -> str:
        """A C expression over vectors of type `vec` ("f32x8"); `form` picks an approximation."""


T = TypeVar("T", bound=type[Op])
_OPS: dict[str, type[Op]] = {}


def register(cls: T) -> T:
    """Class decorator that makes an operator known by its name."""
    if cls.__name__ in _OPS:
        raise TypeError(f"operator {cls.__name__} is registered twice")
    _OPS[cls.__name__] = cls
    return cls


@cache
def _discover() -> None:
    package = importlib.import_module("cannery.ops")
    for found in pkgutil.walk_packages(package.__path__, "cannery.ops."):
        importlib.import_module(found.name)
    plugins(OPS)


def all_ops() -> Mapping[str, type[Op]]:
    """Every operator by name, sorted."""
    _discover()
    return dict(sorted(_OPS.items()))
