"""Convolutions and pools with three spatial axes, made of those with two, which have fast kernels.

A convolution is the sum of convolutions of slices, one for each tap along the first axis. A pool is
a pool over the last two axes, then one over the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cannery.frontends.onnx_ops.base import Scope
from cannery.ir.registry import Op
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.binary import Add
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.window import Pads

#: A window: kernel, strides, pads, dilations.
Window = tuple[tuple[int, ...], tuple[int, ...], Pads, tuple[int, ...]]


def conv_3d(scope: Scope, op: Conv, x: str, w: str, bias: Sequence[str]) -> str:
    """x[N,D,H,W,IC], w[KD,KH,KW,IC/group,OC]; returns y[N,D',H',W',OC]."""
    stride, dilation = op.strides[0], op.dilations[0]
    if any(op.pads[0]):
        pads = ((0, 0), op.pads[0], (0, 0), (0, 0), (0, 0))
        x = scope.node(Pad(pads), [x], "padded")
    depth, taps = scope.type(x).shape[1], scope.type(w).shape[0]
    count = (depth - dilation * (taps - 1) - 1) // stride + 1
    flat = Conv(op.strides[1:], op.pads[1:], op.dilations[1:], op.group)
    total = ""
    for k in range(taps):
        start = k * dilation
        part = _slice(scope, x, 1, (start, start + (count - 1) * stride + 1, stride), f"part{k}")
        weight = _slice(scope, w, 0, (k, k + 1, 1), f"weight{k}")
        images = _reshape(scope, part, _merged(scope, part, 0), f"images{k}")
        kernel = _reshape(scope, weight, scope.type(weight).shape[1:], f"kernel{k}")
        y = scope.node(flat, [images, kernel, *(bias if k == 0 else ())], f"tap{k}")
        total = scope.node(Add(), [y, total], f"sum{k}") if total else y
    shape = scope.type(total).shape
    return scope.node(Reshape((shape[0] // count, count, *shape[1:])), [total])


def pool_3d(scope: Scope, x: str, window: Window, make: Callable[[Window], Op]) -> str:
    """x[N,D,H,W,C] -> y[N,D',H',W',C] for a pool that can be computed one axis after the other."""
    kernel, strides, pads, dilations = window
    images = _reshape(scope, x, _merged(scope, x, 0), "images")
    inner = (kernel[1:], strides[1:], pads[1:], dilations[1:])
    rows = scope.node(make(inner), [images], "inner")
    n, depth = scope.type(x).shape[:2]
    _, h, w, c = scope.type(rows).shape
    columns = _reshape(scope, rows, (n, depth, h * w, c), "columns")
    outer = ((kernel[0], 1), (strides[0], 1), (pads[0], (0, 0)), (dilations[0], 1))
    y = scope.node(make(outer), [columns], "outer")
    return scope.node(Reshape((n, scope.type(y).shape[1], h, w, c)), [y])


def _merged(scope: Scope, name: str, axis: int) -> tuple[int, ...]:
    """The shape of a value with two axes as one."""
    shape = scope.type(name).shape
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _reshape(scope: Scope, name: str, shape: tuple[int, ...], label: str) -> str:
    return scope.node(Reshape(shape), [name], label)


def _slice(scope: Scope, name: str, axis: int, bounds: tuple[int, int, int], label: str) -> str:
    shape = scope.type(name).shape
    if bounds == (0, shape[axis], 1):
        return name
    parts = [bounds if k == axis else (0, d, 1) for k, d in enumerate(shape)]
    starts, ends, steps = zip(*parts, strict=True)
    return scope.node(Slice(starts, ends, steps), [name], label)
