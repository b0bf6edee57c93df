"""Tunables as dataclasses, and as records hold them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cannery.ops.conv.direct_oc import Tunables
from cannery.schedule.params import as_params, typed
from cannery.schedule.schedule import MATH


@dataclass(frozen=True)
class Tile:
    """As schedules have them."""

    mr: int
    order: str
    joined: bool = False


def test_defaults_are_left_out_of_records() -> None:
    assert as_params(Tile(2, "nhwc")) == {"mr": 2, "order": "nhwc"}
    assert as_params(Tile(2, "nhwc", joined=True)) == {"mr": 2, "order": "nhwc", "joined": True}


def test_what_records_hold_becomes_the_same_again() -> None:
    for tile in (Tile(1, "planar"), Tile(3, "nhwc", joined=True)):
        assert typed(Tile, as_params(tile)) == tile


def test_the_form_of_an_activation_is_not_a_tunable() -> None:
    assert typed(Tile, {"mr": 2, MATH: "rational", "order": "nhwc"}) == Tile(2, "nhwc")


def test_what_a_schedule_does_not_know_is_a_defect() -> None:
    params = {"lanes": 4, "mr": 2, "nr": 1, "unroll": "kh", "broadcast": "set1"}
    assert typed(Tunables, params) == Tunables(4, 2, 1, "kh", "set1")
    with pytest.raises(TypeError, match="nc"):
        typed(Tunables, {**params, "nc": 1})
    with pytest.raises(TypeError, match="unroll"):
        typed(Tunables, {k: v for k, v in params.items() if k != "unroll"})
