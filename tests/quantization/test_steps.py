"""How fine integers are, and which sums are too long for them."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.matmul.op import MatMul
from cannery.ops.quantized.arithmetic import LARGEST_SUM, largest_sums
from cannery.quantization.calibration import Observed, Spread
from cannery.quantization.dense import MOST_TERMS, why_float
from cannery.quantization.steps import choose_bound, round_weights


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("bound", [127, 8191, 32767])
def test_each_column_is_as_fine_as_its_sum_allows(dtype: DType, bound: int) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((40, 6)) * [1e-3, 1.0, 50.0, 0.0, 1.0, 1e4]
    w[1:, 4] = 0.0
    made = round_weights(w, bound, dtype)
    assert np.abs(made.integers * made.steps - w).max(axis=0).tolist() == pytest.approx(
        (made.steps / 2).tolist(), rel=0.5
    ) or np.all(np.abs(made.integers * made.steps - w) <= made.steps / 2 * (1 + 1e-9))
    largest = np.iinfo(dtype.value).max
    sums = largest_sums(made.integers, bound)
    assert sums.max() <= LARGEST_SUM
    for k in (0, 1, 2, 4, 5):
        # Either the largest weight or the sum uses the whole range.
        full = np.abs(made.integers[:, k].astype(np.int64)).max() == largest
        assert full or sums[k] > 0.98 * LARGEST_SUM - 20 * bound
    assert not made.integers[:, 3].any()


@pytest.mark.parametrize(("terms", "fits"), [(MOST_TERMS, True), (MOST_TERMS + 1, False)])
def test_long_sums_stay_floats(terms: int, fits: bool) -> None:
    b = GraphBuilder("net")
    x = b.input("x", (1, terms))
    w = b.constant("w", np.ones((terms, 1), np.float32))
    b.output(b.node(MatMul(), [x, w], name="y"))
    graph = b.build()
    seen = Observed((), (), {"x": Spread(1.0, 1.0), "y": Spread(1.0, 1.0)})
    assert (why_float(graph, seen, DType.INT16, graph.nodes[0]) == "") is fits


@pytest.mark.parametrize("limit", [3, 200, 1000, 5000, 20000, LARGEST_SUM])
@pytest.mark.parametrize("terms", [1, 30, 3000])
def test_values_are_as_fine_as_they_may_be_and_no_finer(limit: int, terms: int) -> None:
    """Whatever is read besides the product, such as a mean, bounds them."""
    w = np.random.default_rng(terms).standard_normal((terms, 5))
    for spread in (Spread(1.0, 0.3), Spread(8.0, 0.1)):
        for factors in ([w], [w, 100.0 * w], []):
            bound = choose_bound(factors, spread, DType.INT16, limit)
            assert 0 < bound <= min(limit, 32767)
            assert choose_bound(factors, spread, DType.INT16) >= bound
            assert choose_bound(factors, spread, DType.INT8, limit) == min(limit, 127)
            assert factors or bound == min(limit, 32767)
