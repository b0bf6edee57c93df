"""Inputs that are constants, as the option SET gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from cannery.errors import OptionError, one_of
from cannery.ir.graph import Array, Graph
from cannery.ir.tensor import DType

_WHERE = "--set"

#: The words for the values of a bool.
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def require_inputs(fixed: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Raises OptionError for a constant that is not an input, or if no input is left."""
    for name in fixed:
        if name not in inputs:
            cure = one_of(name, inputs, "inputs")
            raise OptionError(f"no input is called {name!r}", where=_WHERE, cure=cure)
    if inputs and set(inputs) <= set(fixed):
        raise OptionError("no input is left", where=_WHERE, cure="leave out one of them")


def constant_of(name: str, text: str, dtype: DType, shape: Sequence[int] | None) -> Array:
    """The array of an input: one number for all elements, or as many as there are, by commas.

    Without a shape, one number is a scalar, and several are a list. Raises OptionError.
    """
    words = text.split(",")
    values = [_number(name, word.strip(), dtype) for word in words]
    if shape is None:
        shape = () if len(values) == 1 else (len(values),)
    if len(values) not in (1, prod(shape)):
        raise OptionError(
            f"{len(values)} numbers for {name!r}, {dtype.value}{list(shape)}", where=_WHERE,
            cure=f"give one for all of its elements, or {prod(shape)}",
        )  # fmt: skip
    filled = values * prod(shape) if len(values) == 1 else values
    return np.array(filled, dtype.numpy).reshape(tuple(shape))


def _number(name: str, word: str, dtype: DType) -> float | int | bool:
    if dtype is DType.BOOL:
        if word.lower() in _FLAGS:
            return _FLAGS[word.lower()]
        raise _misfit(name, word, dtype, "true or false")
    if dtype is DType.FLOAT32:
        found = float(word) if word.lower() not in _FLAGS or word in "01" else float("nan")
        if abs(found) <= float(np.finfo(np.float32).max):
            return found
        raise _misfit(name, word, dtype, "a finite number")
    info = np.iinfo(dtype.value)
    try:
        whole = int(word)
    except ValueError:
        whole = info.max + 1
    if info.min <= whole <= info.max:
        return whole
    raise _misfit(name, word, dtype, f"a whole number from {info.min} to {info.max}")


def _misfit(name: str, word: str, dtype: DType, cure: str) -> OptionError:
    what = f"{word!r} is not a value of {name!r}, which is {dtype.value}"
    return OptionError(what, where=_WHERE, cure=f"give {cure}")


def with_fixed(graph: Graph, fixed: Mapping[str, str]) -> Graph:
    """The graph with those of its inputs as constants. Raises OptionError for values."""
    arrays = {
        name: constant_of(name, text, graph.types[name].dtype, graph.types[name].shape)
        for name, text in fixed.items()
        if name in graph.inputs
    }
    if not arrays:
        return graph
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in arrays),
        constants={**graph.constants, **arrays},
        channels_first=graph.channels_first - arrays.keys(),
        notes=(*graph.notes, *fixed_notes(fixed)),
    )


def fixed_notes(fixed: Mapping[str, str]) -> tuple[str, ...]:
    """What the interface says of them."""
    return tuple(f"the model's input {name!r} is {text}" for name, text in fixed.items())
