"""The least time of a layer, from peak and bandwidths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cannery.reporting.roofline import intensity, layer_roof
from reporting.examples import facts, measured

NET = facts()
LAYER = replace(NET.layers[0], macs=10_000, weight_bytes=4096, read_bytes=2048, written_bytes=1024)


def test_both_roofs() -> None:
    roof = layer_roof(NET, measured(NET), LAYER)
    assert roof is not None
    # 10 GFLOP/s; all of the network fits into 8 KB, of which 100 GB/s are read.
    assert roof.compute_us == pytest.approx(2 * 10_000 / 10e9 * 1e6)
    assert roof.memory_us == pytest.approx((4096 + 2048) / 100e9 * 1e6)
    assert (roof.us, roof.limit) == (roof.compute_us, "arithmetic")
    assert intensity(LAYER) == pytest.approx(20_000 / (4096 + 2048 + 1024))


def test_weights_come_from_where_the_network_fits() -> None:
    large = replace(NET, workspace_bytes=2**19)
    roof = layer_roof(large, measured(NET), replace(LAYER, macs=0))
    assert roof is not None and roof.limit == "memory"
    assert roof.memory_us == pytest.approx((4096 / 50e9 + 2048 / 100e9) * 1e6)
    cold = replace(measured(NET), context="cold")
    roof = layer_roof(NET, cold, LAYER)
    assert roof is not None
    assert roof.memory_us == pytest.approx((4096 / 5e9 + 2048 / 100e9) * 1e6)


def test_where_nothing_was_measured_there_is_none() -> None:
    assert layer_roof(NET, measured(NET, timed=False), LAYER) is None
    assert layer_roof(NET, measured(NET), replace(LAYER, computes=False)) is None
    assert intensity(replace(LAYER, macs=0)) is None
