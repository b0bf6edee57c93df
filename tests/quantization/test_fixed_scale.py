"""Sums that become results without floats have the bits of the floats."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ops.quantized.fixed_scale import SELDOM, bias_words, fixed_scale


def by_floats(sums: NDArray[np.int64], scale: float, bias: float) -> NDArray[np.int64]:
    """The definition, in float32."""
    scaled = sums.astype(np.float32) * np.float32(scale)
    return np.rint(scaled + np.float32(bias)).astype(np.int64)


@pytest.mark.parametrize("low, high", [(-127, 127), (0, 255), (-(2**15), 2**15 - 1)])
@pytest.mark.parametrize("largest", [2**9, 2**17, 2**21, 2**26])
def test_every_sum_has_the_result_of_the_floats(largest: int, low: int, high: int) -> None:
    rng = np.random.default_rng(largest + high)
    scale = (2.0 * high / largest * np.exp(rng.uniform(-3.0, 2.0, 6))).astype(np.float32)
    scale[0] = -scale[0]
    scale[1] = 2.0 ** np.round(np.log2(scale[1]))  # with a bias of halves: many ties
    bias = (rng.standard_normal(6) * 20.0).astype(np.float32)
    bias[1], bias[2] = 0.5, 0.0
    fixed = fixed_scale(np.full(6, largest), scale, bias, low, high)
    assert fixed is not None
    step = max(1, 2 * largest // 10**6)
    seldom = []
    for n in range(6):
        sums = np.arange(-largest, largest + 1, step, np.int64)
        product = (sums << fixed.shift) * int(fixed.factors[n]) >> 32
        t = product + int(fixed.offsets[n])
        assert np.abs(t).max() < 2**31 - 4
        near = fixed.is_near(t)
        expected = np.clip(by_floats(sums, scale[n], bias[n]), low, high)
        for less in (0, 2):  # as processors without 64-bit products may have it
            found = np.clip((t - less) >> fixed.fraction, low, high)
            proven = ~near & ~fixed.is_near(t - less)
            np.testing.assert_array_equal(found[proven], expected[proven])
        seldom.append(near.mean())
    assert np.median(seldom) < 1.0 / SELDOM


def test_what_floats_round_the_other_way_is_near_a_tie() -> None:
    # From 2^14 on, a sum with 1/2 + 2^-10 is rounded to one with 1/2.
    sums = np.arange(-(2**15), 2**15, dtype=np.int64)
    scale, bias = np.float32([1.0]), np.float32([0.5 + 2.0**-10])
    fixed = fixed_scale(np.array([2**15]), scale, bias, -(2**15), 2**15 - 1)
    assert fixed is not None
    t = fixed.fixed(sums[:, None])[:, 0]
    wrong = t >> fixed.fraction != by_floats(sums, scale[0], bias[0])
    assert wrong.any()
    assert fixed.is_near(t)[wrong].all()


def test_a_bias_has_room() -> None:
    sums = np.arange(-100, 101, dtype=np.int64)
    scale, bias = np.float32([1.0]), np.float32([3e4])
    fixed = fixed_scale(np.array([100]), scale, bias, -(2**15), 2**15 - 1)
    assert fixed is not None
    t = fixed.fixed(sums[:, None])[:, 0]
    np.testing.assert_array_equal(t >> fixed.fraction, by_floats(sums, scale[0], bias[0]))


@pytest.mark.parametrize(
    "largest, scale, bias",
    [(2**31 - 1, 1.0, 0.0), (100, 0.0, 1.0), (100, np.inf, 0.0), (2**10, 2.0**19, 0.0),
     (100, 1.0, 1e9)],
)  # fmt: skip
def test_what_an_integer_cannot_hold_is_left_to_floats(
    largest: int, scale: float, bias: float
) -> None:
    numbers = np.float32([scale]), np.float32([bias])
    assert fixed_scale(np.array([largest]), *numbers, -128, 127) is None


def test_a_bias_for_all_channels() -> None:
    fixed = fixed_scale(np.full(3, 900), np.float32([0.1, 0.2, 0.3]), np.float32([0]), -127, 127)
    assert fixed is not None
    assert fixed.offsets.shape == fixed.factors.shape == (3,)


def test_a_factor_takes_the_place_of_its_scale_only_if_it_has_all_bits() -> None:
    scale, largest, bias = np.float32([0.1, 0.031]), np.full(2, 900), np.zeros(2, np.float32)
    fixed = fixed_scale(largest, scale, bias, -127, 127)
    assert fixed is not None
    bits = 32 + fixed.fraction - fixed.shift
    expected = f"f32x1_mul(f32x1_from_i32(f[c]), {c_float(2.0**-bits)})"
    assert fixed.exact_scale("f[c]", scale) == expected
    np.testing.assert_array_equal(fixed.factors.astype(np.float32) * np.float32(2.0**-bits), scale)
    small = np.float32([0.1, 0.031e-3])
    fixed = fixed_scale(largest, small, bias, -127, 127)
    assert fixed is not None
    assert fixed.exact_scale("f[c]", small) == ""


@pytest.mark.parametrize("fraction", [1, 14, 23])
def test_a_word_holds_all_bits_of_a_bias(fraction: int) -> None:
    rng = np.random.default_rng(fraction)
    powers = rng.integers(-fraction, 30 - fraction, 500, endpoint=True)
    biases = (rng.uniform(-1.0, 1.0, 500) * 2.0**powers).astype(np.float32).astype(np.float64)
    # With fewer bits below, so that each has room.
    biases = np.ldexp(np.rint(np.ldexp(biases, fraction + 24)), -fraction - 24)
    biases[:4] = 0.0, 2.0 ** (29 - fraction), -(2.0 ** (29 - fraction)), -(2.0**-fraction)
    words = bias_words(biases, fraction)
    assert words is not None
    shifts = words & 31
    np.testing.assert_array_equal(np.ldexp((words >> 7) * 1.0, 7 - shifts - fraction), biases)
    off = np.ldexp(biases, fraction) - (words >> shifts)
    assert off.min() >= -0.5
    assert off.max() < 1.0


def test_a_bias_too_small_for_a_word_stays_a_float() -> None:
    biases = np.float32([1.0, 1e-12])
    assert bias_words(biases.astype(np.float64), 14) is None
    fixed = fixed_scale(np.full(2, 900), np.float32([0.1, 0.2]), biases, -127, 127)
    assert fixed is not None
    assert fixed.words is None
