"""Tensors of an ONNX model while it is imported: known ones, and those that the network computes.

ONNX puts channels first, Cannery last: a computed value is the tensor with its axes permuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from cannery.errors import ModelError, UnsupportedError
from cannery.ir.graph import Array
from cannery.ir.tensor import MAX_ELEMENTS, DType

Perm = tuple[int, ...]

#: Most elements of a constant that a few bytes of a model define.
MAX_CONSTANT = 2**24


def identity(rank: int) -> Perm:
    """The axes in the ONNX model's order."""
    return tuple(range(rank))


def channels_last(rank: int) -> Perm:
    """Axis 1 after all others."""
    return identity(rank) if rank < 2 else (0, *range(2, rank), 1)


@dataclass(frozen=True)
class Constant:
    """A known tensor; `hint` is its name in the model, if it has one."""

    array: Array
    hint: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the ONNX model."""
        return self.array.shape


@dataclass(frozen=True)
class Computed:
    """A tensor of the model as a value of the graph: axis i of the value is axis perm[i]."""

    name: str
    perm: Perm
    shape: tuple[int, ...]
    dtype: DType


Value: TypeAlias = Constant | Computed


def supported(name: str) -> DType:
    """The element type of this name in numpy; UnsupportedError if networks cannot have it.

    float64 is computed as float32.
    """
    try:
        return DType.FLOAT32 if name == "float64" else DType(name)
    except ValueError:
        raise unsupported_elements(name) from None


def unsupported_elements(name: str) -> UnsupportedError:
    """The error for a tensor with such elements."""
    return UnsupportedError(
        f"elements of {name} are not supported", cure="save the network in float32"
    )


def check_size(shape: Sequence[int], most: int = MAX_ELEMENTS) -> None:
    """ModelError if a tensor of this shape is impossible, or has more than `most` elements."""
    if any(d < 0 for d in shape) or prod(shape) > most:
        raise ModelError(f"shape {tuple(shape)} is malformed or too large")


def filled(shape: Sequence[int], value: object, dtype: DTypeLike, hint: str) -> Constant:
    """A constant of equal elements. ModelError if it is too large."""
    check_size(shape, MAX_CONSTANT)
    return Constant(np.full(tuple(shape), value, dtype), hint)
