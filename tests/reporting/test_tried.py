"""Candidates from what tuning printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cannery.errors import OptionError
from cannery.reporting.tried import Tried, read_tried
from reporting.examples import facts

NET = facts()
USED = NET.layers[0].schedule


def outcome(**step: Any) -> dict[str, Any]:
    """What autotune prints, in part."""
    first = {"name": NET.layers[0].name, "chosen": USED, "candidates": [], "margin": None}
    return {"target": "generic", "steps": [{**first, **step}]}


def test_the_fastest_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "tried.json"
    rows = [
        {"schedule": "slow{}", "us": 3.0, "error": 1e-7, "fault": "", "code_bytes": 1},
        {"schedule": "broken{}", "us": None, "error": 1.0, "fault": "wrong"},
        {"schedule": "estimated{}", "us": None, "estimated_us": 2.5, "error": 0.0},
        {"schedule": USED, "us": 2.0, "error": 0.0, "fault": ""},
    ]
    path.write_text(json.dumps(outcome(candidates=rows)))
    assert read_tried(path, NET) == {
        0: (
            Tried(USED, 2.0, 0.0, True),
            Tried("estimated{}", 2.5, 0.0, False, estimated=True),
            Tried("slow{}", 3.0, 1e-7, False),
            Tried("broken{}", None, 1.0, False, fault="wrong"),
        )
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "not a report of tuning"),
        ("[1]", "not a report of tuning"),
        (json.dumps({"steps": [{"name": 1}]}), "not a report of tuning"),
        (json.dumps(outcome(name="another")), "of another network than net"),
        (None, "cannot be read: No such file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "tried.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(OptionError, match=message):
        read_tried(path, NET)
