"""Inputs for a network from a file or a seed, outputs to a file, and how far they are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from cannery.errors import OptionError
from cannery.execution.program import Sample
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, model_type
from cannery.ir.registry import RefArray
from cannery.ir.stimulus import best_stimulus, neighbours
from cannery.ir.tensor import DType, TensorType
from cannery.measure.trial import random_inputs
from cannery.npz import read_arrays

#: How many samples judge a network if none are given.
SEEDED_SAMPLES = 16
#: A relative change of an output that no error bound hides.
SHOWS = 3e-4


def seeded_samples(graph: Graph, count: int = SEEDED_SAMPLES) -> list[Sample]:
    """Samples of two kinds in turn, the same on every machine.

    The first kind are normal random floats and integers of the whole range, which may saturate
    every output; the second kind are noise that reveals wrong weights.
    """
    lively = neighbours(best_stimulus(graph, SHOWS).stimulus, count // 2)
    return [
        lively[k // 2].inputs(graph) if k % 2 else random_inputs(graph, k) for k in range(count)
    ]


#: Samples from users: a .npz file, or its arrays by name.
Samples = Path | Mapping[str, RefArray]


#: What the axes of samples have to be.
_AXES = "the first axis counts samples, the others are those of the model"


def read_samples(
    given: Samples, types: Mapping[str, TensorType], where: str = "samples", axes: str = _AXES
) -> list[dict[str, RefArray]]:
    """Samples from a .npz file with an array for each of `types`, or from such arrays.

    `where` is what errors call arrays without a file, `axes` what they say about shapes. An array
    has the shape of its tensor, or k times as long a first axis: k samples. Raises
    OptionError for names, shapes or element types that do not fit.
    """
    where = str(given) if isinstance(given, Path) else where
    arrays = read_arrays(given) if isinstance(given, Path) else given
    _check_names(arrays, types, where)
    split = {name: _split(arrays[name], types[name], f"{where}, {name!r}", axes) for name in types}
    counts = {name: len(parts) for name, parts in split.items()}
    if len(set(counts.values())) > 1:
        raise OptionError(f"different numbers of samples: {counts}", where=where)
    count = max(counts.values(), default=1)
    return [{name: parts[k] for name, parts in split.items()} for k in range(count)]


def model_samples(graph: Graph, given: Samples, names: Sequence[str]) -> list[Sample]:
    """Samples of `names`, inputs or outputs, in the form that `read_samples` takes, as in the
    model.

    Raises OptionError like `read_samples`.
    """
    types = {name: model_type(graph, name) for name in names}
    return [from_model(graph, sample) for sample in read_samples(given, types)]


def _check_names(found: Mapping[str, object], known: Mapping[str, object], where: str) -> None:
    missing = [name for name in known if name not in found]
    extra = [name for name in found if name not in known]
    if missing or extra:
        what = [f"no array {name!r}" for name in missing]
        what += [f"unknown array {name!r}" for name in extra]
        raise OptionError(", ".join(what), where=where, cure=f"it needs: {', '.join(known)}")


def _split(array: RefArray, type_: TensorType, where: str, axes: str) -> Sequence[RefArray]:
    if array.dtype == np.float16 and type_.dtype is DType.FLOAT32:
        array = array.astype(np.float32)  # of a model whose inputs have that type
    if array.dtype != type_.dtype.numpy:
        raise OptionError(
            f"element type {array.dtype}, {type_.dtype.value} is needed", where=where,
            cure=f"convert it: array.astype(np.{type_.dtype.value})",
        )  # fmt: skip
    if array.shape == type_.shape:
        return [array]
    fits = array.ndim == type_.rank > 0 and array.shape[1:] == type_.shape[1:]
    fits = fits and array.size > 0 and type_.elements > 0
    if not fits or array.shape[0] % type_.shape[0]:
        raise OptionError(f"shape {array.shape}, {type_.shape} is needed", where=where, cure=axes)
    return np.split(array, array.shape[0] // type_.shape[0])


def join_samples(samples: Sequence[Mapping[str, RefArray]]) -> dict[str, RefArray]:
    """One array per name, the samples that have it one after the other along the first axis."""
    parts: dict[str, list[RefArray]] = {}
    for sample in samples:
        for name, array in sample.items():
            parts.setdefault(name, []).append(np.atleast_1d(array))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


@dataclass
class Worst:
    """max|y - r| and max|r| of arrays; `off` is infinite if one is NaN or infinite where the other
    is not.
    """

    off: float = 0.0
    largest: float = 0.0

    def add(self, found: RefArray, expected: RefArray) -> None:
        """Take in y and r of the same shape."""
        y, r = found.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(r)
        same = np.array_equal(y[~finite], r[~finite], equal_nan=True)
        if not same or not np.isfinite(y[finite]).all():
            self.off = inf
        else:
            off = float(np.max(np.abs(y[finite] - r[finite]), initial=0.0))
            self.off = max(self.off, off)
            self.largest = max(self.largest, float(np.max(np.abs(r[finite]), initial=0.0)))

    @property
    def error(self) -> float:
        """max|y - r| / max|r|."""
        return self.off / self.largest if self.largest else self.off


def relative_error(found: RefArray, expected: RefArray) -> float:
    """max|y - r| / max|r|; infinite if one is NaN or infinite where the other is not."""
    worst = Worst()
    worst.add(found, expected)
    return worst.error


def reference_outputs(graph: Graph, samples: Sequence[Sample]) -> list[dict[str, RefArray]]:
    """What the references compute, in float64."""
    with np.errstate(all="ignore"):
        return [evaluate(graph, sample) for sample in samples]


def errors_by_output(
    found: Sequence[Mapping[str, RefArray]], expected: Sequence[Mapping[str, RefArray]]
) -> dict[str, float]:
    """The largest error of each output, relative to the largest value over all samples."""
    worst: dict[str, Worst] = {}
    add_errors(worst, found, expected)
    return {name: each.error for name, each in worst.items()}


def add_errors(
    worst: dict[str, Worst], found: Sequence[Mapping[str, RefArray]],
    expected: Sequence[Mapping[str, RefArray]],
) -> None:  # fmt: skip
    """Take in the outputs of further samples, by name."""
    y, r = join_samples(found), join_samples(expected)
    for name in r:
        worst.setdefault(name, Worst()).add(y[name], r[name])
