"""References against independent formulations: ONNX's own, and plain loops."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from cannery.ir.tensor import DType
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import BatchNormalization, GroupNormalization, LayerNormalization
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import LogSoftmax, Softmax
from judges import checked, first, flat, last, numbers, onnx_run, same

Spatial = tuple[int, ...]


WINDOWS: list[tuple[Spatial, Spatial, Spatial, tuple[tuple[int, int], ...], Spatial]] = [
    ((9, 8), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    ((9, 8), (3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1)),
    ((9, 11), (2, 3), (1, 2), ((0, 1), (2, 1)), (2, 3)),
    ((5, 5), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    ((4, 6), (4, 6), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    ((13,), (4,), (3,), ((2, 1),), (2,)),
    ((1,), (1,), (1,), ((0, 0),), (1,)),
    ((4, 5, 3), (2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (1, 0)), (1, 1, 1)),
]


@pytest.mark.parametrize(("spatial", "kernel", "strides", "pads", "dilations"), WINDOWS)
@pytest.mark.parametrize(
    ("ic", "oc", "group"), [(3, 4, 1), (4, 6, 2), (3, 3, 3), (3, 6, 3), (1, 1, 1), (2, 1, 1)]
)
def test_conv_is_loops(
    spatial: Spatial,
    kernel: Spatial,
    strides: Spatial,
    pads: Any,
    dilations: Spatial,
    ic: int,
    oc: int,
    group: int,
) -> None:
    x, w, bias = numbers(2, *spatial, ic), numbers(*kernel, ic // group, oc, seed=1), numbers(oc)
    y = checked(Conv(strides, pads, dilations, group), x, w, bias)
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))
    expected = np.zeros_like(y)
    for index in np.ndindex(*y.shape):
        n, out, o = index[0], index[1:-1], index[-1]
        low = o // (oc // group) * (ic // group)
        for tap in product(*map(range, kernel)):
            at = [p * s + k * d for p, s, k, d in zip(out, strides, tap, dilations, strict=True)]
            where = (n, *at, slice(low, low + ic // group))
            values = padded[where]
            expected[index] += (values * w[tap][:, o]).sum()
    same(y, expected + bias, 1e-12)


@pytest.mark.parametrize(("spatial", "kernel", "strides", "pads", "dilations"), WINDOWS)
@pytest.mark.parametrize(("ic", "oc", "group"), [(3, 4, 1), (4, 6, 2), (3, 6, 3)])
def test_conv_is_onnx(
    spatial: Spatial,
    kernel: Spatial,
    strides: Spatial,
    pads: Any,
    dilations: Spatial,
    ic: int,
    oc: int,
    group: int,
) -> None:
    x, w, bias = numbers(1, *spatial, ic), numbers(*kernel, ic // group, oc, seed=1), numbers(oc)
    rank = len(spatial)
    expected = onnx_run(
        "Conv",
        [first(x), w.transpose(rank + 1, rank, *range(rank)), bias],
        strides=strides,
        pads=flat(pads),
        dilations=dilations,
        group=group,
    )
    same(checked(Conv(strides, pads, dilations, group), x, w, bias), last(expected))


TRANSPOSED = [
    ((5, 4), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), (1, 1)),
    ((5, 4), (3, 2), (2, 1), ((0, 1), (1, 0)), (1, 1), (0, 0)),
    ((3, 3), (2, 2), (3, 3), ((0, 0), (0, 0)), (1, 1), (2, 1)),
    ((4, 3), (3, 3), (1, 2), ((1, 2), (0, 1)), (2, 1), (0, 0)),
    ((7,), (4,), (3,), ((1, 0),), (2,), (1,)),
    ((1, 1), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), (0, 0)),
]


@pytest.mark.parametrize(("spatial", "kernel", "strides", "pads", "dilations", "extra"), TRANSPOSED)
@pytest.mark.parametrize(("ic", "oc", "group"), [(3, 4, 1), (4, 6, 2), (3, 3, 3)])
def test_conv_transpose_scatters(
    spatial: Spatial,
    kernel: Spatial,
    strides: Spatial,
    pads: Any,
    dilations: Spatial,
    extra: Spatial,
    ic: int,
    oc: int,
    group: int,
) -> None:
    x, w = numbers(2, *spatial, ic), numbers(*kernel, oc // group, ic, seed=1)
    bias = numbers(oc, seed=2)
    y = checked(ConvTranspose(strides, pads, dilations, extra, group), x, w, bias)
    expected = np.zeros_like(y) + bias
    for n, *at, i in np.ndindex(*x.shape):
        for tap in product(*map(range, kernel)):
            to = [
                p * s + k * d - begin
                for p, s, k, d, (begin, _) in zip(at, strides, tap, dilations, pads, strict=True)
            ]
            if all(0 <= t < size for t, size in zip(to, y.shape[1:-1], strict=True)):
                g = i // (ic // group)
                out = slice(g * (oc // group), (g + 1) * (oc // group))
                source, where = (n, *at, i), (n, *to, out)
                expected[where] += x[source] * w[tap][:, i]
    same(y, expected, 1e-12)


@pytest.mark.parametrize(
    ("spatial", "kernel", "strides", "pads", "dilations", "extra"), TRANSPOSED[:4]
)
def test_conv_transpose_is_onnx(
    spatial: Spatial,
    kernel: Spatial,
    strides: Spatial,
    pads: Any,
    dilations: Spatial,
    extra: Spatial,
) -> None:
    x, w, bias = numbers(1, *spatial, 3), numbers(*kernel, 4, 3, seed=1), numbers(4)
    rank = len(spatial)
    expected = onnx_run(
        "ConvTranspose",
        [first(x), w.transpose(rank + 1, rank, *range(rank)), bias],
        strides=strides,
        pads=flat(pads),
        dilations=dilations,
        output_padding=extra,
    )
    same(checked(ConvTranspose(strides, pads, dilations, extra), x, w, bias), last(expected))


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((3, 4), (2, 4, 5))],
)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("biased", [False, True])
def test_matmul(a: Spatial, b: Spatial, transposed: tuple[bool, bool], biased: bool) -> None:
    left, right, bias = numbers(*a), numbers(*b, seed=1), numbers(b[-1]) if biased else None
    stored_a = left.swapaxes(-1, -2) if transposed[0] else left
    stored_b = right.swapaxes(-1, -2) if transposed[1] else right
    y = checked(MatMul(*transposed), stored_a, stored_b, bias)
    same(y, left @ right + (0.0 if bias is None else bias), 1e-12)


@pytest.mark.parametrize(("spatial", "kernel", "strides", "pads", "dilations"), WINDOWS)
def test_pools_are_loops(
    spatial: Spatial, kernel: Spatial, strides: Spatial, pads: Any, dilations: Spatial
) -> None:
    x = numbers(2, *spatial, 3)
    highest = checked(MaxPool(kernel, strides, pads, dilations), x)
    inside = checked(AveragePool(kernel, strides, pads, dilations), x)
    counted = checked(AveragePool(kernel, strides, pads, dilations, True), x)
    for n, *out, c in np.ndindex(*highest.shape):
        values = []
        for tap in product(*map(range, kernel)):
            at = [
                p * s + k * d - begin
                for p, s, k, d, (begin, _) in zip(out, strides, tap, dilations, pads, strict=True)
            ]
            if all(0 <= a < size for a, size in zip(at, spatial, strict=True)):
                source = (n, *at, c)
                values.append(x[source])
        index = (n, *out, c)
        assert highest[index] == max(values)
        assert inside[index] == pytest.approx(math.fsum(values) / len(values), abs=1e-12)
        assert counted[index] == pytest.approx(math.fsum(values) / math.prod(kernel), abs=1e-12)


def test_max_pool_passes_nan() -> None:
    x = np.array([1.0, np.nan, 3.0, 4.0]).reshape(1, 4, 1)
    y = checked(MaxPool((2,), (2,), ((0, 0),), (1,)), x)
    assert np.array_equal(y.ravel(), [np.nan, 4.0], equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis: int) -> None:
    x = numbers(3, 4, 5) * 3
    same(checked(Softmax(axis), x), onnx_run("Softmax", [x], axis=axis))
    same(checked(LogSoftmax(axis), x), onnx_run("LogSoftmax", [x], axis=axis))
    huge = x + 1e4
    assert np.allclose(checked(Softmax(axis), huge).sum(axis=axis), 1.0, rtol=1e-12)


REDUCTIONS: list[type[Reduction]] = [
    ReduceMean, ReduceMax, ReduceMin, ReduceSum, ReduceProd, ReduceL1, ReduceL2, ReduceSumSquare,
    ReduceLogSumExp,
]  # fmt: skip


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("axes", [(1,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(kind: type[Reduction], axes: Spatial, keepdims: bool) -> None:
    x = numbers(3, 4, 5)
    y = checked(kind(axes, keepdims), x)
    expected = onnx_run(kind.__name__, [x, np.array(axes)], keepdims=int(keepdims))
    same(y, expected)


def test_reductions_of_few() -> None:
    x = numbers(2, 3)
    for kind in (ReduceSum, ReduceMax, ReduceMin, ReduceMean, ReduceProd):
        assert np.array_equal(checked(kind(()), x), x)
    assert np.array_equal(checked(ReduceL1(()), x), np.abs(x))
    assert checked(ReduceProd((0,)), np.zeros((0, 2))).tolist() == [1.0, 1.0]
    assert checked(ReduceMax((0,)), np.array([[3, 9], [7, 2]])).tolist() == [7, 9]


def test_log_sum_exp_of_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1.0], [1000.0, 1000.0]])
    expected = [-np.inf, np.inf, 1000.0 + math.log(2.0)]
    assert checked(ReduceLogSumExp((1,)), x).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_batch_normalization(axis: int) -> None:
    x = numbers(2, 3, 4, 5)
    c = x.shape[axis]
    scale, bias, mean, var = numbers(c), numbers(c, seed=1), numbers(c, seed=2), numbers(c) ** 2
    y = checked(BatchNormalization(axis, 1e-3), x, scale, bias, mean, var)
    moved = np.moveaxis(x, axis, 1)
    expected = onnx_run("BatchNormalization", [moved, scale, bias, mean, var], epsilon=1e-3)
    same(y, np.moveaxis(expected, 1, axis))


@pytest.mark.parametrize("axes", [(1, 2), (2,), (0,), (0, 2)])
@pytest.mark.parametrize(("scaled", "biased"), [(False, False), (True, False), (False, True)])
def test_layer_normalization(axes: Spatial, scaled: bool, biased: bool) -> None:
    x = numbers(3, 4, 5)
    dims = [x.shape[a] for a in axes]
    scale, bias = numbers(*dims, seed=1) if scaled else None, numbers(*dims) if biased else None
    wide = [d if i in axes else 1 for i, d in enumerate(x.shape)]
    centred = x - x.mean(axis=axes, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + 1e-5)
    expected = expected * (1.0 if scale is None else scale.reshape(wide))
    expected = expected + (0.0 if bias is None else bias.reshape(wide))
    same(checked(LayerNormalization(axes, 1e-5), x, scale, bias), expected, 1e-12)
    if axes == (2,) and scaled:
        same(expected, onnx_run("LayerNormalization", [x, scale], axis=-1, epsilon=1e-5))


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:
    heads, size, values, step = 3, 4, 5, 14
    x = numbers(2, 6, 1 + heads * step)
    parts = [
        np.stack([x[..., at + h * step :][..., :width] for h in range(heads)], axis=1)
        for at, width in ((1, size), (1 + size, size), (1 + 2 * size, values))
    ]
    mask = numbers(2, 1, 6, 6) if masked else None
    scores = 0.5 * np.einsum("nhtd,nhsd->nhts", *parts[:2]) + (0.0 if mask is None else mask)
    shares = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    expected = np.einsum("nhts,nhsd->nthd", shares, parts[2]).reshape(2, 6, heads * values)
    places = [HeadChannels(1, step, size), HeadChannels(1 + size, step, size)]
    op = Attention(heads, 0.5, *places, HeadChannels(1 + 2 * size, step, values))
    same(checked(op, x, x, x, mask), expected, 1e-12)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(groups: int) -> None:
    x, scale, bias = numbers(2, 3, 4, 6), numbers(6), numbers(6, seed=1)
    y = checked(GroupNormalization(groups, 3, 1e-5), x, scale, bias)
    expected = onnx_run(
        "GroupNormalization", [first(x), scale, bias], 21, num_groups=groups, epsilon=1e-5
    )
    same(y, last(expected))
    moved = checked(GroupNormalization(groups, 1, 1e-5), first(x), scale, bias)
    same(last(moved), y, 1e-12)


COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
SIZES = [(6, 8), (3, 4), (7, 3), (1, 1), (2, 9), (12, 5)]


@pytest.mark.parametrize("coordinate", [*COORDINATES, "half_pixel_symmetric"])
@pytest.mark.parametrize("sizes", SIZES)
def test_resize_linear(coordinate: str, sizes: tuple[int, int]) -> None:
    x = numbers(2, 3, 4, 2)
    y = checked(Resize("linear", sizes, coordinate), x)
    if coordinate == "half_pixel" and sizes == (3, 4):
        assert np.array_equal(y, x)
    target = np.array([2, 2, *sizes])
    expected = onnx_run(
        "Resize",
        [first(x), None, None, target],
        mode="linear",
        coordinate_transformation_mode=coordinate,
    )
    same(y, last(expected))


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("sizes", SIZES)
def test_resize_nearest(coordinate: str, rounding: str, sizes: tuple[int, int]) -> None:
    x = numbers(2, 3, 4, 2)
    y = checked(Resize("nearest", sizes, coordinate, rounding), x)
    target = np.array([2, 2, *sizes])
    expected = onnx_run(
        "Resize",
        [first(x), None, None, target],
        mode="nearest",
        coordinate_transformation_mode=coordinate,
        nearest_mode=rounding,
    )
    same(y, last(expected))


def test_resize_by_stored_scales() -> None:
    op = Resize("nearest", (7,), "asymmetric", "floor", (1.5,))
    assert [s.low for s in op.samples(0, 5)] == [0, 0, 1, 2, 2, 3, 4]
    rounded = Resize("nearest", (6,), "asymmetric", "floor", (float(np.float32(0.6)),))
    assert [s.low for s in rounded.samples(0, 10)] == [0, 1, 3, 5, 6, 8]


def test_upsampling_of_keras() -> None:
    x = numbers(1, 2, 3, 2)
    nearest = checked(Resize("nearest", (4, 9), "asymmetric", "floor"), x)
    assert np.array_equal(nearest, x.repeat(2, axis=1).repeat(3, axis=2))
    row = checked(Resize("linear", (4,)), np.array([0.0, 4.0]).reshape(1, 2, 1))
    assert row.ravel().tolist() == [0.0, 1.0, 3.0, 4.0]


def test_movement() -> None:
    x = numbers(2, 3, 4)
    assert np.array_equal(checked(Concat(1), x, x[:, :1]), np.concatenate([x, x[:, :1]], 1))
    assert np.array_equal(checked(Reshape((6, 4)), x), x.reshape(6, 4))
    assert np.array_equal(checked(Transpose((2, 0, 1)), x), x.transpose(2, 0, 1))
    assert np.array_equal(checked(Expand((2, 3, 4)), x[:, :1]), x[:, :1].repeat(3, 1))
    assert np.array_equal(
        checked(Slice((1, 2, 3), (2, -1, 0), (1, -2, -1)), x), x[1:2, 2::-2, 3:0:-1]
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode: str) -> None:
    x = numbers(3, 4)
    pads = ((1, 2), (0, 3))
    y = checked(Pad(pads, 0.1, mode), x)
    value = np.array(0.1, np.float32)
    given = [x, np.array(flat(pads)), value if mode == "constant" else None]
    assert np.array_equal(y, onnx_run("Pad", given, mode=mode).astype(np.float64))


def test_pad_of_integers() -> None:
    x = np.array([1, 2], np.uint8)
    assert checked(Pad(((1, 0),), 7.0), x).tolist() == [7, 1, 2]
    for mode in ("constant", "reflect", "edge"):
        assert checked(Pad((), 7.0, mode), np.float64(3.0).reshape(())).tolist() == 3.0


def test_cast() -> None:
    x = np.array([0.0, 0.9, -0.9, -1.5, 254.7, 255.0, 256.0, 1e30, -1e30, np.inf, np.nan])
    assert checked(Cast(DType.UINT8), x).tolist() == [0, 0, 0, 0, 254, 255, 255, 255, 0, 255, 0]
    wide = checked(Cast(DType.INT64), x).tolist()
    assert wide[3:] == [-1, 254, 255, 256, 2**63 - 1, -(2**63), 2**63 - 1, 0]
    assert checked(Cast(DType.BOOL), x[:3]).tolist() == [False, True, True]
    assert checked(Cast(DType.INT8), np.array([200, 100], np.uint8)).tolist() == [-56, 100]
    assert checked(Cast(DType.FLOAT32), np.array([200], np.uint8)).tolist() == [200.0]
    assert checked(Cast(DType.FLOAT32), np.array([True])).tolist() == [1.0]
