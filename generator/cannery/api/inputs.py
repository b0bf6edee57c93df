"""What a network is called with: inputs by position or name, one sample or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cannery.api.arrays import Array, as_read, to_array
from cannery.api.interface import Argument, Interface
from cannery.errors import OptionError, one_of


class Inputs(NamedTuple):
    """Dense arrays in the order of the code's parameters.

    They hold so many `samples`, one after the other (None: one, as in the model), along the first
    axis, which has `batch` in the model, or (batch 0) along a separate axis. `steps` is the length
    of the sequences, if it may vary.
    """

    arrays: list[Array]
    samples: int | None = None
    batch: int = 0
    steps: int | None = None

    def result_dims(self, argument: Argument) -> tuple[int, ...]:
        """The shape of an output for these inputs, with room for all steps."""
        dims = argument.dims
        if self.samples is None:
            return dims
        if self.batch and dims[:1] == (self.batch,):
            return (self.samples * self.batch, *dims[1:])
        return (self.samples, *dims)


def read_inputs(
    net: Interface, inputs: Sequence[Argument], given: Sequence[Any], named: Mapping[str, Any]
) -> Inputs:
    """The inputs of a call. Raises OptionError for what does not fit `inputs`."""
    found = [to_array(each, i) for each, i in zip(_sorted(net, inputs, given, named), inputs,
                                                  strict=True)]  # fmt: skip
    steps = None
    if net.max_length:
        steps = _steps(net, inputs, found)
        found = [_padded(net, a, i) for a, i in zip(found, inputs, strict=True)]
    counts = [_count(net, a, i) for a, i in zip(found, inputs, strict=True)]
    arrays = [as_read(a, i) for a, i in zip(found, inputs, strict=True)]
    if len(set(counts)) > 1:
        raise OptionError(
            f"inputs hold {', '.join(sorted({_count_text(c) for c in counts}))}", where=net.name,
            cure="give every input the same number of samples",
        )  # fmt: skip
    count, batch = counts[0] if counts else (None, 0)
    return Inputs(arrays, count, batch, steps)


def _count_text(count: tuple[int | None, int]) -> str:
    samples, batch = count
    number = 1 if samples is None else samples * max(batch, 1)
    return f"{number} sample{'' if number == 1 else 's'}"


def _sorted(
    net: Interface, inputs: Sequence[Argument], given: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """The value given for each input, in order; names are those of the model or of C."""
    if len(given) > len(inputs):
        raise OptionError(f"{len(given)} inputs given, there are {len(inputs)}", where=net.name)
    found: dict[str, Any] = {i.source: a for i, a in zip(inputs, given, strict=False)}
    sources = {i.identifier: i.source for i in inputs} | {i.source: i.source for i in inputs}
    for name, array in named.items():
        if name not in sources or sources[name] in found:
            what = "is given twice" if name in sources else "is not an input"
            cure = one_of(name, [i.source for i in inputs], "inputs")
            if name == "threads":
                cure = "it is an option of load and compile"
            raise OptionError(f"{name!r} {what}", where=net.name, cure=cure)
        found[sources[name]] = array
    missing = [i.source for i in inputs if i.source not in found]
    if missing:
        kept = missing[0] in [i.source for i in net.inputs[len(net.step_inputs) :]]
        cure = "step(state, ...) keeps it, with state = new_state()" if kept else ""
        raise OptionError(f"input {missing[0]!r} is missing", where=net.name, cure=cure)
    return [found[i.source] for i in inputs]


def _count(net: Interface, array: Array, argument: Argument) -> tuple[int | None, int]:
    """How many samples an array holds (None: one, as in the model), and of what batch."""
    shape, dims, batch = array.shape, argument.dims, net.batch
    if shape == dims or (1, *shape) == dims:
        return None, 0
    if batch and shape[1:] == dims[1:] and len(shape) == len(dims) and shape[0] % batch == 0:
        return shape[0] // batch, batch
    if shape[1:] == dims and len(shape) == len(dims) + 1 and not net.states:
        return shape[0], 0
    samples = f", or {('n', *dims[1:])} for n samples".replace("'", "") if batch else ""
    raise OptionError(
        f"shape {shape}; {dims} is needed{samples}", where=f"input {argument.source!r}"
    )


def _axis(argument: Argument, array: Array) -> int:
    """The time axis of an array, which may have one more or one less axis at the beginning."""
    return argument.time - len(argument.dims) + array.ndim


def _steps(net: Interface, inputs: Sequence[Argument], arrays: Sequence[Array]) -> int:
    """The length of the sequences, the same in all inputs."""
    lengths = set()
    for argument, array in zip(inputs, arrays, strict=True):
        if argument.time < 0:
            continue
        axis = _axis(argument, array)
        steps = array.shape[axis] if 0 <= axis < array.ndim else -1
        if not 0 <= steps <= net.max_length:
            raise OptionError(
                f"shape {array.shape}; up to {argument.dims} is possible",
                where=f"input {argument.source!r}",
            )
        lengths.add(steps)
    if len(lengths) != 1:
        raise OptionError(
            f"inputs have {', '.join(map(str, sorted(lengths))) or 'no'} steps",
            where=net.name, cure="give all sequences the same length",
        )  # fmt: skip
    return lengths.pop()


def _padded(net: Interface, array: Array, argument: Argument) -> Array:
    """A sequence padded to all steps; other arrays unchanged."""
    if argument.time < 0:
        return array
    axis = _axis(argument, array)
    missing = net.max_length - array.shape[axis]
    return np.pad(array, [(0, missing if k == axis else 0) for k in range(array.ndim)])


def cut_steps(array: Array, argument: Argument, steps: int | None) -> Array:
    """An output without the steps after the end of the sequences."""
    if steps is None or argument.time < 0:
        return array
    axis = _axis(argument, array)
    return array[tuple(slice(steps if k == axis else None) for k in range(array.ndim))]
