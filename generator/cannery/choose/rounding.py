"""Estimates in numpy how float32 affects a network with any kernels, without building anything.

The graph runs twice, once in float64 and once with the rounding that float32 code has: each value
is rounded, and sums are moved by random numbers as large as the rounding of their terms usually is
(Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 4, for blocks as in
`ops/shared/sums.py`). This reveals what a network amplifies: differences of near values,
logarithms, divisions, many layers one after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cannery.ir.evaluate import Values, evaluate, widen
from cannery.ir.graph import Graph, Node
from cannery.ir.half import rounded_to_half
from cannery.ir.printer import format_graph
from cannery.ir.registry import RefArray
from cannery.ir.stimulus import reference_cost
from cannery.ir.tensor import DType
from cannery.measure.cache import Environment, Measurement, MeasurementCache, environment_text
from cannery.measure.trial import random_inputs
from cannery.ops.half.recurrent import half_recurrence
from cannery.ops.recurrent.base import Recurrent

#: The relative error of rounding a number to float32: root of the mean square over all mantissas.
ROUNDING = 0.425 * 2.0**-24

#: By how much more half precision rounds.
HALF_ROUNDING = 2.0**13

#: Terms of a block of a sum, see `BLOCK_TERMS` of ops/shared/sums.py.
BLOCK = 96

#: Roundings of a sum that do not depend on its length: of products, of folded weights, of the end.
ONCE = 3.0

#: How many random numbers there are, which are reused: a prime number.
POOL = 65521

#: Networks whose references cost more take longer to run than to compile.
MAX_COST = 800_000_000

#: How many inputs are tried if both runs take less than this; larger networks get one. After the
#: first FEW, that is enough if the error is only this fraction of the bound.
SAMPLES, CHEAP = 8, 40_000_000
FEW, SURE = 2, 0.03

#: How much larger the error is over the samples that judge a network than over these.
MARGIN = 1.25

#: Where estimates are remembered, among the measurements.
_HERE = Environment("numpy", environment_text(), "", "rounding")
_VERSION = 1


def rounding_error(graph: Graph, bound: float) -> float | None:
    """The expected max|y - r| / max|r| of exact kernels, over the float outputs.

    It is meant for comparison with `bound`: far below it, the estimate is coarse. 1e300 if float32
    overflows. Layers in half precision were judged when they were chosen. None if unknown: outputs
    are integers, layers compute with integers, or the network is too large to run. It is kept in
    the user's cache.
    """
    floats = [y for y in graph.outputs if graph.types[y].dtype == DType.FLOAT32]
    if not floats or graph.quantization or graph.integer_layers:
        return None
    if graph.half_layers:
        return MARGIN * graph.half_layers.error
    if reference_cost(graph) > MAX_COST:
        return None
    cache = MeasurementCache(_HERE)
    cache.load()
    key = _key(graph, bound)
    known = cache.get(key)
    if known is None:
        known = Measurement(MARGIN * _estimate(graph, floats, bound))
        cache.add({key: known})
    return known.error


def _estimate(graph: Graph, outputs: Sequence[str], bound: float) -> float:
    noises = np.random.default_rng(0).standard_normal(POOL)
    largest = dict.fromkeys(outputs, 0.0)
    worst = dict.fromkeys(outputs, 0.0)
    error = 0.0
    for number in range(SAMPLES if reference_cost(graph) < CHEAP else 1):
        inputs = random_inputs(graph, 2 * number)  # those of `seeded_samples`
        with np.errstate(all="ignore"):
            expected = evaluate(graph, inputs)
            values = _evaluate(graph, inputs, noises)
        for name in outputs:
            off, most = _distance(values[name], expected[name])
            worst[name], largest[name] = max(worst[name], off), max(largest[name], most)
        found = [worst[name] / (largest[name] or 1.0) for name in outputs]
        error = max(found)
        if number + 1 >= FEW and error < SURE * bound:
            break
    return error if np.isfinite(error) else 1e300


def rounded_outputs(graph: Graph, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
    """The outputs with the errors that sums and values of float32 and half precision have."""
    noises = np.random.default_rng(0).standard_normal(POOL)
    with np.errstate(all="ignore"):
        values = _evaluate(graph, inputs, noises)
    return {name: values[name] for name in graph.outputs}


def _evaluate(graph: Graph, inputs: Mapping[str, RefArray], noises: NDArray[np.float64]) -> Values:
    values = Values(graph, inputs)
    for node in graph.nodes:
        _rounded(graph, node, values, noises)
    return values


def _distance(found: RefArray, expected: RefArray) -> tuple[float, float]:
    """max|y - r| and max|r| where r is finite; infinite if y is not finite there."""
    known = np.isfinite(expected)
    y, r = found[known].astype(np.float64), expected[known].astype(np.float64)
    off = float(np.abs(y - r).max(initial=0.0)) if np.isfinite(y).all() else np.inf
    return off, float(np.abs(r).max(initial=0.0))


def _rounded(graph: Graph, node: Node, values: Values, noises: NDArray[np.float64]) -> None:
    """Compute a node, with the errors of code in its precision."""
    pool = np.roll(noises, len(values))
    if isinstance(node.op, Recurrent) and graph.types[node.outputs[0]].dtype is DType.HALF:
        read = [values[v] if v else None for v in node.inputs]
        found = half_recurrence(node.op, read, pool, ROUNDING * HALF_ROUNDING)
        values.update(zip(node.outputs, found, strict=True))
        values.done(node)
        return
    values.compute(node)
    noise = _sum_noise(graph, node, values)
    for name in node.outputs:
        value = values[name]
        if value.dtype.kind == "f":
            moved = value.astype(np.float64)
            moved = moved + noise * np.resize(pool, value.shape) if noise else moved
            half = graph.types[name].dtype is DType.HALF
            values[name] = rounded_to_half(moved) if half else widen(moved.astype(np.float32))


def _sum_noise(graph: Graph, node: Node, values: Values) -> float:
    """The usual rounding error of a sum of products, 0 for other nodes.

    Partial sums grow with the root of the number of terms if signs are mixed, else with the number;
    the rounding of each addition is a fraction of the partial sum.
    """
    pair = [v for v in node.inputs[:2] if v]
    if len(pair) < 2 or isinstance(node.op, Recurrent):
        return 0.0
    terms = _terms(graph, node)
    if terms < 2:
        return 0.0
    block = min(terms, BLOCK)
    count = terms / block
    mixed = terms * _square(values[pair[0]]) * _square(values[pair[1]])
    same = max(_square(values[node.outputs[0]]) - mixed, 0.0)
    steps = mixed * (ONCE + (block + count) / 4) + same * (block / count + count) / 3
    half = graph.types[node.outputs[0]].dtype is DType.HALF
    each = ROUNDING * (HALF_ROUNDING if half else 1.0)
    return each * sqrt(steps) if np.isfinite(steps) else 0.0


def _terms(graph: Graph, node: Node) -> float:
    """Products of each sum."""
    types = tuple(graph.types[i] if i else None for i in node.inputs)
    results = tuple(graph.types[o] for o in node.outputs)
    if not results[0].dtype.is_float:
        return 0.0
    return node.op.macs(types, results) / max(results[0].elements, 1)


def _square(value: RefArray) -> float:
    """The mean square."""
    flat = np.asarray(value, np.float64).reshape(-1)
    return float(np.einsum("i,i->", flat, flat)) / flat.size if flat.size else 0.0


def _key(graph: Graph, bound: float) -> str:
    digest = hashlib.sha256(f"{_VERSION} {bound!r}\n{format_graph(graph)}".encode())
    for name in sorted(graph.constants):
        digest.update(np.ascontiguousarray(graph.constants[name]).tobytes())
    return digest.hexdigest()
