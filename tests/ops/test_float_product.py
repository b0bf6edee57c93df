"""Products of bytes by floats."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import Factor, make_factor
from cannery.ops.fixed_point.float_product import float_product
from cannery.ops.fixed_point.pointwise import FixedProduct


def product(factor: Factor, zeros: tuple[int, int] = (-5, 17)) -> FixedProduct:
    return FixedProduct(DType.INT8, -9, -128, 127, zeros, factor)


@pytest.mark.parametrize("zeros", [(-128, -128), (0, 17)])
@pytest.mark.parametrize("real", [0.0039, 0.0041, 0.0173, 0.0008])
def test_all_results_are_the_same(real: float, zeros: tuple[int, int]) -> None:
    op = product(make_factor(real), zeros)
    found = float_product(op, (DType.INT8, DType.INT8))
    assert found is not None
    x, y = np.meshgrid(*[np.arange(-128, 128)] * 2, indexing="ij")
    products = (x - zeros[0]) * (y - zeros[1])
    assert np.array_equal(op.clamped(found.value(products)), op.value(x, y))


@pytest.mark.parametrize("factor", [Factor(2**30, -7), make_factor(200.0)])
def test_what_would_not_fit_has_none(factor: Factor) -> None:
    assert float_product(product(factor), (DType.INT8, DType.INT8)) is None
