"""Scores of outputs, worked out by hand; and which samples are for what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.execution.accuracy import judge
from cannery.execution.labelled import CALIBRATING, PART, read_labelled, split_off, without
from cannery.ir.tensor import DType, TensorType
from cannery.npz import read_array_or_arrays

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4], [np.nan, 1, 2]], np.float32)


@pytest.mark.parametrize(
    ("labels", "right"),
    [
        ([1, 0, 2, 2], [1, 1, 1, 1]),
        ([1, 1, 2, 0], [1, 0, 1, 0]),  # of equal scores the first counts; NaN is never right
        ([0, 2, 1, 1], [0, 0, 0, 0]),
    ],
)
def test_the_first_class(labels: list[int], right: list[int]) -> None:
    ways = (np.array(labels), np.array(labels, np.uint8)[:, None], np.eye(3)[labels])
    for given in ways:
        found = judge("y", SCORES, given, "labels")
        assert found.right is not None and found.right.tolist() == [bool(r) for r in right]
        assert found.score.top1 == sum(right) / 4 and found.score.top5 is None
        assert found.score.low is not None and found.score.high is not None
        assert 0 <= found.score.low <= found.score.top1 <= found.score.high <= 1


def test_the_first_five_of_more_classes() -> None:
    scores = np.tile(np.arange(8, dtype=np.float32), (8, 1))
    found = judge("y", scores[:, None, None, :], np.arange(8), "labels").score
    assert (found.top1, found.top5) == (1 / 8, 5 / 8)


def test_the_interval_is_wilsons() -> None:
    """Of 10 among 20: Newcombe (1998) and every table."""
    labels = np.array([1] * 10 + [0] * 10)
    found = judge("y", np.tile(np.array([[0.0, 1.0]]), (20, 1)), labels, "labels").score
    assert (found.low, found.high) == (
        pytest.approx(0.2993, abs=1e-4),
        pytest.approx(0.7007, abs=1e-4),
    )


def test_one_output_says_which_of_two() -> None:
    outputs = np.array([[0.2], [0.9], [0.6], [0.4]], np.float32)
    found = judge("y", outputs, np.array([0, 1, 0, 1]), "labels")
    assert found.right is not None and found.right.tolist() == [True, True, False, False]


@pytest.mark.parametrize("axis", [1, 3])
def test_classes_of_every_place(axis: int) -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(2, 4, 5, 3)).astype(np.float32)
    best = scores.argmax(axis=3)
    labels = best.copy()
    labels[0, 0, 0] = (labels[0, 0, 0] + 1) % 3
    found = judge("y", np.moveaxis(scores, 3, axis), labels, "labels").score
    assert (found.labels, found.top1) == (40, 39 / 40)


@pytest.mark.parametrize(
    "row", [[1.0, 0.5, 0.0], [1.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, -1.0, 0.0]]
)
def test_rows_that_are_no_classes_are_values(row: list[float]) -> None:
    labels = np.array([[1.0, 0.0, 0.0], row])
    found = judge("y", np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]]), labels, "labels").score
    assert found.top1 is None


def test_values() -> None:
    outputs = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    found = judge("y", outputs, np.array([[1.0, 2.0], [3.0, 8.0]]), "labels")
    score = found.score
    assert found.right is None and score.top1 is None
    assert (score.rms_error, score.mean_error, score.largest_error) == (2.0, 1.0, 4.0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 1, 3, 0]), "go from 0 to 3, there are 3 classes"),
        (np.array([0, -1, 2, 0]), "go from -1"),
        (np.array([0, 1, 2]), "do not belong"),
        (np.array([0.5, 1.5, 2.0, 3.0]), "do not belong"),
        (np.array(["a", "b", "c", "d"]), "do not belong"),
    ],
)
def test_labels_that_do_not_fit(labels: np.ndarray, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(OptionError, match=message):
        judge("y", SCORES, labels, "labels")


TYPES = {"x": TensorType((1, 2, 2), DType.FLOAT32)}


def samples(count: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(count).normal(size=(count, 2, 2)).astype(np.float32)


def test_what_calibrates_is_not_evaluated() -> None:
    for count in (PART, 50, 4 * CALIBRATING, 5000):
        x, y = samples(count), np.arange(count)
        calibrating, rest = split_off(read_labelled({"x": x}, {"y": y}, TYPES, ["y"]))
        assert calibrating.count == min(CALIBRATING, count // PART)
        both = np.concatenate([calibrating.labels["y"], rest.labels["y"]])
        assert sorted(both) == list(range(count))
        for part in (calibrating, rest):
            assert np.array_equal(part.inputs["x"], x[part.labels["y"]])
        assert calibrating.count == 1 or calibrating.labels["y"].max() > count / 2, (
            "spread over all"
        )
    with pytest.raises(OptionError, match="too few"):
        split_off(read_labelled({"x": samples(3)}, {"y": np.arange(3)}, TYPES, ["y"]))


def test_samples_of_the_calibration_are_left_out() -> None:
    x = samples(6)
    read = read_labelled({"x": x}, {"y": np.arange(6)}, TYPES, ["y"])
    left = without(read, [{"x": x[2:3]}, {"x": x[4:5]}, {"x": x[4:5] + 1}])
    assert left.labels["y"].tolist() == [0, 1, 3, 5]
    assert without(read, [{"x": x[2:3] + 1}]) is read
    with pytest.raises(OptionError, match="every sample is one of --calibration"):
        without(read, [{"x": x[k : k + 1]} for k in range(6)])


def test_files(tmp_path: Path) -> None:
    x = samples(5).astype(np.float64)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "y.npz", np.arange(5))  # a single array needs no name
    found = read_labelled(tmp_path / "x.npy", tmp_path / "y.npz", TYPES, ["scores"])
    assert found.inputs["x"].dtype == np.float32 and found.count == 5
    assert found.labels["scores"].tolist() == [0, 1, 2, 3, 4]
    whole = (tmp_path / "x.npy").read_bytes()
    for data in (whole[:-1], whole + b"x", whole[:20], b"", b"text"):
        (tmp_path / "bad.npy").write_bytes(data)
        with pytest.raises(OptionError, match="not a valid"):
            read_array_or_arrays(tmp_path / "bad.npy")
    with pytest.raises(OptionError, match="No such file"):
        read_array_or_arrays(tmp_path / "none.npy")


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        ({"x": samples(3)}, {"y": np.arange(4)}, "different numbers of samples"),
        ({"x": samples(3)[:0]}, {"y": np.arange(0)}, "or none"),
        ({"x": samples(3)[:, :1]}, {"y": np.arange(3)}, r"has shape \(3, 1, 2\), \(n, 2, 2\)"),
        ({"x": samples(3).astype(np.int32)}, {"y": np.arange(3)}, "element type int32"),
        ({"x": samples(3), "z": samples(3)}, {"y": np.arange(3)}, "unknown array 'z'"),
        ({"x": samples(3)}, {"y": np.arange(3), "q": np.arange(3)}, "unknown array 'q'"),
        ({"x": np.float32(1)}, {"y": np.arange(3)}, "no axis of samples"),
        ({"x": samples(3)}, {}, "no array 'y'"),
        ({"x": samples(3) * np.float32(np.nan)}, {"y": np.arange(3)}, "'x' is not finite"),
        ({"x": samples(3)}, {"y": np.array([0, 1, np.inf])}, "'y' is not finite"),
    ],
)
def test_what_does_not_fit(data: object, labels: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_labelled(data, labels, TYPES, ["y"])  # type: ignore[arg-type]
