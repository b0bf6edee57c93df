"""Finds inputs that reveal a wrong weight: nothing is saturated, and the input matters.

After a softmax of large differences, the output is zeros and ones for almost any weights; with a
very small input, it depends only on the biases. So it tries inputs: how far do the outputs move
when weights change?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2, prod

import numpy as np
from numpy.typing import NDArray

from cannery.ir.evaluate import evaluate_all, recomputed
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType

#: The generator of Numerical Recipes: x <- x * MULTIPLIER + INCREMENT, modulo 2^32.
MULTIPLIER = 1664525
INCREMENT = 1013904223
#: Factors of the input that are tried; powers of two, so that they are exact.
GAINS = (1.0, 4.0, 16.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-8)
#: How many seeds are tried with each factor.
SEEDS = 24
#: How far beyond the bound the outputs should move.
MARGIN = 8.0
#: How many seeds in a row may bring no improvement.
PATIENCE = 3
#: A layer's weights are enlarged by these fractions of themselves, in turn.
CHANGES = (0.125, 0.0625)
#: All layers together change by a part of that, small enough that no saturated output flips.
JOINT = 1e-3
#: Each layer on its own changes by this part of it.
FINE = 1.0 / 64
#: What the references cost in addition to multiply-accumulates, in the same unit (about 5 ns):
#: nodes, the elements of their outputs, the elements of one output channel's weights.
NODE_COST = 10_000
ELEMENT_COST = 20
WEIGHT_COST = 400
#: What trying may cost: half a second, or at most two seconds if the first input is not good.
BUDGET = 100_000_000
LARGE_BUDGET = 400_000_000
#: How many inputs of each seed are judged layer by layer.
JUDGED = 3

#: Inputs of a network by name.
Inputs = Mapping[str, RefArray]


@dataclass(frozen=True)
class Stimulus:
    """Noise from `seed`, in [-gain, gain) or, if not `signed`, in [0, 2 * gain).

    Integers are 0 to 255 * gain at most, and their gain is at most 1.
    """

    seed: int = 1
    gain: float = 1.0
    signed: bool = True

    @property
    def shift(self) -> int:
        """Integers are the generator's upper bits, with this many of the lowest dropped."""
        return max(-int(log2(self.gain)), 0)

    def values(self, dims: tuple[int, ...], dtype: DType, number: int = 0) -> NDArray[np.generic]:
        """Elements of input `number`; C computes exactly the same ones."""
        top = upper_bits(prod(dims), self.seed + number)
        if dtype != DType.FLOAT32:
            return (top >> (16 + self.shift)).astype(dtype.numpy).reshape(dims)
        low = 1 << 23 if self.signed else 0
        unit = (top - low).astype(np.float32) / np.float32(1 << 23)
        return np.asarray(unit * np.float32(self.gain)).reshape(dims)

    def inputs(self, graph: Graph) -> dict[str, RefArray]:
        """The inputs of a graph by name, in its own order of axes."""
        types: list[TensorType] = [graph.types[name] for name in graph.inputs]
        return {
            name: self.values(type_.shape, type_.dtype, k)
            for k, (name, type_) in enumerate(zip(graph.inputs, types, strict=True))
        }


@dataclass(frozen=True)
class Verdict:
    """How far the outputs move, as `_shift` says, when each layer's weights change.

    `complete` is false if the network is too large to try every layer.
    """

    stimulus: Stimulus
    shifts: Mapping[str, float]
    complete: bool = True

    def blind(self, bound: float) -> tuple[str, ...]:
        """Names of the layers whose change moves no output by more than `bound`."""
        return tuple(name for name, shift in self.shifts.items() if not shift > bound)

    def rank(self, bound: float) -> tuple[int, float]:
        """Greater is better: few blind layers, then the least of the other shifts.

        It has two digits, so that a tie on one machine is a tie on all.
        """
        seen = (shift for shift in self.shifts.values() if shift > bound)
        return -len(self.blind(bound)), _two_digits(min(seen, default=np.inf))


def upper_bits(count: int, seed: int) -> NDArray[np.int64]:
    """The upper 24 bits of `count` states of the linear congruential generator."""
    states = np.empty(max(count, 1), np.uint32)
    states[0] = (seed * MULTIPLIER + INCREMENT) % 2**32
    done, factor, shift = 1, MULTIPLIER, INCREMENT
    while done < count:  # x[k + done] = x[k] * factor + shift, modulo 2^32
        more = min(done, count - done)
        states[done : done + more] = states[:more] * np.uint32(factor) + np.uint32(shift)
        done += more
        factor, shift = factor * factor % 2**32, (factor * shift + shift) % 2**32
    return np.asarray(states[:count] >> np.uint32(8), np.int64)


def best_stimulus(
    graph: Graph, bound: float, make: Callable[[Stimulus], Inputs] | None = None
) -> Verdict:
    """A stimulus in which a change of any layer moves an output by much more than `bound`.

    It is the first one with MARGIN times as much, else the best one tried. For each seed, all gains
    are compared by a change of all layers at once; the best are judged layer by layer. `make` gives
    the inputs if they are not those of the graph.
    """
    search = _Search(graph, make or (lambda stimulus: stimulus.inputs(graph)), bound)
    cost = reference_cost(graph)
    judging = cost * (1 + len(search.weights) // 2)
    if judging > LARGE_BUDGET:
        return search.quick(LARGE_BUDGET // cost // 2)
    best, spent, fruitless = search.judge(Stimulus()), judging, 0
    for stimuli in _rounds(graph):
        spent += 2 * len(stimuli) * cost + JUDGED * judging
        if best.rank(bound) >= (0, MARGIN * bound) or spent > BUDGET or fruitless == PATIENCE:
            break
        promising = sorted(stimuli, key=search.joint_shift, reverse=True)[:JUDGED]
        verdict = max(map(search.judge, promising), key=lambda v: v.rank(bound))
        better = verdict.rank(bound) > best.rank(bound)
        best, fruitless = (verdict, 0) if better else (best, fruitless + 1)
    return best


@dataclass(frozen=True)
class _Search:
    """The parts of `best_stimulus`."""

    graph: Graph
    make: Callable[[Stimulus], Inputs]
    bound: float

    @cached_property
    def weights(self) -> dict[str, str]:
        return layer_weights(self.graph)

    def judge(self, stimulus: Stimulus) -> Verdict:
        """Layer by layer, extrapolated from a small change, which flips no saturated output."""
        with np.errstate(all="ignore"):
            values = evaluate_all(self.graph, self.make(stimulus))
            shifts = {
                k: _shift(self.graph, values, [name], FINE) / FINE
                for k, name in self.weights.items()
            }
        return Verdict(stimulus, shifts)

    def joint_shift(self, stimulus: Stimulus) -> float:
        """All layers at once, extrapolated from a small change."""
        with np.errstate(all="ignore"):
            values = evaluate_all(self.graph, self.make(stimulus))
            shift = _shift(self.graph, values, list(self.weights.values()), JOINT)
        return _two_digits(shift / JOINT)

    def quick(self, trials: int) -> Verdict:
        """For a large network: the first of a few that reveals a joint change, else the best."""
        best, most = Stimulus(), -1.0
        for stimulus in next(_rounds(self.graph))[:trials]:
            shift = self.joint_shift(stimulus)
            best, most = (stimulus, shift) if shift > most else (best, most)
            if shift >= MARGIN * self.bound:
                break
        return Verdict(best, {}, complete=False)


def layer_weights(graph: Graph) -> dict[str, str]:
    """The largest constant of each layer that multiplies, by the layer's name."""
    found: dict[str, str] = {}
    macs = _macs(graph)
    for node in graph.nodes:
        floats = [i for i in node.inputs if i in graph.constants and _is_float(graph, i)]
        if floats and macs[node.name]:
            found[node.name] = max(floats, key=lambda name: graph.types[name].elements)
    return found


def changed(weights: RefArray, part: float = 1.0) -> RefArray:
    """Weights enlarged by `part` of CHANGES in turn, which no later normalisation cancels out."""
    repeated = np.tile(CHANGES, -(-weights.size // len(CHANGES)))[: weights.size]
    factors = 1.0 + part * repeated.reshape(weights.shape)
    return weights.astype(np.float64) * factors


def _rounds(graph: Graph) -> Iterator[list[Stimulus]]:
    floats = any(_is_float(graph, name) for name in graph.inputs)
    gains = [gain for gain in GAINS if floats or gain <= 1.0]
    signs = (True, False) if floats else (True,)
    for seed in range(1, 1 + SEEDS):
        yield [Stimulus(seed, gain, signed) for signed in signs for gain in gains]


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def _shift(
    graph: Graph, values: Mapping[str, RefArray], names: list[str], part: float = 1.0
) -> float:
    """max|change| / max|y| of the output that moves most when constants are `changed`.

    `values` are all values of the graph; only those that depend on the constants are recomputed.
    """
    constants = {name: changed(graph.constants[name], part) for name in names}
    new = recomputed(graph, values, constants)
    return max((_distance(values[y], new[y]) for y in graph.outputs if y in new), default=0.0)


def _distance(old: RefArray, new: RefArray) -> float:
    before, after = old.astype(np.float64), new.astype(np.float64)
    largest = float(np.abs(before).max(initial=0.0))
    distance = float(np.abs(after - before).max(initial=0.0))
    known = np.isfinite(distance) and np.isfinite(largest) and largest > 0.0
    return distance / largest if known else 0.0


def _is_float(graph: Graph, name: str) -> bool:
    return graph.types[name].dtype == DType.FLOAT32


def _macs(graph: Graph) -> Counter[str]:
    """Multiply-accumulates by layer."""
    found: Counter[str] = Counter()
    for node in graph.nodes:
        found[node.name] += node.op.macs(
            tuple(graph.types[i] if i else None for i in node.inputs),
            tuple(graph.types[o] for o in node.outputs),
        )
    return found


def reference_cost(graph: Graph) -> int:
    """The cost of a network's references, in multiply-accumulates."""
    elements = sum(graph.types[output].elements for node in graph.nodes for output in node.outputs)
    weights = (graph.types[name].shape for name in layer_weights(graph).values())
    loops = sum(prod(shape[:-1]) for shape in weights)
    return (
        _macs(graph).total() + ELEMENT_COST * elements + WEIGHT_COST * loops
        + NODE_COST * (1 + len(graph.nodes))
    )  # fmt: skip


def neighbours(stimulus: Stimulus, count: int) -> list[Stimulus]:
    """The stimulus, and others like it from other seeds."""
    return [replace(stimulus, seed=stimulus.seed + k) for k in range(count)]
