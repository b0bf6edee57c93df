"""Sums that kernels make without a look at their size stay within what int32 or float32 holds.

Each limit is as large as it may be: one more would not be exact, or nearly so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.quantized.arithmetic import EXACT_SUM, LARGEST_SUM
from cannery.ops.quantized.softmax import LEAST, QuantizedSoftmax, bits
from cannery.passes import run_passes
from cannery.quantization.calibration import Observed, Spread
from cannery.quantization.dense import why_float
from cannery.quantization.means import LEAST_BOUND, mean_limit, why_no_mean
from frontends.onnx_models import load, model, node

SEEN = Observed((), (), {name: Spread(1.0, 1.0) for name in "xy"})


def test_exponentials_of_a_softmax_add_up_within_int32() -> None:
    """Of all lengths that it takes; the largest exponential is a power of two."""
    for length in range(1, 2**16 + 1):
        largest = 2 ** bits(length)
        assert largest <= EXACT_SUM  # each is exact in float32
        assert length * largest <= LARGEST_SUM
        assert bits(length) == 24 or 4 * length * largest > LARGEST_SUM


@pytest.mark.parametrize("length", [2, 64, 65, 129])
def test_no_exponential_of_a_softmax_exceeds_that_of_the_largest_number(length: int) -> None:
    """Whose exponential is 1 to the last bit, however close the others are."""
    below = -np.concatenate([[0.0], np.geomspace(1e-9, -LEAST, 1000)])
    rows = np.full((len(below), length), -1e3)
    rows[:, 0], rows[:, 1] = 0.0, below
    (y,) = QuantizedSoftmax().reference(rows)
    assert (y[:, 1] <= y[:, 0]).all()
    assert y[-1, 0] == 1.0
    (equal,) = QuantizedSoftmax().reference(np.zeros((1, length)))
    assert np.allclose(equal * length, 1.0, rtol=2e-7)


def pooled(kernel: tuple[int, int]) -> Graph:
    b = GraphBuilder("net")
    x = b.input("x", (1, *kernel, 1))
    pool = AveragePool(kernel, (1, 1), ((0, 0), (0, 0)), (1, 1))
    b.output(b.node(pool, [x], name="y"))
    return b.build()


@pytest.mark.parametrize("columns", [1, 2, 511, 512, 513, 1023, 1024, 65_000, 132_104, 132_105])
def test_integers_are_as_fine_as_means_of_them_are_exact(columns: int) -> None:
    graph = pooled((1, columns))
    limit = mean_limit(graph, SEEN, graph.nodes[0])
    exact = EXACT_SUM // columns
    assert limit == (exact if exact >= LEAST_BOUND else 0)
    assert columns * limit <= 2**24
    assert (why_no_mean(graph, SEEN, graph.nodes[0]) == "it has too many terms") is (not limit)


@pytest.mark.parametrize(("kernel", "exact"), [((31, 33), True), ((32, 32), False)])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_windows_of_bytes_are_added_exactly(
    kernel: tuple[int, int], exact: bool, dtype: DType
) -> None:
    """Of a single channel, in float32; words are added as integers."""
    b = GraphBuilder("net")
    x, w = b.input("x", (1, *kernel, 2)), b.constant("w", np.ones((*kernel, 1, 2), np.float32))
    alone = Conv((1, 1), ((0, 0), (0, 0)), (1, 1), 2)
    b.output(b.node(alone, [x, w], name="y"))
    graph = b.build()
    fault = "" if exact or dtype is DType.INT16 else "its window is too large for bytes"
    assert why_float(graph, SEEN, dtype, graph.nodes[0]) == fault


@pytest.mark.parametrize(
    ("dtype", "columns", "exact"),
    [("uint8", 65_793, True), ("uint8", 65_794, False), ("int8", 65_793, True),
     ("int8", 65_794, False), ("int16", 512, True), ("int16", 513, False)],
)  # fmt: skip
def test_means_of_stored_integers_are_exact(
    dtype: str, columns: int, exact: bool, tmp_path: Path
) -> None:
    """Of as many as can be added in float32, whatever they are."""
    zero = np.zeros((), dtype)
    scales: dict[str, Any] = {"s": np.float32(0.01), "z": zero}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["x/q"]),
        node("DequantizeLinear", ["x/q", "s", "z"], ["x/dq"]),
        node("GlobalAveragePool", ["x/dq"], ["g"]),
        node("QuantizeLinear", ["g", "s", "z"], ["g/q"]),
        node("DequantizeLinear", ["g/q", "s", "z"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 1, 1, columns)}, weights=scales, opset=21)
    found = [n.op.kind for n in run_passes(load(tmp_path, proto)).nodes]
    assert ("QuantizedAveragePool" in found) is exact, found
