"""The node tests of the onnx package: what passed stays so, and nothing is computed wrongly.

`python tests/frontends/onnx_backend.py --write` renews the list of what passes. Generated C runs
all cases on the portable target and the host's, one day with weights as inputs, the next as
initializers, and a tenth on the others; `-m slow` runs everything. Compilers optimise in the slow
tests only: it takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest

pytest.importorskip("onnx")

from frontends.onnx_backend import Outcome, inferred_types, read_passed, run_all
from frontends.onnx_cases import cases, operator_of
from needs import need_program, need_runner, need_toolchain

#: The cases on a target are cut into this many parts.
_PARTS = {"generic": 4, "native": 4, "sse2": 10, "avx2": 10, "neon32": 10, "neon64": 10}


def _check(outcomes: Sequence[Outcome]) -> None:
    """Nothing is wrong, and what is listed has passed."""
    wrong = [o for o in outcomes if o.status == "wrong"]
    assert not wrong
    found = {outcome.name: outcome.status for outcome in outcomes}
    listed = {name for names in read_passed().values() for name in names}
    assert not [name for name in listed & found.keys() if found[name] != "passed"]


@pytest.mark.parametrize("weights", [False, True], ids=["inputs", "weights"])
def test_what_passed_passes_and_all_else_is_refused(weights: bool) -> None:
    _check(run_all(weights=weights))
    assert sum(map(len, read_passed().values())) > 1500


@pytest.mark.parametrize("target", _PARTS)
def test_some_as_generated_code(target: str) -> None:
    need_program("ninja", "ninja-build")
    need_runner(need_toolchain(target))
    today = date.today().toordinal()
    part = slice(today % _PARTS[target], None, _PARTS[target])
    _check(run_all(weights=bool(today % 2), part=part, target=target, level="-O0"))


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True], ids=["inputs", "weights"])
@pytest.mark.parametrize("target", _PARTS)
def test_all_as_generated_code(target: str, weights: bool) -> None:
    need_program("ninja", "ninja-build")
    need_runner(need_toolchain(target))
    _check(run_all(weights=weights, target=target))


def test_types_are_those_that_onnx_infers() -> None:
    compared = list(inferred_types())
    assert not [(name, own, other) for name, own, other in compared if own != other]
    assert len(compared) > 3000


def test_the_list_is_about_cases_that_exist() -> None:
    known = {(operator_of(case), case.name) for case in cases()}
    listed = {(operator, name) for operator, names in read_passed().items() for name in names}
    # Other versions of onnx have other cases, but not altogether.
    assert len(listed & known) > len(listed) // 2
