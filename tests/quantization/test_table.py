"""Lookup tables of activations: which functions have one, and how far it is off."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.registry import Elementwise
from cannery.ops.elementwise import Gelu, HardSigmoid, Relu, Sigmoid, Softsign, Tanh
from cannery.ops.quantized.table import MOST_PIECES, ONE, make_table


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
