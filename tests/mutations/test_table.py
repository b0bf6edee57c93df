"""The table of changes fits the code: `python tests/mutations/run.py` tries them."""

from __future__ import annotations

from mutations.change import faults
from mutations.table import CHANGES


def test_every_change_fits_and_names_tests_that_exist() -> None:
    assert list(faults(CHANGES)) == []


def test_all_parts_of_the_code_have_changes() -> None:
    folders = {change.file.removeprefix("generator/cannery/").split("/")[0] for change in CHANGES}
    assert {
        "ops",
        "passes",
        "tuning",
        "frontends",
        "quantization",
        "emit",
        "lowering",
        "choose",
    } <= folders
    assert {"layouts", "schedule", "target", "cli", "analysis", "runtime", "cmake"} <= folders
