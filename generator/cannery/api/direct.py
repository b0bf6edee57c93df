"""The shortest way into generated code, for arrays that match what it reads in every detail.

A call takes about as long as ctypes needs; everything else, including errors, is up to `Net`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cannery.api.arrays import pointer
from cannery.api.interface import Argument, Interface

#: Takes the inputs, `out`, and pointers that come before the inputs. Returns the outputs, or None
#: if inputs or `out` do not exactly match the code.
DirectCall = Callable[..., Any]

_Workspace = Callable[[], ctypes.c_void_p]


def make_direct(
    function: Any, inputs: Sequence[Argument], outputs: Sequence[Argument], workspace: _Workspace
) -> DirectCall:
    """The direct call of a generated function, such as `<name>_run_in`."""
    if len(inputs) == len(outputs) == 1 and not inputs[0].strides:
        return _make_single(function, inputs[0], outputs[0], workspace)
    return _make_any(function, inputs, outputs, workspace)


def no_direct(arrays: tuple[Any, ...], out: Any) -> Any:
    """The direct call of a network that has none."""
    return None


def _make_single(
    function: Any, input_: Argument, output: Argument, workspace: _Workspace
) -> DirectCall:
    """For a network with one input and one output, like most."""
    dims, dtype, out_dims, out_dtype = input_.dims, input_.dtype, output.dims, output.dtype
    short, size, out_size = _short(dims), _bytes(input_), _bytes(output)
    empty, ndarray, at = np.empty, np.ndarray, pointer

    def call(arrays: tuple[Any, ...], out: Any, *first: Any) -> Any:
        if len(arrays) != 1:
            return None
        (x,) = arrays
        if type(x) is not ndarray or x.dtype is not dtype or not x.flags.c_contiguous:
            return None
        if x.shape != dims and x.shape != short:
            return None
        source = at(x)
        if out is None:
            out = empty(out_dims, out_dtype)
            target = at(out)
        elif _fits(out, out_dims, out_dtype):
            target = at(out)
            if _overlap(source, size, target, out_size):
                return None
        else:
            return None
        function(workspace(), *first, source, target)
        return out

    return call


def make_direct_many(function: Any, net: Interface, workspace: _Workspace) -> DirectCall:
    """The direct call of `<name>_run_many`: any number of samples along the first axis."""
    inputs, outputs = net.inputs, net.outputs
    if net.batch != 1 or net.max_length or len(inputs) != 1 or len(outputs) != 1:
        return no_direct
    if inputs[0].strides:
        return no_direct
    rest, dtype, out_dtype = inputs[0].dims[1:], inputs[0].dtype, outputs[0].dtype
    out_rest, ndarray, at = _short(outputs[0].dims), np.ndarray, pointer

    def call(arrays: tuple[Any, ...], out: Any) -> Any:
        if len(arrays) != 1:
            return None
        (x,) = arrays
        if type(x) is not ndarray or x.dtype is not dtype or not x.flags.c_contiguous:
            return None
        if x.ndim != len(rest) + 1 or x.shape[1:] != rest:
            return None
        shape = (len(x), *out_rest)
        if out is None:
            out = np.empty(shape, out_dtype)
        elif not _fits(out, shape, out_dtype) or _overlap(at(x), x.nbytes, at(out), out.nbytes):
            return None
        function(workspace(), ctypes.c_int32(len(x)), at(x), at(out))
        return out

    return call


def _make_any(
    function: Any, inputs: Sequence[Argument], outputs: Sequence[Argument], workspace: _Workspace
) -> DirectCall:
    read = [
        (i.dims, _short(i.dims), i.dtype, tuple(map(ctypes.c_int32, i.strides))) for i in inputs
    ]
    written = [(o.dims, o.dtype) for o in outputs]
    count, single = len(read), len(written) == 1
    empty, ndarray, at = np.empty, np.ndarray, pointer

    def call(arrays: tuple[Any, ...], out: Any, *first: Any) -> Any:
        if len(arrays) != count or out is not None:
            return None
        arguments: list[Any] = [workspace(), *first]
        for x, (dims, short, dtype, strides) in zip(arrays, read, strict=True):
            if type(x) is not ndarray or x.dtype is not dtype or not x.flags.c_contiguous:
                return None
            if x.shape != dims and x.shape != short:
                return None
            arguments.append(at(x))
            arguments += strides
        results = tuple([empty(dims, dtype) for dims, dtype in written])
        arguments += [at(y) for y in results]
        function(*arguments)
        return results[0] if single else results

    return call


def _short(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The same shape without a batch of one, if there is one."""
    return dims[1:] if dims[:1] == (1,) else dims


def _bytes(argument: Argument) -> int:
    return int(np.prod(argument.dims, dtype=np.int64)) * argument.dtype.itemsize


def _overlap(x: ctypes.c_void_p, size: int, y: ctypes.c_void_p, y_size: int) -> bool:
    """Whether dense arrays at two addresses share memory."""
    first, second = x.value or 0, y.value or 0
    return first < second + y_size and second < first + size


def _fits(out: Any, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    """Whether an array can be written as it is."""
    if type(out) is not np.ndarray or out.shape != shape or out.dtype is not dtype:
        return False
    flags = out.flags
    return bool(flags.c_contiguous and flags.writeable)
