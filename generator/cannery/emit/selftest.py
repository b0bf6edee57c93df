"""The self-test: one stored result for an input that C and Python generate identically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log10

import numpy as np

from cannery.ctext.arrays import format_array
from cannery.ctext.environment import render
from cannery.ctext.tidy import tidy
from cannery.emit.source import Source
from cannery.ir.evaluate import evaluate
from cannery.ir.registry import RefArray
from cannery.ir.stimulus import INCREMENT, MULTIPLIER, Stimulus, best_stimulus, reference_cost
from cannery.ir.tensor import DType
from cannery.schedule.schedule import ConstArray

#: Networks that cost more than this keep the reference busy for seconds, or fill the memory.
MAX_COST = 800_000_000
#: Of a larger output, only this many elements are stored.
MAX_STORED = 4096
#: The self-test accepts this many times the error that the network may have.
TOLERANCE = 3.0
#: Digits of the largest stored number; fewer than float32 has, so that last bits that depend on the
#: machine's maths library hardly ever matter.
DIGITS = 6
#: Results below the smallest normal number are stored as they are.
F32_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Stored:
    """Every `stride`-th element of an output, `count` in all."""

    constant: ConstArray
    stride: int
    count: int

    @property
    def text(self) -> str:
        """The C text of the array."""
        return format_array(self.constant)


@dataclass(frozen=True)
class Known:
    """The references' results for an input, and the layers that it does not test."""

    stimulus: Stimulus
    results: Sequence[Stored]
    blind: Sequence[str]
    complete: bool


#: What the self-test of a network reads whose weights are apart.
WORDS, FLOATS = "test_words", "test_floats"


def render_selftest(source: Source) -> str:
    """The text of `<name>_selftest.c`."""
    return _render(source, _find_known(source))


def apart_selftest(source: Source) -> tuple[Source, str]:
    """The same of a network whose weights are apart, and the network with what it reads there.

    Results, and the input that shows most of a network, depend on its weights.
    """
    known = _find_known(source)
    stimulus = known.stimulus if known else Stimulus()
    words = [stimulus.seed, int(stimulus.signed), stimulus.shift]
    floats = [stimulus.gain, _tolerance(source)]
    arrays = [
        ConstArray(WORDS, np.array(words, np.uint32)),
        ConstArray(FLOATS, np.array(floats, np.float32)),
        *(stored.constant for stored in (known.results if known else ())),
    ]
    whole = replace(source, test=source.blob.followed_by(arrays))
    return whole, _render(whole, known)


def _find_known(source: Source) -> Known | None:
    return _known(source) if reference_cost(source.graph) <= MAX_COST else None


def _render(source: Source, known: Known | None) -> str:
    stimulus = known.stimulus if known else Stimulus()
    text = render(
        "emit/selftest.c.j2", s=source, known=known, stimulus=stimulus,
        floats=any(t.type.dtype == DType.FLOAT32 for t in source.outputs),
        tolerance=_tolerance(source), multiplier=MULTIPLIER, increment=INCREMENT,
    )  # fmt: skip
    return tidy(text)


def _tolerance(source: Source) -> float:
    """With few digits, as in the text."""
    return float(f"{TOLERANCE * source.max_error:.6g}")


def _known(source: Source) -> Known:
    tolerance = _tolerance(source)
    best = best_stimulus(source.graph, tolerance, lambda stimulus: _inputs(source, stimulus))
    results = evaluate(source.graph, _inputs(source, best.stimulus))
    found = []
    for k, tensor in enumerate(source.outputs):
        values = np.asarray(tensor.from_graph(results[tensor.source])).reshape(-1)
        stride = -(-values.size // MAX_STORED) | 1  # odd: reaches every channel
        kept = _rounded(values)[::stride].astype(tensor.type.dtype.numpy)
        found.append(Stored(ConstArray(f"expected_{k}", kept), stride, kept.size))
    return Known(best.stimulus, found, best.blind(tolerance), best.complete)


def _inputs(source: Source, stimulus: Stimulus) -> dict[str, RefArray]:
    return {
        tensor.source: tensor.to_graph(stimulus.values(tensor.dims, tensor.type.dtype, k))
        for k, tensor in enumerate(source.inputs)
    }


def _rounded(values: RefArray) -> RefArray:
    """Floats to DIGITS decimal digits of the largest."""
    if values.dtype.kind != "f":
        return values
    floats = values.astype(np.float64)
    largest = float(np.abs(floats).max(initial=0.0))
    if not F32_TINY < largest < np.inf:
        return values
    return np.round(floats, DIGITS - ceil(log10(largest)))
