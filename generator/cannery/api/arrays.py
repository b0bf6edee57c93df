"""Arrays of any library as memory that generated code reads and writes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cannery.api.interface import Argument
from cannery.errors import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: An array that goes in or comes out.
    Array = NDArray[np.generic]
else:
    Array = np.ndarray

#: Where numpy keeps the address of an array's first element: after the header of every object.
#: numpy's C interface promises that.
_ADDRESS_AT = object.__basicsize__


def _quick_pointer(array: Array) -> ctypes.c_void_p:
    """The address as stored in the array, in a fifth of the time that `array.ctypes` takes."""
    return ctypes.c_void_p.from_address(id(array) + _ADDRESS_AT)


def _plain_pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _find_pointer() -> Callable[[Array], ctypes.c_void_p]:
    """The quick way, if it finds the right address: nothing is assumed about the Python
    implementation.
    """
    if sys.implementation.name != "cpython":
        return _plain_pointer
    whole = np.arange(7, dtype=np.uint8)
    probes = (whole, whole[3:], np.zeros((2, 3), np.float32), np.empty(0))
    right = all(_quick_pointer(a).value == a.ctypes.data for a in probes)
    return _quick_pointer if right else _plain_pointer


#: The address of an array's first element, as a value that ctypes passes on. It is valid as long
#: as the array is.
pointer = _find_pointer()


def to_array(given: Any, argument: Argument) -> Array:
    """The contents of an input, without a copy if its library allows that; raises OptionError.

    It takes numpy arrays, anything with numpy's array protocol or a buffer (torch, jax,
    array.array), DLPack, and lists of numbers.
    """
    try:
        if hasattr(given, "detach"):  # of torch: a value that has a gradient
            given = given.detach()
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            return np.from_dlpack(given)
        array = np.asarray(given)
        if array.dtype.kind in "OUSmM":
            raise TypeError("it holds no numbers")
        return array
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise OptionError(
            f"{type(given).__name__} is not an array: {error}", where=f"input {argument.source!r}",
            cure="give a numpy array, or one in the processor's memory",
        ) from None  # fmt: skip


def as_read(array: Array, argument: Argument) -> Array:
    """A dense array with the elements that the code reads; floats may have any width.

    Raises OptionError if types do not match.
    """
    dtype = argument.dtype
    if array.dtype != dtype and not (dtype.kind == "f" and array.dtype.kind == "f"):
        raise OptionError(
            f"element type {array.dtype}; {dtype} is needed", where=f"input {argument.source!r}",
            cure=f"convert it: array.astype(numpy.{dtype})",
        )  # fmt: skip
    return np.ascontiguousarray(array, dtype)


def to_result(given: Any, argument: Argument, shape: tuple[int, ...]) -> Array:
    """The memory of an array for an output; OptionError if it does not fit."""
    array = _shared(given)
    fits = (
        array is not None and array.dtype == argument.dtype and array.shape == shape
        and array.flags.c_contiguous and array.flags.writeable
    )  # fmt: skip
    if array is None or not fits:
        raise OptionError(
            f"out= is {_describe(given, array)}", where=f"output {argument.source!r}",
            cure=f"give a writable, dense array of {argument.dtype} and the shape {shape}",
        )  # fmt: skip
    return array


def _shared(given: Any) -> Array | None:
    """An array in the same memory; None if there is none, because a list would be copied."""
    if isinstance(given, np.ndarray):
        return given
    try:
        if hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        return np.asarray(memoryview(given))
    except (TypeError, ValueError, RuntimeError, BufferError):
        return None


def _describe(given: Any, array: Array | None) -> str:
    if array is None:
        return f"{type(given).__name__}, whose memory is read-only"
    dense = "" if array.flags.c_contiguous else ", with gaps"
    written = "" if array.flags.writeable else ", read-only"
    return f"{array.dtype} of shape {array.shape}{dense}{written}"


def refuse_overlap(inputs: list[Array], outputs: list[Array]) -> None:
    """Raise OptionError if an output overlaps an input or another output."""
    for k, output in enumerate(outputs):
        for other in (*inputs, *outputs[:k]):
            if np.may_share_memory(output, other):
                raise OptionError(
                    "the memory of an input, or of another output, would be overwritten",
                    where="out=", cure="give another array",
                )  # fmt: skip
