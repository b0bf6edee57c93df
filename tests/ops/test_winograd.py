"""Winograd's algorithm in numpy: the float32 emulation against the reference convolution."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.measure.trial import all_data, random_inputs
from cannery.ops.conv.op import Conv
from cannery.ops.conv.winograd import (
    F2,
    F4,
    MOST_INPUTS,
    POINTS,
    RECIPROCALS,
    Points,
    Tile,
    Winograd,
    cheapest,
    filtering,
    fits,
    strided,
)  # fmt: skip
from cannery.ops.conv.winograd_oc import ConvWinogradOc
from cannery.ops.conv.winograd_planar import ConvWinogradPlanar
from cannery.ops.conv.winograd_tiles import operations
from cannery.ops.elementwise import Relu
from cannery.ops.half.winograd import HalfWinogradOc
from cannery.quantization.half_layers import able_steps, in_half
from cannery.target.isa import isa
from ops.cases import Net

SAME = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))


@pytest.mark.parametrize(("winograd", "bound"), [(F2, 5e-7), (F4, 5e-6)])
@pytest.mark.parametrize("shape", [(1, 4, 4, 1), (2, 7, 9, 5), (1, 1, 1, 2), (1, 5, 12, 3)])
def test_emulate_is_the_convolution(
    winograd: Winograd, bound: float, shape: tuple[int, int, int, int]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((3, 3, shape[-1], 6)).astype(np.float32)
    (expected,) = SAME.reference(x, w)
    y = Tile(winograd, winograd).emulate(x, w)
    assert y.dtype == np.float32
    assert np.abs(np.subtract(y, expected)).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize(
    ("points", "taps", "bound"),
    [(6, (1, 3), 1e-6), (6, (5, 1), 1e-6), (6, (5, 5), 5e-6), (6, (4, 2), 8e-6), (4, (2, 3), 5e-7)],
)
def test_each_axis_has_its_own_filter(points: int, taps: tuple[int, int], bound: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 11, 13, 16)).astype(np.float32)
    w = rng.standard_normal((*taps, 16, 4)).astype(np.float32)
    begin = (taps[0] // 2, taps[1] // 2)
    pads = tuple((k // 2, (k - 1) // 2) for k in taps)
    (expected,) = Conv((1, 1), pads, (1, 1)).reference(x, w)
    tile = Tile(*(filtering(points + 1 - k if k > 1 else 1, k) for k in taps))
    y = tile.emulate(x, w, begin)
    assert np.abs(np.subtract(y, expected)).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize(
    ("m", "taps"), [(1, 1), *((m, taps) for taps in range(2, 6) for m in range(1, 8 - taps))]
)
@pytest.mark.parametrize("points", [POINTS, RECIPROCALS], ids=["whole", "reciprocals"])
def test_filtering_is_exact(m: int, taps: int, points: Points) -> None:
    f = filtering(m, taps, points)
    for tap in range(taps):
        for at in range(m + taps - 1):
            u = [row[tap] for row in f.g]
            v = [row[at] for row in f.bt]
            y = [sum(a * p * q for a, p, q in zip(row, u, v, strict=True)) for row in f.at]
            assert y == [int(at == k + tap) for k in range(m)]
    if points == POINTS or m == 1:
        assert f.ones is not None
        assert {row[f.ones] for row in f.at} == {1}
    else:
        assert f.ones is None


def test_reciprocals_lose_less_than_half_in_float16() -> None:
    """And transforms take as many instructions: twelve for each row or column of six."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 16, 16, 24)).astype(np.float16)
    w = rng.standard_normal((3, 3, 24, 16)).astype(np.float16).astype(np.float32)
    (expected,) = SAME.reference(x.astype(np.float64), w)
    losses = []
    for points in (POINTS, RECIPROCALS):
        winograd = filtering(4, 3, points)
        y = Tile(winograd, winograd).emulate(x, w)
        assert y.dtype == np.float16
        losses.append(np.sqrt(np.square(y - expected).mean()))
        assert operations(winograd.bt, winograd.bt, 6, fused=True) == 144
    assert losses[1] < 0.5 * losses[0]
    assert losses[1] < 6e-3 * np.sqrt(np.square(expected).mean())


def test_half_precision_is_emulated_in_float16() -> None:
    whole = graph()
    half = in_half(whole, able_steps(whole))
    step = next(step for step in cut(half) if step.kind == "Conv")
    (data,) = all_data(half, [step], random_inputs(half))
    y = HalfWinogradOc().emulate(half, step, data.inputs)
    error = np.abs(np.subtract(y, data.outputs[0])).max() / np.abs(data.outputs[0]).max()
    assert y.dtype == np.float16
    assert 5e-4 < error < 2e-2


@pytest.mark.parametrize(
    ("m", "taps", "stride"), [(2, 3, 2), (3, 3, 2), (2, 5, 2), (2, 6, 2), (2, 4, 3), (2, 5, 3)]
)
def test_strided_is_exact(m: int, taps: int, stride: int) -> None:
    f = strided(m, taps, stride)
    assert (f.taps, f.stride, f.tile) == (taps, stride, len(f.bt[0]))
    for tap in range(taps):
        for at in range(f.tile):
            u = [row[tap] for row in f.g]
            v = [row[at] for row in f.bt]
            y = [sum(a * p * q for a, p, q in zip(row, u, v, strict=True)) for row in f.at]
            assert y == [int(at == k * stride + tap) for k in range(m)]
    assert f.ones is not None
    assert {row[f.ones] for row in f.at} == {1}


@pytest.mark.parametrize("points", [4, 6])
@pytest.mark.parametrize(
    ("taps", "strides"),
    [((3, 3), (2, 1)), ((3, 3), (2, 2)), ((5, 5), (2, 2)), ((1, 3), (2, 1)), ((4, 3), (3, 1))],
)
@pytest.mark.parametrize("size", [(8, 7), (15, 13), (3, 40)])
def test_emulate_with_strides(
    points: int, taps: tuple[int, int], strides: tuple[int, int], size: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, *size, 16)).astype(np.float32)
    w = rng.standard_normal((*taps, 16, 5)).astype(np.float32)
    begin = (taps[0] // 2, taps[1] // 2)
    pads = tuple((k // 2, (k - 1) // 2) for k in taps)
    (expected,) = Conv(strides, pads, (1, 1)).reference(x, w)
    axes = zip(taps, expected.shape[1:3], strides, strict=True)
    tile = Tile(*(cheapest(points, k, outputs, stride) for k, outputs, stride in axes))
    y = tile.emulate(x, w, begin, expected.shape[1:3])
    bound = 5e-7 if points == 4 else 2e-6
    assert np.abs(np.subtract(y, expected)).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize("points", [4, 6])
@pytest.mark.parametrize(("gap", "outputs", "pad"), [(2, 16, 0), (5, 35, 5), (3, 6, 4)])
def test_emulate_with_gaps(points: int, gap: int, outputs: int, pad: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 7, outputs + 2 * gap - 2 * pad, 8)).astype(np.float32)
    w = rng.standard_normal((3, 3, 8, 5)).astype(np.float32)
    (expected,) = Conv((1, 1), ((1, 1), (pad, pad)), (1, gap)).reference(x, w)
    tile = Tile(cheapest(points, 3, 7), cheapest(points, 3, outputs // gap))
    y = tile.emulate(x, w, (1, pad), expected.shape[1:3], gap)
    bound = 1e-6 if points == 4 else 5e-6
    assert np.abs(np.subtract(y, expected)).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize("points", [4, 6])
def test_cheapest_knows_what_fits(points: int) -> None:
    for taps in range(2, 9):
        for stride in range(1, 9):
            if fits(points, taps, stride):
                found = cheapest(points, taps, 9, stride)
                assert (found.taps, found.stride, found.m > 1) == (taps, stride, True)
                assert found.tile < taps * found.m
                assert found.tile <= (MOST_INPUTS if stride > 1 else points)


@pytest.mark.parametrize(
    ("outputs", "taps", "m"),
    [(4, 3, 4), (8, 3, 4), (9, 3, 3), (5, 3, 3), (6, 3, 3), (7, 3, 4), (1, 3, 2), (2, 3, 2),
     (18, 3, 4), (37, 3, 4), (9, 5, 2), (5, 2, 5), (4, 2, 4), (6, 2, 3), (9, 1, 1)],
)  # fmt: skip
def test_tiles_suit_the_number_of_outputs(outputs: int, taps: int, m: int) -> None:
    found = cheapest(6, taps, outputs)
    assert (found.m, found.taps) == (m, taps)


@pytest.mark.parametrize("winograd", [F2, F4])
def test_weights_are_those_of_lavin_and_gray(winograd: Winograd) -> None:
    w = np.random.default_rng(1).standard_normal((3, 3, 2, 3)).astype(np.float32)
    g = np.array([[float(c) for c in row] for row in winograd.g])
    size = winograd.tile
    expected = np.array(
        [[(g @ w[:, :, i, o] @ g.T).reshape(-1) for o in range(3)] for i in range(2)]
    ).transpose(2, 0, 1)
    u = Tile(winograd, winograd).weights(w)
    assert u.shape == (size * size, 2, 3)
    np.testing.assert_allclose(u, expected, rtol=1e-6, atol=1e-7)


def graph() -> Graph:
    net = Net()
    x = net.input("x", (1, 6, 7, 3))
    y = net.node(SAME, [x, net.weight(3, 3, 3, 4), net.weight(4)])
    return net.graph(net.node(Relu(), [y]))


def test_schedule_emulates_its_whole_step() -> None:
    g = graph()
    (step,) = cut(g)
    (data,) = all_data(g, [step], random_inputs(g))
    y = ConvWinogradPlanar().emulate(g, step, data.inputs)
    expected = data.outputs[0]
    assert y.dtype == np.float32 and y.shape == expected.shape
    assert np.abs(np.subtract(y, expected)).max() <= 5e-6 * np.abs(expected).max()


@pytest.mark.parametrize("winograd", [F2, F4])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((2, 0), (0, 1))])
def test_emulate_with_other_pads(winograd: Winograd, pads: tuple[tuple[int, int], ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 7, 9, 3)).astype(np.float32)
    w = rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
    (expected,) = Conv((1, 1), pads, (1, 1)).reference(x, w)
    begin = (pads[0][0], pads[1][0])
    y = Tile(winograd, winograd).emulate(x, w, begin, expected.shape[1:3])
    assert y.shape == expected.shape
    assert np.abs(np.subtract(y, expected)).max() <= 5e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("channels", "taps", "strides", "legal"),
    [(24, (3, 3), (2, 2), True), (64, (3, 3), (2, 2), False), (64, (3, 3), (1, 1), True),
     (8, (2, 3), (2, 1), False), (8, (1, 3), (2, 1), True), (8, (7, 7), (2, 2), False)],
)  # fmt: skip
def test_which_strides_are_worth_it(
    channels: int, taps: tuple[int, int], strides: tuple[int, int], legal: bool
) -> None:
    net = Net()
    x = net.input("x", (1, 16, 17, channels))
    conv = Conv(strides, ((1, 1), (1, 1)), (1, 1))
    g = net.graph(net.node(conv, [x, net.weight(*taps, channels, 2 * channels)]))
    (step,) = cut(g)
    assert (not ConvWinogradOc().why_not(g, step, isa("ssse3"))) == legal
