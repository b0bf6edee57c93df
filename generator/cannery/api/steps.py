"""Calls of a network that runs step by step: which of its functions computes this many steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cannery.api.interface import Argument, Interface, StepCall
from cannery.errors import OptionError


def call_for(net: Interface, arrays: Sequence[Any], named: Mapping[str, Any]) -> StepCall:
    """The call for as many steps as the inputs bring; the smallest if they do not tell.

    Raises OptionError if no calls of the network add up to so many.
    """
    smallest = net.calls[0]
    count = _steps(smallest.inputs, arrays, named)
    for call in net.calls:
        if count in (None, call.steps):
            return call
    assert count is not None
    left = count
    for call in reversed(net.calls):
        left %= call.steps
    if not net.loops or left or count < 1:
        sizes = ", ".join(str(call.steps) for call in net.calls)
        together = " or sums of these" if net.loops else ""
        raise OptionError(
            f"{count} steps; calls bring {sizes}{together}", where=net.name,
            cure="give as many; options streaming=True, block=N make other calls",
        )  # fmt: skip
    inputs, outputs = (
        tuple(_longer(a, smallest.steps, count) for a in arguments)
        for arguments in (smallest.inputs, smallest.outputs)
    )
    return StepCall(count, "_steps_in", inputs, outputs, looped=True)


def _longer(argument: Argument, steps: int, count: int) -> Argument:
    """A tensor of calls of `steps` steps, for `count` of them."""
    axis = argument.time
    if axis < 0:
        return argument
    size = argument.dims[axis] * count // steps
    return argument._replace(dims=(*argument.dims[:axis], size, *argument.dims[axis + 1 :]))


def _steps(
    inputs: Sequence[Argument], arrays: Sequence[Any], named: Mapping[str, Any]
) -> int | None:
    """How many steps the first input along time has; None: only its owner can say."""
    for k, argument in enumerate(inputs):
        found = arrays[k] if k < len(arrays) else None
        for name in (argument.identifier, argument.source):
            found = named.get(name, found)
        if argument.time < 0 or found is None:
            continue
        shape = np.shape(found)
        axis = argument.time - len(argument.dims) + len(shape)
        return shape[axis] if 0 <= axis < len(shape) else None
    return None
