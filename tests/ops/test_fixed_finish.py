"""Products of 64 bits in the place of those with float64."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import away
from cannery.ops.quantized.fixed_finish import long_product
from cannery.ops.quantized.matmul import QuantizedMatMul

OP = QuantizedMatMul(dtype=DType.INT8, zero=-7, held=(-128, 127))


@pytest.mark.parametrize("factor", [0.0137, 0.00123, 0.037, 1.7e-5])
def test_results_are_those_of_doubles(factor: float) -> None:
    sums = np.arange(-40_000, 40_000)[:, None]
    factors = np.asarray([factor, factor / 3])
    found = long_product(OP, factors, np.full(2, 40_000))
    assert found is not None
    expected = np.clip(away(sums * factors) - 7, -128, 127)
    assert np.array_equal(np.clip(found.value(sums), -128, 127), expected)


def test_halves_go_away_from_zero_so_some_factors_have_none() -> None:
    """Of -2 times 1/4 doubles make -1, and the product that rounds halves up 0."""
    assert long_product(OP, np.asarray([0.25]), np.asarray([100])) is None
