"""How right a network is with floats and with integers, on labelled samples, by generated code."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cannery.api.interface import interface_of
from cannery.api.library import make_library, needed_flags
from cannery.api.model import given_arrays, given_model
from cannery.api.net import Net
from cannery.api.store import platform_name
from cannery.atomic import temporary_folder
from cannery.errors import CanneryError, OptionError, one_of
from cannery.execution.accuracy import Judged, Score, in_chunks, judge_all
from cannery.execution.labelled import Given, Labelled, read_labelled, split_off, without
from cannery.execution.samples import model_samples, read_samples, reference_outputs
from cannery.execution.samples import relative_error as relative
from cannery.execution.sizes import constant_bytes
from cannery.ir.orders import model_type, to_model
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.option_values import QUANTIZED
from cannery.options import Options
from cannery.pipeline import compile_model, import_graph, judge_graph
from cannery.target.runner import why_not_here
from cannery.target.targets import NATIVE
from cannery.target.toolchain import find_toolchain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cannery.api.options import ModelOptions

FLOAT = "float"
#: What a network may compute with, in the order of the results.
PRECISIONS = (FLOAT, *(dtype.value for dtype in QUANTIZED))

#: Samples per call, and for how many seconds calls are timed at least.
_CHUNK, _SECONDS = 64, 0.3
#: Samples that the references compute as well.
_REFERENCE = 16


@dataclass(frozen=True)
class Precision:
    """A network that computes with floats, int16 or int8.

    `us` is one sample's part of a call with many. `constants` and `workspace` are bytes. `lost` and
    `gained` are labels that only the network with floats, or only this one, puts first. `why` says
    why there is none such; all else is empty then.
    """

    name: str
    scores: tuple[Score, ...] = ()
    us: float = 0.0
    constants: int = 0
    workspace: int = 0
    lost: int | None = None
    gained: int | None = None
    why: str = ""


@dataclass(frozen=True)
class EvaluateResult:
    """What was found on `samples`, none of which calibrated anything.

    `calibration` says what did, `left_out` how many samples of the data were among these. `error`
    is how far the code is off the float64 references on `reference_samples`: max|y - r| / max|r|.
    """

    target: str
    samples: int
    calibration: str
    left_out: int
    error: float
    reference_samples: int
    precisions: tuple[Precision, ...]

    def drop(self, name: str) -> float | None:
        """By how many percent the first classes of a precision are right less often than floats'.

        The worst output counts; None where nothing is known of one of them.
        """
        found = {each.name: each.scores for each in self.precisions}
        pairs = zip(found.get(FLOAT, ()), found.get(name, ()), strict=False)
        drops = [
            100 * (one.top1 - other.top1)
            for one, other in pairs if one.top1 is not None and other.top1 is not None
        ]  # fmt: skip
        return max(drops, default=None)


def evaluate(
    model: str | os.PathLike[str] | bytes,
    data: str | os.PathLike[str] | ArrayLike | Mapping[str, ArrayLike],
    labels: str | os.PathLike[str] | ArrayLike | Mapping[str, ArrayLike],
    *,
    precisions: Sequence[str] = PRECISIONS,
    **options: Any,
) -> EvaluateResult:
    """Compute labelled samples with floats, int16 and int8, and compare with the labels.

    `data` has an array for each input by its name, or is a .npz file of them; the first axis counts
    samples. `labels` are whole numbers (classes) or floats (values to be met), by name of the
    output. Where there is one input, or one output, an array needs no name. Of several samples some
    calibrate the integers, and are not evaluated, unless `calibration` names a file of others.
    Other options are those of `load`. Raises CanneryError.
    """
    known: ModelOptions = {"target": NATIVE, **options}  # type: ignore[typeddict-item]
    limit = known.pop("max_loss", None)
    file = known.pop("calibration", None)
    given = given_model(model, known, "evaluate")
    calibration = Path(os.fsdecode(file)) if file is not None else None
    most = math.inf if limit is None else float(limit)
    with given.as_file() as chosen:
        chosen = replace(chosen, calibration=calibration, max_loss=most)
        known_labels = _arrays(labels, "labels")
        return evaluate_network(chosen, _arrays(data, "data"), known_labels, precisions)


def _arrays(given: Any, option: str) -> Given:
    """A single array needs no name where there is a single tensor: like a .npy file."""
    if hasattr(given, "__array__") or isinstance(given, list | tuple):
        return {"": np.asarray(given)}
    return given_arrays(given, option, f"give a file, an array, or {option}={{name: array}}")


def evaluate_network(
    options: Options, data: Given, labels: Given, precisions: Sequence[str] = PRECISIONS,
    *, tell: Callable[[str], object] = str,
) -> EvaluateResult:  # fmt: skip
    """The same for options that are checked; their calibration and bound are for the integers."""
    _check(options, precisions)
    plain = replace(options, quantize=None, calibration=None, max_loss=Options.max_loss)
    graph = import_graph(plain)
    types = {name: model_type(graph, name) for name in graph.inputs}
    read = read_labelled(data, labels, types, graph.outputs)
    with _parts(read, options.calibration, types, precisions) as (samples, file, about):
        found: list[Precision] = []
        first: list[Judged] = []
        error = 0.0
        part = samples.take(range(min(_REFERENCE, samples.count)))
        for name in [name for name in PRECISIONS if name in precisions]:
            tell(f"evaluating {options.name} with {name}")
            chosen = plain
            if name != FLOAT:
                chosen = _quantized(options, DType(name), file)
            try:
                each, outputs, judged = _evaluated(chosen, name, samples, first)
            except CanneryError as problem:
                if name == FLOAT or len(precisions) == 1:
                    raise
                found.append(Precision(name, why=problem.what))
                continue
            if name == FLOAT:
                first = judged
                error = _reference_error(plain, part, outputs)
            found.append(each)
    return EvaluateResult(
        find_toolchain(plain).target.name, samples.count, about, read.count - samples.count,
        error, part.count if FLOAT in precisions else 0, tuple(found),
    )  # fmt: skip


def _quantized(options: Options, dtype: DType, calibration: Path | None) -> Options:
    """Options for integers. No command repeats a temporary file of samples."""
    advice = options.tuned_by
    if calibration != options.calibration:
        advice = f"run cannery autotune with --quantize {dtype.value} and your samples"
    return replace(options, quantize=dtype, calibration=calibration, tuned_by=advice)


def _check(options: Options, precisions: Sequence[str]) -> None:
    """Raise OptionError for what cannot be evaluated."""
    for name in precisions:
        if name not in PRECISIONS:
            raise OptionError(
                f"unknown precision {name!r}", where="--precision", cure=one_of(name, PRECISIONS)
            )
    if not precisions:
        raise OptionError("nothing to evaluate", where="--precision", cure="leave it out for all")
    others = {
        "--batch": options.batch > 1, "--state": bool(options.state),
        "--streaming": options.streaming, "--variable-length": options.variable_length,
        "--io-type": options.io_type == "raw", "--io-layout": options.io_layout != "model",
        "--input-view": bool(options.input_view),
    }  # fmt: skip
    for flag in (flag for flag, on in others.items() if on):
        raise OptionError(
            "samples are evaluated one by one, as in the model", where=flag,
            cure="leave it out",
        )  # fmt: skip


@contextmanager
def _parts(
    read: Labelled, given: Path | None, types: Mapping[str, TensorType], precisions: Sequence[str]
) -> Iterator[tuple[Labelled, Path | None, str]]:
    """The samples to evaluate, a file of those that calibrate, and what these are."""
    if not set(precisions) - {FLOAT}:
        yield read, None, "none"
    elif given is not None:
        apart = without(read, read_samples(given, types))
        yield apart, given, str(given)
    else:
        calibrating, apart = split_off(read)
        with temporary_folder() as folder:
            file = folder / "calibration.npz"
            arrays = {
                name: array.reshape(-1, *types[name].shape[1:])
                for name, array in calibrating.inputs.items()
            }
            np.savez(file, **arrays)  # type: ignore[arg-type]
            yield apart, file, f"{calibrating.count} samples of the data, which are not evaluated"


def _evaluated(
    options: Options, name: str, samples: Labelled, floats: Sequence[Judged]
) -> tuple[Precision, Mapping[str, RefArray], list[Judged]]:
    """A network with one precision, its outputs, and how right they are."""
    toolchain = find_toolchain(options)
    reason = why_not_here(toolchain.target)
    if reason:
        raise OptionError(
            f"its code cannot run here: {reason}", where=f"target {toolchain.target.name}",
            cure="accuracy equals other targets' except for the last bits: leave --target out",
        )  # fmt: skip
    compiled = compile_model(options)
    source = compiled.source
    interface = interface_of(source, 1, platform_name(), needed_flags(toolchain))
    net = Net(str(make_library(options, toolchain, compiled.files)), interface)
    arrays = [samples.inputs[argument.source] for argument in interface.inputs]

    def run(chosen: Sequence[RefArray]) -> Sequence[RefArray]:
        found = net(*chosen)
        outputs = found if isinstance(found, tuple) else (found,)
        return [np.asarray(y).reshape(len(chosen[0]), -1, *y.shape[1:])[:, 0] for y in outputs]

    outputs = dict(
        zip([y.source for y in interface.outputs], in_chunks(run, arrays, _CHUNK), strict=True)
    )
    judged = judge_all(outputs, samples.labels, "--labels")
    lost, gained = _changed(floats, judged)
    found = Precision(
        name, tuple(each.score for each in judged), _time(run, arrays), sum(constant_bytes(source)),
        source.single_bytes, lost, gained,
    )  # fmt: skip
    return found, outputs, judged


def _time(run: Callable[[Sequence[RefArray]], object], arrays: Sequence[RefArray]) -> float:
    """Microseconds of one sample in a call with many: the median of some calls."""
    chunk = [array[:_CHUNK] for array in arrays]
    times: list[float] = []
    end = perf_counter() + _SECONDS
    while len(times) < 3 or perf_counter() < end:
        begin = perf_counter()
        run(chunk)
        times.append(perf_counter() - begin)
    return 1e6 * median(times) / len(chunk[0])


def _changed(floats: Sequence[Judged], judged: Sequence[Judged]) -> tuple[int | None, int | None]:
    """How many labels only floats put first, and how many only the others; None of values."""
    pairs = [
        (one.right, other.right)
        for one, other in zip(floats, judged, strict=False)
        if one.right is not None and other.right is not None
    ]
    if not pairs:
        return None, None
    lost = sum(int((one & ~other).sum()) for one, other in pairs)
    return lost, sum(int((other & ~one).sum()) for one, other in pairs)


def _reference_error(options: Options, part: Labelled, found: Mapping[str, RefArray]) -> float:
    """How far outputs are off what the references compute for some samples."""
    graph = judge_graph(options)
    types = {name: model_type(graph, name) for name in graph.inputs}
    arrays = {
        name: array.reshape(-1, *types[name].shape[1:]) if types[name].rank else array
        for name, array in part.inputs.items()
    }
    samples = model_samples(graph, arrays, graph.inputs)
    expected = [to_model(graph, sample) for sample in reference_outputs(graph, samples)]
    worst = 0.0
    for name in found:
        wanted = np.stack([np.asarray(sample[name]).reshape(-1) for sample in expected])
        worst = max(worst, relative(found[name][: part.count].reshape(wanted.shape), wanted))
    return worst
