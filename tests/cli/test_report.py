"""report and diff: from a model to a page, and to an exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import cannery
from cannery.choose.plan import make_segments
from cannery.choose.record import FORMAT, Record, make_entry, write_record
from cannery.cli import invoke
from cannery.errors import OptionError, ToolchainError
from cannery.measure.measure import Context
from cannery.options import make_options
from cannery.pipeline import import_graph
from cannery.reporting.measuring import make_subject, measure_all
from cannery.schedule.program import Choice
from cannery.schedule.schedule import legal
from cannery.target.isa import isa
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain
from needs import need_program, need_runner, need_toolchain
from tiny_models import write_tiny_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution."""
    need_program("ninja")
    need_toolchain("native")
    return write_tiny_model(tmp_path / "tiny.h5")


def test_report_is_one_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly")
    pytest.importorskip("onnx")
    tried, page, picture = (tmp_path / x for x in ("tried.json", "report.html", "choices.onnx"))
    layer = {"name": "scores", "chosen": "", "candidates": [{"schedule": "conv.odd{}", "us": 9.5}]}
    tried.write_text(json.dumps({"steps": [layer]}))
    words = ["report", str(model), "-o", str(page), "--seconds", "0.05", "--json"]
    assert invoke([*words, "--candidates", str(tried), "--onnx", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    (scores,) = (x for x in found["layers"] if x["name"] == "scores")
    assert scores["candidates"][0]["us"] == 9.5 and scores["roofline_us"] > 0
    assert 0 < scores["time_us"]["low"] <= scores["time_us"]["median"]
    assert found["sources"]["times"] == "measured" and found["time_us"]["high"] > 0
    text = page.read_text(encoding="utf-8")
    assert "conv.odd{}" in text and "00 scores" in text and "GFLOP/s" in text
    assert b"conv." in picture.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "choices.onnx", "report.html", "tiny.h5", "tried.json",
    ]  # fmt: skip


def test_a_microcontroller_has_guarantees(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly")
    need_runner(need_toolchain("cortex-m4"), strict=True)
    words = ["report", str(model), "-o", str(tmp_path / "r.html"), "--target", "cortex-m4"]
    assert invoke([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found, curve = told["guarantees"], told["ram_curve"]
    assert curve["least"] <= curve["points"][-1]["bytes"] and curve["points"][0]["time"] == 1
    assert told["sources"]["memory against time"] == "estimated"
    assert found["broken"] == [] and found["flow"]["loops"] and found["stack"][0]["bytes"] > 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "tiny_run_in" in text and "No plan of these steps takes less than 0 bytes" in text
    monkeypatch.setattr(Toolchain, "emulator", fails)
    assert invoke([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["guarantees"] is None and "none here" in said.err


def fails(toolchain: Toolchain) -> Runner:
    raise ToolchainError("none here", where="emulator")


def test_what_report_refuses(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly")
    pytest.importorskip("onnx")
    for wrong, message in (
        ({"seconds": 0.0}, "number of seconds"),
        ({"context": "hot"}, "neither"),
    ):
        with pytest.raises(OptionError, match=message):
            cannery.report(model, tmp_path / "r.html", **wrong)  # type: ignore[arg-type]
    words = ["report", str(model), "-o"]
    assert invoke([*words, str(tmp_path / "no" / "report.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    lost = str(tmp_path / "no" / "choices.onnx")
    assert invoke([*words, str(tmp_path / "r.html"), "--onnx", lost]) == 2
    assert "--onnx: there is no folder" in capsys.readouterr().err
    assert invoke([*words, str(tmp_path / "r.html"), "--candidates", str(model)]) == 2
    assert "not a report of tuning" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert invoke([*words, str(tmp_path / "r.html")]) == 2
    assert "pip install" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.h5"]


def test_what_is_measured_belongs_to_the_layers(model: Path) -> None:
    subject = make_subject(make_options(model, {"split": "2"}))
    (found,), (outputs,) = measure_all([subject], 0.05, Context.WARM)
    facts = subject.facts
    times = [found.layer_time(layer.number) for layer in facts.layers]
    assert found.time and [bool(time) for time in times] == [x.computes for x in facts.layers]
    assert all(time.low <= time.mid <= time.high for time in (found.time, *times) if time)
    checks = [(k, check.name) for k, check in found.layer_checks.items()]
    assert checks == [(x.number, x.name) for x in facts.layers if x.computes]
    assert 0 < max(found.errors.values()) < 1e-6 and len(outputs) == 4
    assert [bool(size) for size in found.code_bytes] == [x.computes for x in facts.layers]
    sizes = [level.bytes for level in found.bandwidths]
    assert sizes == [2**k for k in range(13, 28)][: len(sizes)] and len(sizes) > 3
    assert all(level.gb_per_s > 0 for level in found.bandwidths)


def diff(*words: str | Path, code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """What diff prints; B may take as long as it likes, as the machine is busy."""
    short = ["--seconds", "0.05", "--max-slower", "1000"]
    assert invoke(["diff", *map(str, words), *short]) == code
    return capsys.readouterr().out


def test_diff_of_the_same(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(diff(model, model, "--json", code=0, capsys=capsys))
    assert found["output_differences"] == {"scores": 0.0} and found["worse"] == []
    assert found["bytes"]["weights"][0] == found["bytes"]["weights"][1] > 0
    (layer,) = (layer for layer in found["layers"] if layer["a"] == ["scores"])
    assert layer["b"] == ["scores"] and layer["time_us"][0]["low"] > 0


def test_diff_of_a_larger_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly")
    other, page = write_tiny_model(tmp_path / "other.h5", size=5), tmp_path / "diff.html"
    text = diff(model, other, "-o", page, "--max-difference", "1e-3", code=1, capsys=capsys)
    assert "bytes of weights, A" in text and "worse: output 'scores' of B differs by" in text
    assert "B: other.h5" in page.read_text(encoding="utf-8")


def test_diff_under_an_emulator_counts(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_program(need_toolchain("aarch64-a53").target.emulator[0])
    # Two models compute what they like, unless a bound is given.
    words = (model, write_tiny_model(tmp_path / "other.h5", seed=2), "--target", "aarch64-a53")
    found = json.loads(diff(*words, "--count", "--json", code=0, capsys=capsys))
    one, other = found["instructions"]
    assert one == other > 0 and found["time_us"] == [None, None]
    assert found["verdict"] == "no difference"
    assert found["output_differences"]["scores"] > 1e-3


def test_diff_of_records_of_different_targets_says_so(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_runner(need_toolchain("avx2"))
    one, _ = write_records(model, tmp_path)
    content = json.loads(one.read_text())
    other = tmp_path / f"{model.stem}.sse2.tuning.json"
    other.write_text(json.dumps({**content, "target": "sse2", "isa": "sse2", "steps": []}))
    words = (one, other, "--model", model, "--max-larger", "1e9")
    text = diff(*words, code=0, capsys=capsys)
    told = next(line for line in text.splitlines() if line.startswith("of different targets: "))
    assert "A for avx2 (avx2)" in told and "B for sse2 (sse2)" in told
    again = diff(one, one, "--model", model, code=0, capsys=capsys)
    assert "different targets" not in again


def write_records(model: Path, folder: Path) -> tuple[Path, Path]:
    """Two records of a model of one layer, by another schedule each."""
    options = make_options(model, {"isa": ("avx2",)})
    graph, avx2 = import_graph(options), isa("avx2")
    (step,) = (segment.step for segment in make_segments(graph))
    paths = []
    for schedule in [s for s in legal(graph, step, avx2) if not s.inexact][:2]:
        choice = Choice(schedule, schedule.candidates(graph, step, avx2)[0], "device", 1.0)
        entry = make_entry(graph, step, avx2, choice, error=1e-7, runner_up=None)
        paths.append(folder / schedule.id / f"{model.stem}.avx2.tuning.json")
        paths[-1].parent.mkdir()
        write_record(
            paths[-1], Record(FORMAT, "0.1.0", model.stem, "avx2", "avx2", 64, "", {}, [entry])
        )
    one, other = paths
    return one, other


def test_diff_of_records(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("avx2"))
    one, other = write_records(model, tmp_path)
    assert invoke(["diff", str(one), str(other)]) == 2
    assert "there is no model called tiny next to it" in capsys.readouterr().err
    assert invoke(["diff", str(tmp_path / "no.tuning.json"), str(model)]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert invoke(["diff", str(model), str(model), "--model", str(model)]) == 2
    assert "neither side is a tuning record" in capsys.readouterr().err
    words = (one, other, "--model", model, "--max-larger", "1e9", "--json")
    found = json.loads(diff(*words, code=0, capsys=capsys))
    (layer,) = (layer for layer in found["layers"] if layer["a"] == ["scores"])
    names = [schedule.split("{")[0] for schedule in layer["schedules"]]
    assert names == [one.parent.name, other.parent.name]
    # One model: its outputs must be equal, except for rounding.
    assert found["output_differences"]["scores"] < 1e-5 and found["worse"] == []
