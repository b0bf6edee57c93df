"""Sums of bytes as linear forms."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import Factor, make_factor
from cannery.ops.fixed_point.linear_sum import linear_sum
from cannery.ops.fixed_point.pointwise import FixedSum


def fixed_sum(a: float, b: float, *, zero: int, subtract: bool = False) -> FixedSum:
    """As TensorFlow Lite makes it of scales `a` and `b` in units of the result's."""
    twice = 2.0 * max(a, b)
    made = (make_factor(a / twice), make_factor(b / twice), make_factor(twice / 2.0**20))
    return FixedSum(DType.INT8, zero, -128, 127, (-5, 17), made, 20, subtract)


@pytest.mark.parametrize("zero", [-128, 0])
@pytest.mark.parametrize("subtract", [False, True])
@pytest.mark.parametrize(
    ("a", "b"), [(0.731, 0.4129), (1.013, 0.077), (0.0391, 0.0524), (0.5, 0.5)]
)
def test_all_results_are_the_same(a: float, b: float, subtract: bool, zero: int) -> None:
    op = fixed_sum(a, b, zero=zero, subtract=subtract)
    found = linear_sum(op, (DType.INT8, DType.INT8))
    assert found is not None
    x, y = np.meshgrid(*[np.arange(-128, 128)] * 2, indexing="ij")
    assert np.array_equal(np.clip(found.value(x, y), -128, 127), op.value(x, y))
    for parts in (found.low, found.high):
        assert all(-(2**15) <= part < 2**15 for part in parts)
    assert found.p == found.low[0] + (found.high[0] << 15)


def test_more_bits_find_what_fewer_do_not() -> None:
    """Factors of a network's sum, for which no form with 21 bits was found."""
    made = (Factor(1418878774, -1), Factor(2**30, 0), Factor(1092662095, -18))
    op = FixedSum(DType.INT8, -67, -128, 127, (-128, -64), made, 20)
    found = linear_sum(op, (DType.INT8, DType.INT8))
    assert found is not None and max(found.p, found.q) >= 2**21
    x, y = np.meshgrid(*[np.arange(-128, 128)] * 2, indexing="ij")
    assert np.array_equal(np.clip(found.value(x, y), -128, 127), op.value(x, y))
    assert np.abs(x * found.p + y * found.q + found.c).max() < 2**31


def test_what_would_not_fit_has_none() -> None:
    op = fixed_sum(300.0, 1.0, zero=0)
    assert linear_sum(op, (DType.INT8, DType.INT8)) is None
