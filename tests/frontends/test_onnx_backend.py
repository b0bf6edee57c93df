"""The node tests of the onnx package: what passed stays so, and nothing is computed wrongly.

`python tests/frontends/onnx_backend.py --write` renews the list of what passes.
"""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from frontends.onnx_backend import cases, operator_of, read_passed, run_all


@pytest.mark.parametrize("weights", [False, True], ids=["inputs", "weights"])
def test_what_passed_passes_and_all_else_is_refused(weights: bool) -> None:
    outcomes = {outcome.name: outcome for outcome in run_all(weights=weights)}
    wrong = [o for o in outcomes.values() if o.status == "wrong"]
    assert not wrong
    listed = [name for names in read_passed().values() for name in names]
    lost = [n for n in listed if n in outcomes and outcomes[n].status != "passed"]
    assert not lost
    assert len(listed) > 1150


def test_the_list_is_about_cases_that_exist() -> None:
    known = {(operator_of(case), case.name) for case in cases()}
    listed = {(operator, name) for operator, names in read_passed().items() for name in names}
    # Other versions of onnx have other cases, but not altogether.
    assert len(listed & known) > len(listed) // 2
