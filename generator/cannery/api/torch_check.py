"""Whether what PyTorch exported computes what the module does.

PyTorch's older exporter has forms that it exports as something else (it truncates `x // 0.3`), and
says nothing. So the exported graph and the module compute the same inputs. The graph is computed in
float64, the module in its own precision: where a slight change of the inputs changes the module's
own result, that much may differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from cannery.api.model import given_model
from cannery.deadline import OutOfTimeError, now, until
from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.evaluate import Values
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, model_type, to_model
from cannery.ir.registry import RefArray
from cannery.ops.movement.op import Cast

#: What the module computes: the tensors of its result in a row.
Run: TypeAlias = Callable[[Sequence[RefArray]], Sequence[RefArray]]

#: Factors of normal noise; inputs of the first kind are the examples themselves.
_SCALES = (0.0, 1.0, 10.0)
#: Seconds for all of them; what takes longer is not compared.
_SECONDS = 20.0
#: Errors of float32, relative to the largest value.
_ROUNDING = 1e-3
#: A change of the inputs like that of rounding, and how much more than it may differ.
_SLIGHT, _MARGIN = 1e-6, 10.0
#: Which part of an output may differ more, as where a step falls on the other side.
_FLIPS = 1e-3


def difference(data: bytes, run: Run, examples: Sequence[RefArray]) -> str | None:
    """In which output an exported file differs from the module, in words.

    None if in none, or where that cannot be compared: the file needs options, or takes long.
    """
    graph = _graph(data)
    shapes = [model_type(graph, name).shape for name in graph.inputs] if graph else None
    if graph is None or shapes != [array.shape for array in examples]:
        return None
    try:
        with until(now() + _SECONDS), np.errstate(all="ignore"):
            for inputs in _inputs(examples):
                found = _differing(graph, run, inputs)
                if found is not None:
                    return found
    except (CanneryError, OutOfTimeError):
        pass
    return None


def _graph(data: bytes) -> Graph | None:
    with warnings.catch_warnings(), given_model(data, {}, "from_torch").as_file() as options:
        warnings.simplefilter("ignore")
        try:
            return load_graph(options.model)
        except CanneryError:
            return None  # whoever compiles it is told why


def _inputs(examples: Sequence[RefArray]) -> Iterator[list[RefArray]]:
    """The examples, then noise in place of their floats: indices have to stay what they are."""
    noise = np.random.default_rng(1)
    for scale in _SCALES:
        yield [
            scale * noise.standard_normal(array.shape) if scale and _is_float(array) else array
            for array in examples
        ]


def _is_float(array: RefArray) -> bool:
    return array.dtype.kind == "f"


def _differing(graph: Graph, run: Run, inputs: Sequence[RefArray]) -> str | None:
    nearby = [np.multiply(x, 1 + _SLIGHT) if _is_float(x) else x for x in inputs]
    try:
        wanted, moved = run(inputs), run(nearby)
    except Exception:
        return None  # these numbers are none that the module takes
    found = _computed(graph, inputs)
    if found is None:
        return None
    if len(found) != len(wanted):
        return None
    for (name, y), r, near in zip(found.items(), wanted, moved, strict=True):
        if y.shape == r.shape == near.shape:
            worst = _worst(y, r, near)
            if worst is not None:
                return f"{name!r} is {worst[0]:.6g} where the module has {worst[1]:.6g}"
    return None


def _computed(graph: Graph, inputs: Sequence[RefArray]) -> dict[str, RefArray] | None:
    """The outputs in the order of the file; None if a type lacks a number that is cast to it."""
    values = Values(graph, from_model(graph, dict(zip(graph.inputs, inputs, strict=True))))
    for node in graph.nodes:
        values.compute(node)
        if isinstance(node.op, Cast) and node.op.to.numpy.kind in "iu":
            x, y = values[node.inputs[0]], values[node.outputs[0]]
            if _is_float(x) and not (np.trunc(x) == y).all():
                return None  # C and Python leave open what comes out
    return to_model(graph, {name: values[name] for name in graph.outputs})


def _worst(found: RefArray, wanted: RefArray, near: RefArray) -> tuple[float, float] | None:
    """The two numbers that differ most, if they do beyond rounding."""
    y, r, moved = (array.astype(np.float64) for array in (found, wanted, near))
    known = np.isfinite(r) & np.isfinite(moved)
    largest = np.max(np.abs(r[known]), initial=0.0)
    allowed = _ROUNDING * largest + _MARGIN * np.max(np.abs(r - moved)[known], initial=0.0)
    off = np.where(known, np.abs(y - r), 0.0)
    wrong = ~(off <= allowed)
    if not wrong.any() or wrong.mean() <= _FLIPS:
        return None
    place = np.unravel_index(np.argmax(np.where(wrong, off, -1.0)), off.shape)
    return float(y[place]), float(r[place])
