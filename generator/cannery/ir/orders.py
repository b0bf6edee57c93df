"""Images in the model file's order: channels first if `Graph.channels_first` says so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cannery.ir.graph import Array, Graph
from cannery.ir.tensor import TensorType


def model_type(graph: Graph, value: str) -> TensorType:
    """The type of an input or output in the model."""
    type_ = graph.types[value]
    if value not in graph.channels_first:
        return type_
    return TensorType((type_.shape[0], type_.shape[-1], *type_.shape[1:-1]), type_.dtype)


def graph_axis(graph: Graph, value: str, axis: int) -> int:
    """An axis of an input or output in the graph, by that in the model."""
    if value not in graph.channels_first or axis == 0:
        return axis
    return len(graph.types[value].shape) - 1 if axis == 1 else axis - 1


def model_axis(graph: Graph, value: str, axis: int) -> int:
    """The inverse of `graph_axis`."""
    if value not in graph.channels_first or axis == 0:
        return axis
    return 1 if axis == len(graph.types[value].shape) - 1 else axis + 1


def time_note(value: str, axis: int) -> str:
    """The note (`Graph.notes`) that says which axis of an input, in the model, is time."""
    return f"time is axis {axis} of {value!r}"


def noted_time(graph: Graph, value: str) -> int | None:
    """The axis that a note says, if one does."""
    axes = range(graph.types[value].rank)
    return next((axis for axis in axes if time_note(value, axis) in graph.notes), None)


def from_model(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of inputs or outputs by name, from the order of the model to that of the graph."""
    first = graph.channels_first
    return {name: np.moveaxis(a, 1, -1) if name in first else a for name, a in arrays.items()}


def to_model(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The inverse of `from_model`."""
    first = graph.channels_first
    return {name: np.moveaxis(a, -1, 1) if name in first else a for name, a in arrays.items()}
