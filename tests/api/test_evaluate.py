"""Floats, int16 and int8 on labelled samples: the figures are those of the networks themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.api.evaluate import EvaluateResult, Precision
from cannery.cli import invoke
from cannery.errors import CanneryWarning, OptionError
from cannery.execution.accuracy import Score
from cannery.resources import ball_example_dir
from needs import need_program, need_toolchain

BALL = ball_example_dir() / "ball.h5"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Noise of several kinds, and what the network with floats makes of most of it."""
    need_program("ninja")
    need_toolchain("native")
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(4)
    x = (rng.random((96, 16, 16, 1)) ** rng.uniform(0.2, 4, (96, 1, 1, 1))).astype(np.float32)
    y = cannery.load(BALL)(x).argmax(axis=1)
    y[::10] = 1 - y[::10]  # of those after the first eight, nine
    np.savez(folder / "x.npz", image=x)
    np.save(folder / "y.npy", y)
    np.savez(folder / "calibration.npz", image=x[:8])
    return folder / "x.npz", folder / "y.npy", folder / "calibration.npz"


def test_the_figures_are_those_of_the_networks(files: tuple[Path, Path, Path]) -> None:
    data, labels, calibration = files
    found = cannery.evaluate(BALL, data, labels, calibration=calibration)
    x, y = np.load(data)["image"][8:], np.load(labels)[8:]
    assert (found.samples, found.left_out) == (88, 8)
    assert found.reference_samples == 16 and 0 < found.error < 1e-5
    right = {}
    for each in found.precisions:
        more = {} if each.name == "float" else {"quantize": each.name, "calibration": calibration}
        net = cannery.load(BALL, **more)  # type: ignore[arg-type]
        right[each.name] = net(x).argmax(axis=1) == y
        (score,) = each.scores
        assert score.top1 == pytest.approx(right[each.name].mean())
        assert each.us > 0 and each.constants > 0 and each.workspace > 0
        assert each.lost == (right["float"] & ~right[each.name]).sum() or each.name == "float"
        assert each.gained == (~right["float"] & right[each.name]).sum() or each.name == "float"
    assert [each.name for each in found.precisions] == ["float", "int16", "int8"]
    assert found.precisions[2].constants < found.precisions[0].constants / 2
    assert right["float"].mean() == pytest.approx((y.size - 9) / y.size), (
        "labels 10 to 90 are wrong"
    )


def test_some_samples_calibrate_where_no_others_do(files: tuple[Path, Path, Path]) -> None:
    data, labels, _ = files
    found = cannery.evaluate(BALL, data, labels, precisions=["int16"])
    assert (found.samples, found.left_out) == (72, 24)
    assert found.calibration.startswith("24 samples of the data")
    floats = cannery.evaluate(BALL, data, labels, precisions=["float"])
    assert (floats.samples, floats.calibration) == (96, "none")


def test_a_single_array_needs_no_name(files: tuple[Path, Path, Path]) -> None:
    x, y = np.load(files[0])["image"], np.load(files[1])
    named = cannery.evaluate(BALL, {"image": x}, {"scores": y}, precisions=["float"])
    plain = cannery.evaluate(BALL, x, y, precisions=["float"])
    assert plain.precisions[0].scores == named.precisions[0].scores
    with pytest.raises(OptionError, match="data: NoneType is neither a file nor arrays by name"):
        cannery.evaluate(BALL, None, y)  # type: ignore[arg-type]


def test_commands_in_warnings_can_be_given(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Nothing in them is of evaluation alone: neither its bound nor its temporary file."""
    data, labels, _ = files
    with pytest.warns(CanneryWarning, match="there is no tuning record") as caught:
        cannery.evaluate(BALL, data, labels, precisions=["float", "int8"], tuning=tmp_path)
    assert {w.filename for w in caught} == {__file__}
    texts = [str(w.message) for w in caught]
    assert any(
        text.endswith(f"(run cannery autotune {BALL} --tuning {tmp_path})") for text in texts
    )
    assert any("--quantize int8 and your samples)" in text for text in texts)


def test_a_bound_that_integers_miss(files: tuple[Path, Path, Path]) -> None:
    data, labels, _ = files
    found = cannery.evaluate(BALL, data, labels, max_loss=1e-9)
    assert [bool(each.why) for each in found.precisions] == [False, True, True]
    assert found.drop("int8") is None
    with pytest.raises(OptionError):
        cannery.evaluate(BALL, data, labels, max_loss=1e-9, precisions=["int8"])


def test_the_command(
    files: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, labels, calibration = files
    words = ["evaluate", str(BALL), "--data", str(data), "--labels", str(labels)]
    assert invoke([*words, "--calibration", str(calibration)]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["float", "int16", "int8"]
    assert "88 samples" in text and "8 samples used for calibration were left out" in text
    assert invoke([*words, "--precision", "float", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 96 and [p["name"] for p in found["precisions"]] == ["float"]
    values = tmp_path / "values.npz"
    scores = cannery.load(BALL)(np.load(data)["image"])
    np.savez(values, scores=scores + np.float32(0.5))
    assert invoke([*words[:-1], str(values), "--precision", "float"]) == 0
    text = capsys.readouterr().out
    assert text.split()[:2] == ["rms", "error"] and "0.5" in text and "95%" not in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--quantize", "int8"], "--precision chooses"),
        (["--batch", "2"], "--batch"),
        (["--target", "cortex-m7"], "cannot run here"),
        (["--data", "none.npz"], "No such file"),
    ],
)
def test_words_that_do_not_fit(
    files: tuple[Path, Path, Path], more: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    need_toolchain("cortex-m7")
    data, labels, _ = files
    words = ["evaluate", str(BALL), "--data", str(data), "--labels", str(labels), *more]
    assert invoke(words) == 2
    assert message in capsys.readouterr().err


def test_a_drop_is_the_worst_of_all_outputs() -> None:
    def scored(name: str, *parts: float) -> Precision:
        return Precision(name, tuple(Score("y", 10, part) for part in parts))

    found = EvaluateResult(
        "native", 10, "none", 0, 0.0, 0, (scored("float", 0.9, 0.8), scored("int8", 0.9, 0.5))
    )
    assert found.drop("int8") == pytest.approx(30) and found.drop("int16") is None


def test_a_drop_ends_with_one(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    data, labels, _ = files
    words = ["evaluate", str(BALL), "--data", str(data), "--labels", str(labels), "--max-drop", "2"]
    for drop, code in ((2.0, 0), (2.1, 1), (None, 0)):
        monkeypatch.setattr(EvaluateResult, "drop", lambda self, name, drop=drop: drop)
        assert invoke([*words, "--precision", "float", "--precision", "int16"]) == code
        assert ("points" in capsys.readouterr().out) is (drop is not None)
