"""Turns a float graph and samples into an integer graph whose loss is known and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.choose.bisect import longest
from cannery.errors import OptionError
from cannery.execution.samples import errors_by_output
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Quantization, WeightCodes
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.ops.quantized.codes import stored_bytes
from cannery.quantization.calibration import Observed, observe
from cannery.quantization.codes import FORMS, Coding
from cannery.quantization.flow import pasts_of
from cannery.quantization.pasts import integer_states
from cannery.quantization.ranges import Ranges
from cannery.quantization.rewrite import Rewritten, rewrite


def quantize(
    graph: Graph, dtype: DType, calibration: Path, max_loss: float, *, raw: bool = False,
    ranges: Sequence[tuple[int, float]] | None = None, weights: str = "",
    coded: Sequence[str] | None = None,
) -> Graph:  # fmt: skip
    """The graph with integer layers; `Graph.quantization` says what that costs and saves.

    `raw`: inputs are quantised before they are moved, and outputs are floats made of integers.
    `ranges` are those of an earlier network with the same layers, whose scales are kept. `weights`
    is one of the FORMS of few levels, for int8: as many layers have them as `max_loss` allows, or
    those that are named in `coded`.

    Raises OptionError for samples that do not fit, if no layer can be quantised, and if an output
    of any sample is off by more than `max_loss`, relative to the largest of all samples; the past
    of a value is as little an output as the value is.
    """
    trial = _Trial(graph, observe(graph, calibration), dtype, raw, ranges)
    found, kept = _found(trial, weights, coded, max_loss)
    losses = trial.losses(found)
    if ranges is None and found.functions and not trial.largest(losses) <= max_loss:
        trial = _with_fewer_tables(trial, max_loss)
        found, kept = _found(trial, weights, coded, max_loss)
        losses = trial.losses(found)
    made = found.graph
    better = "" if dtype is DType.INT16 else "int16 or "
    for name, loss in losses.items():
        if name not in trial.pasts and not loss <= max_loss:
            raise OptionError(
                f"output {name!r} loses {loss:.3g} as {dtype.value}, more than --max-loss "
                f"{max_loss:g}", where="--quantize",
                cure=f"allow more, or take {better}samples like those in training",
            )  # fmt: skip
    codes = WeightCodes(weights, tuple(found.coded), kept, stored_bytes(made)) if weights else None
    facts = Quantization(
        dtype, len(trial.seen.samples), tuple(losses.items()), found.layers,
        _weight_bytes(graph), _weight_bytes(made), found.floats,
        found.ranges, codes,
    )  # fmt: skip
    made = integer_states(made, trial.pasts)
    return replace(made, quantization=facts, files=(*made.files, calibration))


@dataclass(frozen=True)
class _Trial:
    """What makes integer networks and judges them. `steepest`: see `Ranges`."""

    graph: Graph
    seen: Observed
    dtype: DType
    raw: bool
    ranges: Sequence[tuple[int, float]] | None
    steepest: float | None = None

    @property
    def pasts(self) -> frozenset[str]:
        """Outputs that are only kept for later calls."""
        return pasts_of(self.graph)

    def rewritten(self, coding: Coding | None) -> Rewritten:
        """The network, with such weights. Raises OptionError."""
        ranges = Ranges(self.ranges, self.steepest)
        made = rewrite(self.graph, self.seen, self.dtype, ranges, raw=self.raw, coding=coding)
        verify(made.graph, after="quantize")
        if not made.layers:
            raise OptionError(
                "no layer of the network has an integer form", where="--quantize",
                cure="leave it out; dense layers, convolutions and recurrent layers have integer "
                "forms",
            )  # fmt: skip
        return made

    def losses(self, made: Rewritten, last: int | None = None) -> dict[str, float]:
        """By output, on the `last` samples (None: all)."""
        first = 0 if last is None else -last
        outputs = self.seen.outputs[first:]
        with np.errstate(all="ignore"):
            found = [
                {name: value for name, value in evaluate(made.graph, sample).items() if name in due}
                for sample, due in zip(self.seen.samples[first:], outputs, strict=True)
            ]
        return errors_by_output(found, outputs)

    def worst(self, made: Rewritten, last: int | None = None) -> float:
        """The largest of these, but for pasts."""
        return self.largest(self.losses(made, last))

    def largest(self, losses: Mapping[str, float]) -> float:
        """The largest loss, but for pasts."""
        return max((v for k, v in losses.items() if k not in self.pasts), default=0.0)


def _with_fewer_tables(trial: _Trial, max_loss: float) -> _Trial:
    """The same with as few functions as floats as it takes: those that rounding moves most.

    Where the network loses too much without any table, too, all of them stay tables.
    """
    order = sorted({f.sensitivity(trial.seen) for f in trial.rewritten(None).functions})

    def up_to(some: Sequence[float]) -> _Trial:
        """Those are tables; the bound is between the last one and the next."""
        last = some[-1] if some else 0.0
        return replace(trial, steepest=(last + order[len(some)]) / 2)

    def bears(some: Sequence[float]) -> bool:
        made = up_to(some)
        return made.worst(made.rewritten(None)) <= max_loss

    return up_to(longest(order, bears)) if bears(()) else trial


def _found(
    trial: _Trial, weights: str, coded: Sequence[str] | None, max_loss: float
) -> tuple[Rewritten, tuple[tuple[str, str], ...]]:
    """The network, and the layers that keep bytes, with the reason."""
    if not weights:
        return trial.rewritten(None), ()
    coding = Coding(FORMS[weights])
    whole = trial.rewritten(coding)
    if coded is not None:
        kept = dict.fromkeys(whole.coded.keys() - set(coded), _SMALLEST_BLOCK)
        return trial.rewritten(replace(coding, kept=frozenset(kept))), tuple(sorted(kept.items()))
    if trial.worst(whole) <= max_loss:
        return whole, ()
    return _bearable(trial, coding, whole.coded, max_loss)


_SMALLEST_BLOCK = "it loses too much in calls of the smallest --block"


def _bearable(
    trial: _Trial, coding: Coding, able: Mapping[str, int], max_loss: float
) -> tuple[Rewritten, tuple[tuple[str, str], ...]]:
    """The same if all the layers that are able lose too much: those that lose least for each byte
    that they save come first.

    Losses of layers add up like random numbers, by their squares. Raises OptionError if none bears
    it.
    """

    def made(some: Sequence[str]) -> Rewritten:
        return trial.rewritten(replace(coding, kept=frozenset(able.keys() - set(some))))

    calls = trial.graph.calls.round if trial.graph.calls else 1
    alone = {name: trial.worst(made([name]), last=calls) for name in able}
    order = sorted(able, key=lambda name: (alone[name] ** 2 / max(able[name], 1), name))
    most = longest(order, lambda some: trial.worst(made(some)) <= max_loss)
    if not most:
        plain = trial.rewritten(None)
        if not trial.worst(plain) <= max_loss:
            return plain, ()
        raise OptionError(
            f"no layer bears weights of {coding.form.bits} bits within --max-loss {max_loss:g}",
            where="--weights-as", cure="allow more, or leave it out",
        )  # fmt: skip
    kept = [(name, f"alone it loses {alone[name]:.2g}") for name in order[len(most) :]]
    return made(most), tuple(kept)


def _weight_bytes(graph: Graph) -> int:
    return sum(int(array.nbytes) for array in graph.constants.values())
