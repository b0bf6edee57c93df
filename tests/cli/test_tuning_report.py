"""The table of autotune: what it shows of a layer, and the line that explains odd choices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cannery.cli.tuning_report import as_dict, print_report
from cannery.measure.cache import Measurement
from cannery.schedule.program import Choice
from cannery.target.runner import Origin
from cannery.tuning.contests import Ranked
from cannery.tuning.optimize import Tried
from cannery.tuning.outcome import LayerOutcome, Outcome
from needs import need_toolchain
from tuning.toy import ISA, Toy, network, option, singles

GRAPH = network(layers=1)
STEP = singles(GRAPH)[0].step


def tried(source: str, target: str, us: float, fault: str = "", tile: int = 1) -> Tried:
    made = option(GRAPH, STEP, source, target, us)
    choice = Choice(Toy(), {"from": source, "to": target, "tile": tile}, "host", us)
    return Tried(Ranked(choice, us), Measurement(0.0, fault, us), not fault, made)


def report(*candidates: Tried) -> Outcome:
    """A layer for which the first candidate was chosen."""
    layer = LayerOutcome(0, STEP, 1000, candidates, candidates[0].ranked.choice)
    toolchain = need_toolchain(ISA.name)
    return Outcome(
        toolchain, Origin.HOST, 1.0, (layer,), 2.0, 1.0, 0.0, 1, 1.0, 3, Path("r.json"), True
    )


@pytest.mark.parametrize(
    ("others", "explained"),
    [
        ([("planar", "nhwc", 3.0, "")], False),
        ([("planar", "nhwc", 1.0, "")], True),
        ([("planar", "nhwc", 1.0, "writes beyond its output")], False),
        ([], False),
    ],
)
def test_one_line_tells_why_the_chosen_one_is_slower(
    others: list[tuple[str, str, float, str]],
    explained: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_report(report(tried("nhwc", "nhwc", 2.0), *(tried(*other) for other in others)))
    told = capsys.readouterr().out
    assert told.count("Where another candidate is faster alone") == int(explained)
    assert ("other layout" in told.partition("\n\n")[0]) == any(not o[3] for o in others)


def test_a_negative_margin_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(tried("nhwc", "nhwc", 2.0), tried("nhwc", "nhwc", 1.9, tile=2)))
    table, why, *_ = capsys.readouterr().out.split("\n\n")
    assert "-5.0%" in table
    assert "negative margin" in why


def test_times_of_an_emulator_are_called_that(capsys: pytest.CaptureFixture[str]) -> None:
    for origin, title in ((Origin.HOST, "  us  "), (Origin.EMULATED, "  emulated us  ")):
        print_report(replace(report(tried("nhwc", "nhwc", 2.0)), origin=origin))
        assert title in capsys.readouterr().out.splitlines()[0]


def test_json_tells_what_the_budget_left_out() -> None:
    found = as_dict(report(tried("nhwc", "nhwc", 2.0)))
    assert (found["not_measured"], found["measured_in_part"]) == ([], [])
