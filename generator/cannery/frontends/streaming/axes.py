"""Which axes of inputs may be time: those that the user names, else all that are long enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cannery.errors import OptionError, one_of
from cannery.frontends.time_axis import Time
from cannery.ir.graph import Graph
from cannery.ir.orders import graph_axis, model_type
from cannery.ops.recurrent.base import Recurrent


def known_times(graph: Graph, time_axis: Mapping[str, int | str]) -> dict[str, Time]:
    """The axes as the graph counts them. Raises OptionError."""
    found: dict[str, Time] = {}
    for value, axis in time_axis.items():
        if value not in graph.inputs:
            raise OptionError(
                f"{value!r} is not an input", where="--time-axis", cure=one_of(value, graph.inputs)
            )
        shape = model_type(graph, value).shape
        if not isinstance(axis, int):
            found[value] = None
        elif axis < len(shape) and shape[axis] > 1:
            found[value] = graph_axis(graph, value, axis)
        else:
            steps = f"axis {axis} has one step" if axis < len(shape) else f"no axis {axis}"
            raise OptionError(
                f"{value!r} has the shape {'x'.join(map(str, shape))}: {steps}",
                where="--time-axis", cure="axes count from 0, in the model's order",
            )  # fmt: skip
    return found


def axes_of(graph: Graph) -> Callable[[tuple[int, ...]], list[int]]:
    """Where time may be in a shape: the steps of recurrent layers, or any axis but the samples'."""
    steps = {graph.types[n.inputs[0]].shape[1] for n in graph.nodes if isinstance(n.op, Recurrent)}
    found = steps.intersection(*(graph.types[v].shape for v in graph.inputs))
    if steps == {1}:
        return lambda shape: []
    if found:
        return lambda shape: [a for a, size in enumerate(shape) if size in found]
    return lambda shape: [a for a, size in enumerate(shape) if a > 0 and size > 1]
