"""Samples with labels, as `cannery evaluate` takes them, and which of them are for calibration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.errors import OptionError
from cannery.ir.registry import RefArray
from cannery.ir.tensor import TensorType
from cannery.npz import read_array_or_arrays

#: Samples as users give them: a .npz file, a .npy file of the only one, or arrays by name.
Given = Path | Mapping[str, RefArray]

#: Of samples that are for both, as many calibrate at most, and at most such a part.
CALIBRATING, PART = 128, 4


@dataclass(frozen=True)
class Labelled:
    """Arrays by name of the input or output; the first axis counts samples."""

    inputs: Mapping[str, RefArray]
    labels: Mapping[str, RefArray]

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(next(iter(self.inputs.values())))

    def take(self, chosen: Sequence[int]) -> Labelled:
        """Some of the samples."""
        index = np.asarray(chosen, np.int64)
        return Labelled(
            {name: array[index] for name, array in self.inputs.items()},
            {name: array[index] for name, array in self.labels.items()},
        )


def read_labelled(
    data: Given, labels: Given, inputs: Mapping[str, TensorType], outputs: Sequence[str]
) -> Labelled:
    """Samples and labels for such inputs and outputs. Raises OptionError for what does not fit."""
    arrays = _named(data, list(inputs), "--data", every=True)
    found = {name: _sample_rows(arrays[name], inputs[name], name) for name in inputs}
    wanted = _named(labels, outputs, "--labels", every=False)
    counts = {len(array) for array in (*found.values(), *wanted.values())}
    if len(counts) > 1 or 0 in counts:
        numbers = {name: len(array) for name, array in (*found.items(), *wanted.items())}
        raise OptionError(
            f"different numbers of samples, or none: {numbers}", where="--data and --labels",
            cure="the first axis counts samples",
        )  # fmt: skip
    return Labelled(found, wanted)


def _named(given: Given, names: Sequence[str], option: str, *, every: bool) -> dict[str, RefArray]:
    """The arrays by name; a single one needs none where there is a single tensor."""
    where = f"{option} {given}" if isinstance(given, Path) else option
    arrays = read_array_or_arrays(given) if isinstance(given, Path) else dict(given)
    if len(arrays) == len(names) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    unknown = [name for name in arrays if name not in names]
    missing = [name for name in names if name not in arrays] if every or not arrays else []
    for name, what in [(n, "unknown array") for n in unknown] + [(n, "no array") for n in missing]:
        raise OptionError(f"{what} {name!r}", where=where, cure=f"it needs: {', '.join(names)}")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise OptionError(f"{name!r} has no axis of samples", where=where)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OptionError(
                f"{name!r} is not finite everywhere", where=where,
                cure="leave out samples with infinities or NaN",
            )  # fmt: skip
    return arrays


def _sample_rows(array: RefArray, type_: TensorType, name: str) -> RefArray:
    """An input with a row per sample, of its element type."""
    shape, wanted = array.shape, type_.dtype.numpy
    batched = type_.shape[:1] == (1,)
    if shape[1:] != (type_.shape[1:] if batched else type_.shape):
        needed = ("n", *(type_.shape[1:] if batched else type_.shape))
        raise OptionError(
            f"{name!r} has shape {shape}, {needed} is needed".replace("'n'", "n"), where="--data",
            cure="the first axis counts samples, the others are those of the model",
        )  # fmt: skip
    if array.dtype != wanted and not (array.dtype.kind == np.dtype(wanted).kind == "f"):
        raise OptionError(
            f"{name!r} has element type {array.dtype}, {type_.dtype.value} is needed",
            where="--data", cure=f"convert it: array.astype(np.{type_.dtype.value})",
        )  # fmt: skip
    return np.ascontiguousarray(array.astype(wanted, copy=False))


def split_off(samples: Labelled) -> tuple[Labelled, Labelled]:
    """Samples to calibrate with, spread over all, and the others, to be evaluated."""
    count = samples.count
    number = min(CALIBRATING, count // PART)
    if number == 0:
        raise OptionError(
            f"{count} samples are too few to calibrate with some and evaluate the others",
            where="--data", cure=f"give {PART} or more, or --calibration FILE.npz",
        )  # fmt: skip
    chosen = {k * count // number for k in range(number)}
    rest = [k for k in range(count) if k not in chosen]
    return samples.take(sorted(chosen)), samples.take(rest)


def without(samples: Labelled, others: Sequence[Mapping[str, RefArray]]) -> Labelled:
    """The samples that are none of the others, which calibrate. Raises OptionError if none is."""
    met = {_digest([sample[name] for name in samples.inputs]) for sample in others}
    kept = [k for k, digest in enumerate(_digests(samples)) if digest not in met]
    if not kept:
        raise OptionError(
            "every sample is one of --calibration, and what a network was fitted to says nothing "
            "about it", where="--data", cure="give other samples",
        )  # fmt: skip
    return samples if len(kept) == samples.count else samples.take(kept)


def _digests(samples: Labelled) -> Iterator[bytes]:
    for k in range(samples.count):
        yield _digest([array[k] for array in samples.inputs.values()])


def _digest(arrays: Sequence[RefArray]) -> bytes:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()
