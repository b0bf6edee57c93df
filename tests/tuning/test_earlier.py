"""What is kept of the record that a tuning finds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cannery.choose.recorded_device import recorded_device
from cannery.tuning.earlier import Earlier
from choose.test_record import PATH, record_of
from devices import EPYC, SILVERMONT, device
from tuning.toy import ISA, network, singles


@pytest.mark.parametrize(("now", "kept"), [(EPYC, {1}), (SILVERMONT, set()), (None, set())])
def test_steps_without_time_keep_what_the_same_device_chose(
    now: dict[str, Any] | None, kept: set[int]
) -> None:
    graph = network()
    there = recorded_device(device(EPYC), None)
    record = msgspec.structs.replace(record_of(graph), device=there)
    earlier = Earlier(PATH, record, graph, singles(graph), ISA, 1e-4)
    assert len(earlier.choices) > 1
    assert earlier.untouched(device(now) if now else None, {1}).keys() == kept
