"""How right the outputs of a network are: classes against labels, values against values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cannery.errors import OptionError
from cannery.ir.registry import RefArray

#: Of two classes, one output says the second above this.
HALF = 0.5
#: Normal deviates within which 95% lie.
_DEVIATES = 1.96


@dataclass(frozen=True)
class Score:
    """Of one output: parts of the labels that come first, or among the first five (with more
    classes than that), or the errors of values; None where it is not that.

    `low` and `high` bound what `top1` would be of endless samples, with 95% confidence (Wilson).
    """

    name: str
    labels: int
    top1: float | None = None
    top5: float | None = None
    low: float | None = None
    high: float | None = None
    rms_error: float | None = None
    mean_error: float | None = None
    largest_error: float | None = None


@dataclass(frozen=True)
class Judged:
    """A score, and label by label whether the first class was right, or how far off the value."""

    score: Score
    right: NDArray[np.bool_] | None = None


def judge(name: str, outputs: RefArray, labels: RefArray, where: str) -> Judged:
    """Compare an output of all samples, one per row, with its labels. Raises OptionError.

    Integers are classes: one per sample, or one for each place of an output that has an axis of
    classes more. Rows with a single 1 say the same. Other floats are values to be met.
    """
    outputs, labels = _squeezed(outputs), _squeezed(labels)
    classes = _one_hot(outputs, labels)
    if classes is None and labels.dtype.kind in "iub":
        classes = labels
    if classes is None:
        return _values(name, outputs, labels, where)
    scores = _by_class(outputs, classes, where)
    wanted = classes.reshape(-1).astype(np.int64)
    count = scores.shape[1]
    if wanted.size and not 0 <= wanted.min() <= wanted.max() < count:
        raise OptionError(
            f"labels of {name!r} go from {wanted.min()} to {wanted.max()}, there are {count} "
            "classes", where=where, cure=f"number classes from 0 to {count - 1}",
        )  # fmt: skip
    places = _rank(scores, wanted)
    right = places < 1
    top1 = float(right.mean())
    low, high = _wilson(top1, len(right))
    top5 = float((places < 5).mean()) if count > 5 else None
    return Judged(Score(name, len(right), top1, top5, low, high), right)


def _squeezed(array: RefArray) -> RefArray:
    """Without axes of 1 after the first."""
    return array.reshape(array.shape[0], *(n for n in array.shape[1:] if n != 1))


def _one_hot(outputs: RefArray, labels: RefArray) -> RefArray | None:
    """The class of each row that holds a single 1; None if they are not all such."""
    if labels.shape != outputs.shape or labels.ndim < 2 or labels.shape[-1] < 2:
        return None
    ones = (labels == 1).sum(axis=-1) == 1
    zeros = (labels == 0).sum(axis=-1) == labels.shape[-1] - 1
    return labels.argmax(axis=-1) if bool((ones & zeros).all()) else None


def _by_class(outputs: RefArray, classes: RefArray, where: str) -> NDArray[np.float64]:
    """Scores with the classes in the columns, one row per label."""
    found = outputs.astype(np.float64)
    if found.size == classes.size:  # one number says which of two classes it is
        sure = found.reshape(-1, 1) - HALF
        return np.concatenate([-sure, sure], axis=1)
    for axis in (found.ndim - 1, *range(1, found.ndim - 1)):
        if axis and found.shape[:axis] + found.shape[axis + 1 :] == classes.shape:
            return np.moveaxis(found, axis, -1).reshape(-1, found.shape[axis])
    raise OptionError(
        f"labels of shape {classes.shape} do not belong to outputs of shape {found.shape}",
        where=where, cure="give one class per sample, or one for each place of an output",
    )  # fmt: skip


def _rank(scores: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes come before the wanted one; of equal ones the first does. NaN is last."""
    own = np.take_along_axis(scores, wanted[:, None], axis=1)
    columns = np.arange(scores.shape[1])
    before = (scores > own) | ((scores == own) & (columns < wanted[:, None]))
    found: NDArray[np.int64] = np.where(
        np.isnan(own[:, 0]), scores.shape[1], before.sum(axis=1, dtype=np.int64)
    )
    return found


def _wilson(part: float, count: int) -> tuple[float, float]:
    """Between what the part of endless samples lies (Wilson, 1927)."""
    z = _DEVIATES**2 / count
    middle = (part + z / 2) / (1 + z)
    half = sqrt(part * (1 - part) * z + z * z / 4) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)


def _values(name: str, outputs: RefArray, labels: RefArray, where: str) -> Judged:
    if labels.dtype.kind != "f" or labels.size != outputs.size:
        raise OptionError(
            f"labels {labels.dtype}{labels.shape} do not belong to outputs of shape "
            f"{outputs.shape}", where=where,
            cure="give whole numbers for classes, or a float for each value of the output",
        )  # fmt: skip
    off = np.abs(outputs.astype(np.float64) - labels.astype(np.float64).reshape(outputs.shape))
    rms, mean, worst = sqrt(float(np.square(off).mean())), float(off.mean()), float(off.max())
    return Judged(
        Score(name, labels.size, rms_error=rms, mean_error=mean, largest_error=worst)
    )  # fmt: skip


def judge_all(
    outputs: Mapping[str, RefArray], labels: Mapping[str, RefArray], where: str
) -> list[Judged]:
    """The same of every output that has labels."""
    return [judge(name, outputs[name], labels[name], where) for name in outputs if name in labels]


def in_chunks(
    run: Callable[[Sequence[RefArray]], Sequence[RefArray]], arrays: Sequence[RefArray], size: int
) -> list[RefArray]:
    """What a network gives for all samples, computed this many at a time."""
    count = len(arrays[0])
    parts = [run([a[k : k + size] for a in arrays]) for k in range(0, count, size)]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]
