"""Lookup tables of activations: which functions have one, and how far it is off."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.registry import Elementwise
from cannery.ops.elementwise import Gelu, HardSigmoid, Relu, Sigmoid, Softsign, Tanh
from cannery.ops.quantized.table import MOST_PIECES, ONE, make_table, sized_table


@pytest.mark.parametrize("op", [Sigmoid(), Tanh(), HardSigmoid()])
def test_tables_are_as_precise_as_they_say(op: Elementwise) -> None:
    table = make_table((op,))
    assert table is not None
    assert len(table.entries) <= MOST_PIECES
    x = np.linspace(-40.0, 40.0, 200_001).astype(np.float32)
    found = table.lookup(x * np.float32(table.scale)).astype(np.float64) * table.unit
    (expected,) = op.reference(x.astype(np.float64))
    assert np.abs(found - expected).max() <= 1.05 * table.error <= 1.5 / ONE


@pytest.mark.parametrize("op", [Relu(), Gelu(), Softsign()])
def test_functions_that_go_on_have_none(op: Elementwise) -> None:
    assert make_table((op,)) is None


def test_no_function_has_none() -> None:
    assert make_table(()) is None


@pytest.mark.parametrize(
    ("slope", "size"),
    [
        (1.0, (64, 1.0)), (1 / 2, (64, 1.0)), (1 / 4, (64, 2.0)), (1 / 8, (64, 4.0)),
        (1 / 64, (64, 32.0)), (1 / 63, (128, 32.0)), (1 / 65, None), (1 / 100, None),
    ],
)  # fmt: skip
def test_tables_are_as_small_as_can_be(slope: float, size: tuple[int, float] | None) -> None:
    """A straight line needs no more than the fewest pieces if its ends are ends of pieces."""
    table = make_table((HardSigmoid(slope, 0.5),))
    assert (table and (len(table.entries), table.limit)) == size


def test_curves_take_more_pieces() -> None:
    sizes = [(t and (len(t.entries), t.limit)) for t in map(make_table, ((Sigmoid(),), (Tanh(),)))]
    assert sizes == [(MOST_PIECES, 16.0), (MOST_PIECES, 8.0)]


@pytest.mark.parametrize(
    ("op", "limits"), [(Sigmoid(), [8.0, 16.0, 16.0]), (Tanh(), [4.0, 8.0, 8.0])]
)
def test_tables_of_a_size_take_the_range_where_they_err_least(
    op: Elementwise, limits: list[float]
) -> None:
    ranges = []
    for pieces in (64, 256, 1024):
        table = sized_table((op,), pieces)
        assert table and len(table.entries) == pieces
        x = np.linspace(-40.0, 40.0, 50_001).astype(np.float32)
        found = table.lookup(x * np.float32(table.scale)).astype(np.float64) * table.unit
        assert np.abs(found - op.reference(x.astype(np.float64))[0]).max() <= 1.05 * table.error
        ranges.append(table.limit)
    assert ranges == limits
    assert sized_table((Relu(),), 64) is None
