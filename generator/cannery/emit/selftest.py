"""The self-test: one stored result for an input that C and Python generate alike."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.emit.arrays import format_array
from cannery.emit.environment import render
from cannery.emit.source import Source
from cannery.emit.tidy import tidy
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType
from cannery.schedule.schedule import ConstArray

#: Networks with more multiply-accumulates than this are too slow for the reference.
MAX_MACS = 20_000_000
#: Largest error, relative to the largest output, that the self-test accepts.
TOLERANCE = 1e-3
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


def render_selftest(source: Source) -> str:
    """The text of `<name>_selftest.c`."""
    arrays: list[str] = []
    macs = source.macs
    known = macs <= MAX_MACS
    if known:
        inputs = {
            t.source: t.to_graph(noise(t.dims, t.type.dtype, 1 + k))
            for k, t in enumerate(source.inputs)
        }
        results = evaluate(source.graph, inputs)
        for k, tensor in enumerate(source.outputs):
            result = tensor.from_graph(results[tensor.source])
            values = np.asarray(result).astype(tensor.type.dtype.numpy)
            arrays.append(format_array(ConstArray(f"expected_{k}", values.reshape(-1))))
    text = render(
        "emit/selftest.c.j2", s=source, up=source.name.upper(), arrays=arrays, known=known,
        tolerance=TOLERANCE,
    )  # fmt: skip
    return tidy(text)
