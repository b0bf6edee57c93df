"""Products of 64 bits in the place of two roundings, and of those with float64."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import away, make_factor, rescaled
from cannery.ops.quantized.long_product import product_of_doubles, product_of_two_roundings
from cannery.ops.quantized.matmul import QuantizedMatMul

OP = QuantizedMatMul(dtype=DType.INT8, zero=-7, held=(-128, 127))


@pytest.mark.parametrize("factor", [0.0137, 0.00123, 0.037, 1.7e-5])
def test_results_are_those_of_doubles(factor: float) -> None:
    sums = np.arange(-40_000, 40_000)[:, None]
    factors = np.asarray([factor, factor / 3])
    found = product_of_doubles(OP, factors, np.full(2, 40_000))
    assert found is not None
    expected = np.clip(away(sums * factors) - 7, -128, 127)
    assert np.array_equal(np.clip(found.value(sums), -128, 127), expected)


def test_halves_go_away_from_zero_so_some_factors_have_none() -> None:
    """Of -2 times 1/4 doubles make -1, and the product that rounds halves up 0."""
    assert product_of_doubles(OP, np.asarray([0.25]), np.asarray([100])) is None


def test_the_step_to_the_lowest_result_is_proved_as_well() -> None:
    """Of these factors the nearest multiplier is wrong for one sum, just above that step."""
    for zero, factor, last in (
        (127, 4.997362884486588e-05, -5092686),
        (5, 3.038057946452224e-06, -43613388),
    ):
        op = QuantizedMatMul(dtype=DType.INT8, zero=zero, held=(-128, 127))
        found = product_of_doubles(op, np.asarray([factor]), np.asarray([2**27]))
        assert found is None or found.value(np.asarray([last])) + 127 == 0


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("zero", [-128, -7, 5])
@pytest.mark.parametrize("reals", [(0.0137, 0.0021), (0.25, 0.125), (0.00123, 0.011, 0.0019)])
def test_results_are_those_of_two_roundings(
    reals: tuple[float, ...], zero: int, alike: bool
) -> None:
    op = QuantizedMatMul(dtype=DType.INT8, zero=zero, held=(-128, 127))
    factors = [make_factor(real) for real in reals]
    multiplier = np.asarray([f.multiplier for f in factors])
    right = np.asarray([-f.shift for f in factors])
    largest = np.full(len(reals), 300_000)
    found = product_of_two_roundings(op, (multiplier, right), largest, alike=alike)
    if (right < 1).any():
        assert found is None
        return
    assert found is not None and (not alike or len(set(found.shift)) == 1)
    sums = np.arange(-300_000, 300_001)[:, None]
    expected = np.clip(rescaled(sums, multiplier, -right) + zero, -128, 127)
    assert np.array_equal(np.clip(found.value(sums), -128, 127), expected)
    between = (sums << found.left) * found.multiplier.astype(np.int64) >> 32
    assert np.abs(between + found.half).max() + found.away.max() < 2**31


def test_sums_that_would_not_fit_have_no_product() -> None:
    factor = make_factor(0.0137)
    factors = np.asarray([factor.multiplier]), np.asarray([-factor.shift])
    for largest, there in ((2**29 - 1, True), (2**29, False)):
        found = product_of_two_roundings(OP, factors, np.asarray([largest]), alike=False)
        assert (found is not None) is there
