"""Stores weights as float16: which layers bear the rounding, and how much the network loses.

The arithmetic stays that of float32; kernels convert weights where they load them. Rounding is to
the nearest float16, ties to even. The references run with the rounded weights on samples, and the
outputs may lose what `--max-error` allows. If all layers together lose more, those with the most
error per byte stay float32: the error of each layer alone says which, and bisection how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.choose.bisect import longest
from cannery.errors import ModelError, OptionError
from cannery.execution.samples import errors_by_output, relative_error
from cannery.ir.evaluate import evaluate, evaluate_all, recomputed, widen
from cannery.ir.graph import Array, Graph, HalfWeights
from cannery.ir.registry import RefArray
from cannery.ir.stimulus import layer_weights
from cannery.lowering.lower import cut
from cannery.quantization.judge import Judge
from cannery.schedule.schedule import legal
from cannery.target.isa import isa

OPTION = "--weights-as"

#: The largest finite float16; what rounds to more is infinite.
LARGEST = 65504.0

#: How much larger the error is over other samples than over these, and by rounding to float32.
MARGIN = 1.25


@dataclass(frozen=True)
class _Layers:
    """Layers whose weights float16 can hold, and why others stay float32; both by name."""

    weights: Mapping[str, str]
    kept: Mapping[str, str]


def store_halves(
    graph: Graph, max_error: float, samples: Path | None = None,
    layers: Sequence[str] | None = None,
) -> Graph:  # fmt: skip
    """The graph with weights rounded to float16, and `Graph.half_weights`, which says what it costs
    and saves.

    `samples` is a .npz file of typical inputs (None: seeded ones); `layers`, if given, are those to
    store as float16. If the code has to serve other weights (`Graph.weights_vary`), no choice
    depends on numbers: all layers become float16. Raises OptionError if none can, and if the error
    cannot be kept; ModelError for weights that float16 cannot hold and that must not stay float32.
    """
    found = _layers(graph)
    if not found.weights:
        raise OptionError(
            f"no layer has weights that can be stored as float16{_reasons(found.kept)}",
            where=OPTION, cure="leave it out",
        )  # fmt: skip
    judge = _Judge.of(graph, samples)
    if graph.weights_vary and found.kept:
        name, reason = next(iter(found.kept.items()))
        raise ModelError(
            f"{reason}, but with --weights all layers are stored as float16",
            where=f"layer {name!r}", cure="leave out --weights or --weights-as",
        )  # fmt: skip
    chosen, kept = found.weights, dict(found.kept)
    if layers is not None:
        chosen = {name: found.weights[name] for name in layers}
        kept |= dict.fromkeys(found.weights.keys() - set(layers), _SMALLEST_BLOCK)
    error = judge.error(chosen)
    if not MARGIN * error <= max_error and layers is None:
        if graph.weights_vary:
            raise _too_much(error, max_error)
        chosen, more = _bearable(judge, found.weights, max_error, error)
        error, kept = judge.error(chosen), kept | more
    return _marked(graph, chosen, kept, judge, error)


_SMALLEST_BLOCK = "it loses too much in calls of the smallest --block"


def rounded(array: Array) -> Array:
    """Numbers rounded to the nearest float16, ties to even, in the type float32."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def with_halves(graph: Graph, names: Set[str]) -> Graph:
    """The graph with these constants rounded, and stored as float16."""
    constants = {k: rounded(v) if k in names else v for k, v in graph.constants.items()}
    return replace(graph, constants=constants, halves=frozenset(names))


def storable(graph: Graph) -> dict[str, str]:
    """The weights by layer that kernels can read as float16, whatever their numbers are."""
    weights, plain = layer_weights(graph), isa("generic")
    unable = set[str]()
    for step in cut(graph):
        own = {weights.get(node.name, "") for node in step.anchors}
        for name in {v for node in step.nodes for v in node.inputs if v in weights.values()}:
            marked = replace(graph, halves=frozenset({name}))
            if name not in own or not legal(marked, step, plain):
                unable.add(name)
    return {layer: name for layer, name in weights.items() if name not in unable}


def _layers(graph: Graph) -> _Layers:
    able, kept = storable(graph), {}
    for layer in layer_weights(graph).keys() - able.keys():
        kept[layer] = "its kernels read float32"
    for layer, name in able.items():
        array = graph.constants[name]
        if not np.isfinite(array).all():
            kept[layer] = "a weight is not finite"
        elif not np.isfinite(rounded(array)).all():
            largest = float(np.abs(array).max())
            kept[layer] = f"a weight of {largest:.6g} is beyond {LARGEST:g}, the largest float16"
    order = [node.name for node in graph.nodes]
    named = {name: kept[name] for name in dict.fromkeys(order) if name in kept}
    return _Layers({k: v for k, v in able.items() if k not in kept}, named)


@dataclass(frozen=True)
class _Judge(Judge):
    """By the error with weights rounded."""

    def error(self, layers: Mapping[str, str]) -> float:
        """The largest error of an output with the weights of these layers rounded."""
        made = with_halves(self.graph, set(layers.values()))
        with np.errstate(all="ignore"):
            outputs = [evaluate(made, sample) for sample in self.samples]
        return max(errors_by_output(outputs, self.expected).values())

    def alone(self, layers: Mapping[str, str]) -> dict[str, float]:
        """The same for the weights of each layer alone, on the last sample."""
        with np.errstate(all="ignore"):
            values = evaluate_all(self.graph, self.samples[-1])
            return {layer: self._alone(values, name) for layer, name in layers.items()}

    def _alone(self, values: Mapping[str, RefArray], name: str) -> float:
        new = recomputed(self.graph, values, {name: widen(rounded(self.graph.constants[name]))})
        errors = (relative_error(new[y], values[y]) for y in self.graph.outputs if y in new)
        return max(errors, default=0.0)


def _bearable(
    judge: _Judge, weights: Mapping[str, str], max_error: float, error: float
) -> tuple[dict[str, str], dict[str, str]]:
    """The layers to round if all together, which lose `error`, lose too much; why not the others.

    Errors of layers add up like random numbers: by their squares.
    """
    alone = judge.alone(weights)
    sizes = {layer: judge.graph.constants[name].nbytes for layer, name in weights.items()}
    order = sorted(weights, key=lambda layer: (alone[layer] ** 2 / sizes[layer], layer))

    def bears(some: Sequence[str]) -> bool:
        return MARGIN * judge.error({k: weights[k] for k in some}) <= max_error

    most = longest(order, bears)
    if not most:
        raise _too_much(error, max_error)
    kept = {layer: f"alone it loses {alone[layer]:.2g}" for layer in order[len(most) :]}
    return {layer: weights[layer] for layer in weights if layer not in kept}, kept


def _too_much(error: float, max_error: float) -> OptionError:
    return OptionError(
        f"weights rounded to float16 cost the outputs {error:.2g}, with a margin more than "
        f"--max-error {max_error:g}",
        where=OPTION, cure=f"allow more, such as --max-error {enough(error):g}",
    )  # fmt: skip


def enough(error: float) -> float:
    """One digit that allows an error."""
    wanted = MARGIN * error
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(f"{np.ceil(wanted / power) * power:.0e}")


def _reasons(kept: Mapping[str, str]) -> str:
    told = "; ".join(f"{name!r}: {reason}" for name, reason in _first(kept))
    return f" ({told})" if told else ""


def _first(kept: Mapping[str, str], most: int = 3) -> Iterator[tuple[str, str]]:
    yield from list(kept.items())[:most]


def _marked(
    graph: Graph, chosen: Mapping[str, str], kept: Mapping[str, str], judge: _Judge, error: float
) -> Graph:
    made = with_halves(graph, set(chosen.values()))
    before = sum(int(array.nbytes) for array in graph.constants.values())
    saved = sum(int(graph.constants[name].nbytes) // 2 for name in made.halves)
    facts = HalfWeights(
        tuple(chosen), tuple(kept.items()), error, len(judge.samples), before, before - saved
    )
    return replace(made, half_weights=facts)
