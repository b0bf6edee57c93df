"""The self-test: one stored result for an input that C and Python generate alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log10, prod

import numpy as np
from numpy.typing import NDArray

from cannery.emit.arrays import format_array
from cannery.emit.environment import render
from cannery.emit.source import Source
from cannery.emit.tidy import tidy
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType
from cannery.ops.registry import RefArray
from cannery.schedule.schedule import ConstArray

#: Networks with more multiply-accumulates than this keep the reference busy for over a second.
MAX_MACS = 500_000_000
#: Of a larger output only so many elements are stored.
MAX_STORED = 4096
#: Largest error, relative to the largest output, that the self-test accepts.
TOLERANCE = 1e-3
#: Factors of the input, tried until no output is saturated; powers of two, so that they are exact.
GAINS = (1.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-8)
#: An output element nearer to 0 or 1 than this tells nothing.
SATURATED = 1e-2
#: Digits of the largest stored number; fewer than float32 has, so that a last bit which depends on
#: the machine's mathematical library hardly ever shows.
DIGITS = 6
#: Results below the smallest normal number are stored as they are.
F32_TINY = float(np.finfo(np.float32).tiny)
#: The generator of Numerical Recipes: x <- x * MULTIPLIER + INCREMENT, modulo 2^32.
MULTIPLIER = 1664525
INCREMENT = 1013904223


def noise(dims: tuple[int, ...], dtype: DType, seed: int) -> NDArray[np.generic]:
    """Elements by a linear congruential generator: floats in [-1, 1), or integers.

    Each element takes the generator's upper 24 bits, so that C computes exactly the same.
    """
    count = prod(dims)
    states = np.empty(max(count, 1), np.uint32)
    states[0] = (seed * MULTIPLIER + INCREMENT) % 2**32
    done, factor, shift = 1, MULTIPLIER, INCREMENT
    while done < count:  # x[k + done] = x[k] * factor + shift, modulo 2^32
        more = min(done, count - done)
        states[done : done + more] = states[:more] * np.uint32(factor) + np.uint32(shift)
        done += more
        factor, shift = factor * factor % 2**32, (factor * shift + shift) % 2**32
    top = (states[:count] >> np.uint32(8)).astype(np.int64)
    if dtype == DType.FLOAT32:
        values = (top - (1 << 23)).astype(np.float32) / np.float32(1 << 23)
    else:
        values = (top >> 16).astype(dtype.numpy)
    return np.asarray(values.reshape(dims))


@dataclass(frozen=True)
class Stored:
    """The C text of every `stride`-th element of an output, `count` in all."""

    text: str
    stride: int
    count: int


def render_selftest(source: Source) -> str:
    """The text of `<name>_selftest.c`."""
    known = source.macs <= MAX_MACS
    gain, results = _results(source) if known else (1.0, [])
    text = render(
        "emit/selftest.c.j2", s=source, known=known, results=results, gain=gain,
        floats=any(t.type.dtype == DType.FLOAT32 for t in source.outputs), tolerance=TOLERANCE,
        multiplier=MULTIPLIER, increment=INCREMENT,
    )  # fmt: skip
    return tidy(text)


def _results(source: Source) -> tuple[float, list[Stored]]:
    """The gain of the generated input, and what the references say of it."""
    for gain in GAINS:
        results = evaluate(source.graph, _inputs(source, gain))
        if not any(saturated(results[t.source]) for t in source.outputs):
            break
    found = []
    for k, tensor in enumerate(source.outputs):
        values = np.asarray(tensor.from_graph(results[tensor.source])).reshape(-1)
        stride = -(-values.size // MAX_STORED) | 1  # odd: reaches every channel
        kept = _rounded(values)[::stride].astype(tensor.type.dtype.numpy)
        found.append(Stored(format_array(ConstArray(f"expected_{k}", kept)), stride, kept.size))
    return gain, found


def _inputs(source: Source, gain: float) -> dict[str, RefArray]:
    inputs = {}
    for k, tensor in enumerate(source.inputs):
        values = noise(tensor.dims, tensor.type.dtype, 1 + k)
        if tensor.type.dtype == DType.FLOAT32:
            values = values.astype(np.float32) * np.float32(gain)
        inputs[tensor.source] = tensor.to_graph(values)
    return inputs


def saturated(values: RefArray) -> bool:
    """Whether nothing but zeros and ones is left, as behind a softmax of large differences.

    Such a result hardly depends on the weights: wrong ones would pass.
    """
    if values.dtype.kind != "f" or values.size == 0:
        return False
    floats = values.astype(np.float64)
    far = np.minimum(np.abs(floats), np.abs(floats - 1.0))
    return bool(np.all(far < SATURATED) and np.abs(floats).max() > 0.5)


def _rounded(values: RefArray) -> RefArray:
    """Floats to DIGITS decimal digits of the largest."""
    if values.dtype.kind != "f":
        return values
    floats = values.astype(np.float64)
    largest = float(np.abs(floats).max(initial=0.0))
    if not F32_TINY < largest < np.inf:
        return values
    return np.round(floats, DIGITS - ceil(log10(largest)))
