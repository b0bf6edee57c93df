"""Contests: what follows from the times, and that Cannery's own program serves them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cannery.errors import ToolchainError
from isas import isa_words
from needs import need_program, need_toolchain
from networks import NETWORKS, write_network
from rivals.plot import as_svg
from rivals.report import as_absent, as_json, as_markdown, as_summary
from rivals.results import (
    Contest,
    Result,
    best_rival,
    gflops,
    lower_quartile,
    peaks,
    percent_of_peak,
    ratio,
    reasons,
)
from rivals.seeds import SEEDS, Figure, Seed, as_seed
from rivals.served import serve


def result(name: str, us: float, *, noop: float = 0.0, error: float = 0.0, isa: str = "") -> Result:
    return Result(name, "1", "", 1, us, noop, error, 1000, 10, isa, 100.0 if isa else 0.0)


OURS = result("Cannery", 10.0, isa="avx2")
QUICK = result("quick & <wrong>", 2.0, error=0.5)
FAST = result("fast", 25.0, noop=5.0)
SLOW = result("slow", 24.0, noop=1.0)
CONTEST = Contest("net", 250_000, (OURS, QUICK, SLOW, FAST), {"gone": "not installed"})


def test_lower_quartile() -> None:
    assert lower_quartile([5, 1, 4, 2, 3, 8, 7, 6]) == 3
    assert lower_quartile([9]) == 9


def test_the_time_without_calls_decides_and_wrong_outputs_do_not_count() -> None:
    assert best_rival(CONTEST) is FAST
    assert ratio(CONTEST, OURS) == pytest.approx(2.0)
    assert ratio(CONTEST, SLOW) == pytest.approx(20 / 23)


def test_threads_compare_with_as_many() -> None:
    pair = [replace(r, threads=2, us=r.us / 2) for r in (OURS, FAST)]
    contest = replace(CONTEST, results=(*CONTEST.results, *pair))
    assert ratio(contest, pair[0]) == pytest.approx(7.5 / 5)
    assert percent_of_peak(contest, pair[0]) == pytest.approx(50.0)
    lines = as_summary([contest]).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| net", "| net, 2 threads"]
    assert "fast, 2 threads" in as_markdown([contest])
    assert "MMAC, 2 threads" in as_svg([contest])


def test_a_network_that_is_as_fast_as_none_keeps_its_raw_time() -> None:
    assert result("noise", 3.0, noop=4.0).net_us == 3.0


def test_peaks() -> None:
    assert gflops(CONTEST, OURS) == pytest.approx(50.0)
    assert percent_of_peak(CONTEST, OURS) == pytest.approx(50.0)
    assert percent_of_peak(CONTEST, FAST) is None
    other = Result("Cannery b", "1", "", 1, 10.0, 0, 0, 1, 1, "avx2", 125.0)
    twice = Contest("net", 250_000, (OURS, other), {})
    assert peaks(twice) == {"avx2": 125.0}
    assert percent_of_peak(twice, OURS) == pytest.approx(40.0)


def test_tables() -> None:
    text = as_markdown([CONTEST])
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == ["quick & <wrong>", "Cannery", "fast", "slow"]
    assert "5.0e-01, out" in text
    assert "Without gone: not installed" in text
    assert "| net | 0.25 | 10 | 50 | fast | 20 | 2.00 |" in as_summary([CONTEST])
    (read,) = json.loads(as_json([CONTEST]))
    assert [row["net_us"] for row in read["results"]] == [10.0, 2.0, 23.0, 20.0]


def test_who_did_not_take_part() -> None:
    other = replace(
        CONTEST, network="other", absent={"gone": "not installed", "b": "no form for X(1)"}
    )
    lines = as_absent([CONTEST, other]).splitlines()
    assert lines[2:] == ["| b | no form for X | other |", "| gone | not installed | net, other |"]
    assert as_absent([replace(CONTEST, absent={})]) == ""


def test_a_rival_is_absent_if_none_of_its_forms_is_right() -> None:
    right, wrong = (replace(result("form", 1.0, error=e), rival="b") for e in (0.0, 0.5))
    absent = {
        ("a", "a nchw"): "no form for X",
        ("a", "a model"): "crashed",
        ("b", "b nchw"): "gone",
    }
    assert reasons(absent, [OURS, right, wrong]) == {"a": "crashed"}
    assert reasons({}, [wrong]) == {"b": "wrong outputs: off by 5.0e-01"}


def test_seeds_beside_cannery() -> None:
    seed = Seed("Seed", ("net", "new"), {"net": Figure(30.0, 20.0, 15.0)})
    lines = as_seed([CONTEST, replace(CONTEST, network="new")], seed).splitlines()
    assert lines[2] == "| net | 30 | 20, 15 | 1.50, 2.00 | 10 (avx2; ) | 20 (fast) |"
    assert lines[3] == "| new | - | - | - | 10 (avx2; ) | 20 (fast) |"
    assert all(name in NETWORKS for known in SEEDS.values() for name in known.networks)


def test_without_rivals() -> None:
    alone = Contest("net", 1, (OURS,), {})
    assert ratio(alone, OURS) is None
    assert "| none |" in as_summary([alone])


def test_picture_is_xml_and_leaves_out_who_is_wrong() -> None:
    root = ElementTree.fromstring(as_svg([CONTEST]))
    words = [element.text for element in root.iter() if element.text]
    assert "fast" in words
    assert not any("quick" in word for word in words)


def test_a_contestant_that_fails_tells_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such layer')"]
    with pytest.raises(ToolchainError, match="no such layer"):
        serve("rival", command, tmp_path)


def test_rivals_install_nothing(tmp_path: Path) -> None:
    """A rival that runs pip finds not even pip."""
    options = ["--dry-run", "--ignore-installed", "--no-deps", "pip"]
    command = [sys.executable, "-m", "pip", "install", *options]
    with pytest.raises(ToolchainError, match="No matching distribution found for pip"):
        serve("rival", command, tmp_path)


def test_what_will_be_pinned_sees_as_many_processors(tmp_path: Path) -> None:
    """Also before it is pinned: threads that are made at the start would be too many."""
    words = (
        "import json, os, sys; print(json.dumps("
        '{"remark": str(len(os.sched_getaffinity(0))), "outputs": []}), flush=True); '
        "sys.stdin.read()"
    )
    before = os.sched_getaffinity(0)
    served = serve("rival", [sys.executable, "-c", words], tmp_path, None, 1)
    assert served.remark == "1"
    assert os.sched_getaffinity(0) == before
    served.pin([min(before)])
    assert os.sched_getaffinity(served.process.pid) == {min(before)}
    served.end()


def test_a_contestant_that_ends_while_it_is_timed(tmp_path: Path) -> None:
    words = 'print(\'{"remark": "", "outputs": []}\'); raise SystemExit(\'out of memory\')'
    served = serve("rival", [sys.executable, "-c", words], tmp_path)
    served.process.wait()
    with pytest.raises(ToolchainError, match="out of memory"):
        served.sample()


def test_cannery_alone(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from rivals.contest import Noops, Settings, compare

    need_toolchain("native")
    need_program("ninja", "ninja-build")
    model = write_network("ball", tmp_path)
    settings = Settings(rivals=(), orders=("nhwc", "nchw"), threads=(1, 2), rounds=6)
    with ExitStack() as stack:
        noops = Noops(tmp_path / "noop", settings, stack)
        contest = compare(model, settings, tmp_path / "work", noops, as_given=False)
    assert contest.macs == 16352
    names = [(r.name, r.threads) for r in contest.results]
    assert names == [(f"Cannery {order}", n) for order in ("nhwc", "nchw") for n in (1, 2)]
    for found in contest.results:
        assert found.error < 1e-5
        assert 0 < found.us < 1e5
        assert found.library > 1000
        assert found.peak > 0


def test_native_is_what_is_meant_without_an_isa() -> None:
    assert [isa_words(name) for name in ("", "native", "avx2")] == [(), (), ("avx2",)]
