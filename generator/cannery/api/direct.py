"""The shortest way into generated code, for arrays that are what it reads, to the last detail.

A call takes about as long as ctypes needs; all else, errors included, is the business of `Net`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from cannery.api.arrays import Array, pointer
from cannery.api.interface import Argument, Interface

#: Gives the outputs, or None where the inputs or `out` are not exactly what the code has.
DirectCall = Callable[[tuple[Any, ...], Any], Any]


def make_direct(
    function: Any, net: Interface, workspace: Callable[[], ctypes.c_void_p]
) -> DirectCall:
    """The direct call of `<name>_run_in`."""
    if net.max_length or not net.outputs:
        return _never
    if len(net.inputs) == len(net.outputs) == 1 and not net.inputs[0].strides:
        return _make_single(function, net.inputs[0], net.outputs[0], workspace)
    return _make_any(function, net, workspace)


def _never(arrays: tuple[Any, ...], out: Any) -> Any:
    return None


def _make_single(
    function: Any, input_: Argument, output: Argument, workspace: Callable[[], ctypes.c_void_p]
) -> DirectCall:
    """Of a network with one input and one output, as most are."""
    dims, dtype, out_dims, out_dtype = input_.dims, input_.dtype, output.dims, output.dtype
    bytes_, out_bytes = _bytes(input_), _bytes(output)
    empty, ndarray, at = np.empty, np.ndarray, pointer

    def call(arrays: tuple[Any, ...], out: Any) -> Any:
        if len(arrays) != 1:
            return None
        (x,) = arrays
        if type(x) is not ndarray or x.shape != dims or x.dtype is not dtype:
            return None
        if not x.flags.c_contiguous:
            return None
        if out is None:
            out = empty(out_dims, out_dtype)
        elif not _fits(out, output) or _overlap(x, bytes_, out, out_bytes):
            return None
        function(workspace(), at(x), at(out))
        return out

    return call


def _make_any(
    function: Any, net: Interface, workspace: Callable[[], ctypes.c_void_p]
) -> DirectCall:
    inputs = [(i.dims, i.dtype, tuple(map(ctypes.c_int32, i.strides))) for i in net.inputs]
    outputs = [(o.dims, o.dtype) for o in net.outputs]
    count, several = len(inputs), len(outputs) > 1
    empty, ndarray, at = np.empty, np.ndarray, pointer

    def call(arrays: tuple[Any, ...], out: Any) -> Any:
        if len(arrays) != count or out is not None:
            return None
        arguments: list[Any] = [workspace()]
        for x, (dims, dtype, strides) in zip(arrays, inputs, strict=True):
            if type(x) is not ndarray or x.shape != dims or x.dtype is not dtype:
                return None
            if not x.flags.c_contiguous:
                return None
            arguments.append(at(x))
            arguments += strides
        results = tuple([empty(dims, dtype) for dims, dtype in outputs])
        arguments += [at(y) for y in results]
        function(*arguments)
        return results if several else results[0]

    return call


def _bytes(argument: Argument) -> int:
    return int(np.prod(argument.dims, dtype=np.int64)) * argument.dtype.itemsize


def _fits(out: Any, output: Argument) -> bool:
    """Whether an array can be written as it is."""
    if type(out) is not np.ndarray or out.shape != output.dims or out.dtype is not output.dtype:
        return False
    flags = out.flags
    return bool(flags.c_contiguous and flags.writeable)


def _overlap(x: Array, x_bytes: int, y: Array, y_bytes: int) -> bool:
    """Whether two dense arrays share memory."""
    first, second = pointer(x).value or 0, pointer(y).value or 0
    return first < second + y_bytes and second < first + x_bytes
