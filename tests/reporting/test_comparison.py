"""Which layers belong together, and when one network is worse than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cannery.measure.intervals import Interval
from cannery.reporting.comparison import (
    Comparison,
    Limits,
    compare,
    match_layers,
    output_differences,
    verdict,
)
from cannery.reporting.facts import Layer
from cannery.reporting.measuring import Measured
from reporting.examples import facts, measured

NET = facts()
SAME = Limits(0.03, 0.0, None)


def layer(number: int, *nodes: str, kind: str = "Conv", shape: str = "float32[1x4]") -> Layer:
    """A layer of such nodes."""
    return replace(
        NET.layers[0], number=number, name=nodes[0], nodes=nodes, kind=kind, shapes=(shape,)
    )


def matched(one: Sequence[Layer], other: Sequence[Layer]) -> list[tuple[list[int], list[int]]]:
    """The pairs by number."""
    return [
        ([layer.number for layer in a], [layer.number for layer in b])
        for a, b in match_layers(one, other)
    ]


def test_what_is_fused_is_compared_with_its_parts() -> None:
    one = [layer(0, "a", "b"), layer(1, "c"), layer(2, "d")]
    other = [layer(0, "a"), layer(1, "b", "c"), layer(2, "d")]
    assert matched(one, other) == [([0, 1], [0, 1]), ([2], [2])]
    one = [layer(0, "a"), layer(1, "b"), layer(2, "c")]
    assert matched(one, [layer(0, "a", "b", "c")]) == [([0, 1, 2], [0])]


def test_renamed_layers_are_found_by_kind_and_shape() -> None:
    one = [layer(0, "a"), layer(1, "b", kind="MaxPool"), layer(2, "c", shape="float32[1x9]")]
    other = [layer(0, "x"), layer(1, "y", shape="float32[1x9]"), layer(2, "z", kind="MaxPool")]
    assert matched(one, other) == [([0], [0]), ([1], [2]), ([2], [1])]


def test_what_is_only_in_one() -> None:
    one = [layer(0, "a"), layer(1, "b", kind="Tanh")]
    other = [layer(0, "a"), layer(1, "c", kind="Relu")]
    assert matched(one, other) == [([0], [0]), ([1], []), ([], [1])]


def test_verdicts() -> None:
    one, near, far = Interval(1.0, 2.0, 3.0), Interval(2.9, 3.5, 4.0), Interval(3.1, 3.5, 4.0)
    assert verdict((one, near)) == verdict((near, one)) == "no difference"
    assert (verdict((one, far)), verdict((far, one))) == ("slower", "faster")
    assert verdict((None, one)) == ""


def compared(scale: float, limits: Limits = SAME, *, difference: float = 0.0) -> Comparison:
    """The network with itself, times `scale`, with other outputs."""
    y = np.array([1.0, 2.0], np.float32)
    outputs = ([{"scores": y}], [{"other": y * (1 + difference)}])
    return compare((NET, NET), (measured(NET), measured(NET, scale)), outputs, limits)


def test_the_same_twice() -> None:
    found = compared(1.0)
    assert (found.verdict, found.worse) == ("no difference", ())
    assert {row.verdict for row in found.rows} == {"no difference"}
    assert found.differences == {"scores": 0.0}


def test_slower() -> None:
    found = compared(1.5)
    assert found.verdict == "slower" and {row.verdict for row in found.rows} == {"slower"}
    (sentence,) = found.worse
    assert sentence.startswith("B takes ")
    assert compared(1.5, replace(SAME, slower=0.6)).worse == ()
    # Slower for sure, but by less than is allowed; and faster.
    assert (compared(1.02).verdict, compared(1.02).worse) == ("slower", ())
    assert (compared(0.5).verdict, compared(0.5).worse) == ("faster", ())


def counted(*instructions: int) -> Measured:
    """The network without times: instructions by layer, and outside of them."""
    return replace(measured(NET, timed=False), instructions=instructions)


def test_instructions_are_compared_exactly() -> None:
    ones = [1000] * (len(NET.layers) + 1)
    a, b = counted(*ones), counted(1030, *ones[1:])
    found = compare((NET, NET), (a, b), ([], []), replace(SAME, slower=0.0))
    total = sum(ones)
    assert found.counts == (total, total + 30) and found.verdict == "more"
    assert [row.verdict for row in found.rows][:2] == ["more", "no difference"]
    assert found.rows[0].counts == (1000, 1030)
    assert found.worse == (f"B executes {total + 30:,} instructions, A {total:,}",)
    assert compare((NET, NET), (a, b), ([], []), SAME).worse == ()
    assert compare((NET, NET), (b, a), ([], []), replace(SAME, slower=0.0)).verdict == "fewer"


def test_larger() -> None:
    large = replace(NET, workspace_bytes=NET.workspace_bytes + 64)
    times, outputs = (measured(NET), measured(NET)), ([], [])
    (sentence,) = compare((NET, large), times, outputs, SAME).worse
    assert "bytes of workspace" in sentence
    assert compare((NET, large), times, outputs, replace(SAME, larger=1.0)).worse == ()
    assert compare((large, NET), times, outputs, SAME).worse == ()


def test_less_exact() -> None:
    wrong = replace(measured(NET), errors={"scores": 1e-3})
    (sentence,) = compare((NET, NET), (measured(NET), wrong), ([], []), SAME).worse
    assert sentence == "the error of B is 0.001, more than 0.0001"


def test_other_outputs() -> None:
    found = compared(1.0, difference=0.25)
    assert found.differences == {"scores": pytest.approx(0.25)} and found.worse == ()
    strict = replace(SAME, difference=0.2)
    (sentence,) = compared(1.0, strict, difference=0.25).worse
    assert sentence == "output 'scores' of B differs by 0.25"
    assert compared(1.0, strict, difference=0.1).worse == ()
    assert compared(1.0, strict, difference=float("nan")).worse != ()


def test_outputs_of_other_shapes() -> None:
    y = np.zeros(3, np.float32)
    assert output_differences([{"a": y}], [{"a": y[:2]}]) is None
    outputs = ([{"a": y}], [{"a": y[:2]}])
    times = (measured(NET), measured(NET))
    found = compare((NET, NET), times, outputs, replace(SAME, difference=0.1))
    assert found.worse == ("the outputs of A and B have different shapes",)


def test_without_times_nothing_is_slower() -> None:
    times = (measured(NET, timed=False), measured(NET, timed=False))
    found = compare((NET, NET), times, ([], []), SAME)
    assert (found.verdict, found.worse, found.as_dict()["time_us"]) == ("", (), [None, None])
