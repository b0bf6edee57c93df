"""Convolutions and pools with three spatial axes, made of those with two, which have fast kernels.

A convolution is the sum of convolutions of slices, one for each tap along the first axis, a
transposed one that of their results, each at its place. A pool is a pool over the last two axes,
then one over the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cannery.frontends.node_scope import NodeScope
from cannery.ir.registry import Op
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise.binary import Add
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.window import Pads, extent

#: A window: kernel, strides, pads, dilations.
Window = tuple[tuple[int, ...], tuple[int, ...], Pads, tuple[int, ...]]


def conv_3d(scope: NodeScope, op: Conv, x: str, w: str, bias: Sequence[str]) -> str:
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


def conv_transpose_3d(
    scope: NodeScope, op: ConvTranspose, x: str, w: str, bias: Sequence[str]
) -> str:
    """x[N,D,H,W,IC], w[KD,KH,KW,OC/group,IC]; returns y[N,D',H',W',OC]."""
    n, depth = scope.type(x).shape[:2]
    taps, stride, dilation = scope.type(w).shape[0], op.strides[0], op.dilations[0]
    full = (depth - 1) * stride + extent(taps, dilation)
    flat = ConvTranspose(
        op.strides[1:], op.pads[1:], op.dilations[1:], op.output_padding[1:], op.group
    )
    images = _reshape(scope, x, _merged(scope, x, 0), "images")
    total = ""
    for k in range(taps):
        weight = _slice(scope, w, 0, (k, k + 1, 1), f"weight{k}")
        kernel = _reshape(scope, weight, scope.type(weight).shape[1:], f"kernel{k}")
        y = scope.node(flat, [images, kernel], f"tap{k}")
        placed = _at_depths(scope, y, (n, depth), stride, (k * dilation, full), f"{k}")
        total = scope.node(Add(), [total, placed], f"sum{k}") if total else placed
    begin, end = op.pads[0][0], full - op.pads[0][1]
    if op.output_padding[0]:
        rest = ((0, 0), (0, op.output_padding[0]), (0, 0), (0, 0), (0, 0))
        total, end = scope.node(Pad(rest), [total], "extra"), end + op.output_padding[0]
    total = _slice(scope, total, 1, (begin, end, 1), "inside" if bias else "")
    return scope.node(Add(), [total, *bias]) if bias else total


def _at_depths(
    scope: NodeScope,
    y: str,
    sizes: tuple[int, int],
    stride: int,
    place: tuple[int, int],
    label: str,
) -> str:
    """Images [N*D,...] as [N,F,...]: `stride` apart from a first place on, zeros elsewhere."""
    n, depth = sizes
    rest = scope.type(y).shape[1:]
    none = ((0, 0),) * len(rest)
    wide = _reshape(scope, y, (n, depth, 1, *rest), f"single{label}")
    if stride > 1:
        wide = scope.node(Pad(((0, 0), (0, 0), (0, stride - 1), *none)), [wide], f"apart{label}")
    wide = _reshape(scope, wide, (n, depth * stride, *rest), f"depths{label}")
    first, full = place
    length = (depth - 1) * stride + 1
    wide = _slice(scope, wide, 1, (0, length, 1), f"images{label}")
    pads = ((0, 0), (first, full - first - length), *none)
    return scope.node(Pad(pads), [wide], f"placed{label}") if any(pads[1]) else wide


def pool_3d(scope: NodeScope, x: str, window: Window, make: Callable[[Window], Op]) -> str:
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


def _merged(scope: NodeScope, name: str, axis: int) -> tuple[int, ...]:
    """The shape of a value with two axes as one."""
    shape = scope.type(name).shape
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _reshape(scope: NodeScope, name: str, shape: tuple[int, ...], label: str) -> str:
    return scope.node(Reshape(shape), [name], label)


def _slice(scope: NodeScope, name: str, axis: int, bounds: tuple[int, int, int], label: str) -> str:
    shape = scope.type(name).shape
    if bounds == (0, shape[axis], 1):
        return name
    parts = [bounds if k == axis else (0, d, 1) for k, d in enumerate(shape)]
    starts, ends, steps = zip(*parts, strict=True)
    return scope.node(Slice(starts, ends, steps), [name], label)
