"""What Python must know about a generated network to call it; it is kept next to the library.

These are named tuples because dataclasses take longer to define than a network to load.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cannery.emit.interface import Tensor
    from cannery.emit.source import Source


class Port(NamedTuple):
    """An input or output: its name in the model, its shape in memory, and its element type.

    If integers represent other numbers, these are scale * (q - zero_point); else scale is 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    scale: float = 0.0
    zero_point: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.dtype.name}[{'x'.join(map(str, self.shape))}]"


class Argument(NamedTuple):
    """A tensor of the generated functions: `identifier` is its name in C, `source` in the model.

    `strides` are the arguments that follow the pointer of a dense view; `time` is the axis along
    which sequences may be shorter (-1: none).
    """

    identifier: str
    source: str
    dims: tuple[int, ...]
    element: str
    strides: tuple[int, ...] = ()
    time: int = -1
    scale: float = 0.0
    zero_point: int = 0

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type."""
        return np.dtype(self.element)

    @property
    def port(self) -> Port:
        """The same tensor, for users."""
        return Port(self.source, self.dims, self.dtype, self.scale, self.zero_point)


class ThreadMemory(NamedTuple):
    """Bytes of memory for the functions for several threads: `base` and `further` for one input,
    `many` for each thread that shares several inputs. `steps` of one input are cut.
    """

    base: int
    further: int
    many: int
    steps: int


class StepCall(NamedTuple):
    """The function for calls of this many steps, without the network's name: `_step_in`.

    Where there are several, `time` of an argument is the axis of its steps. One that is `looped`
    takes the number of steps. There are outputs in one of `every` calls.
    """

    steps: int
    function: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    looped: bool = False
    every: int = 1

    @property
    def leading(self) -> tuple[ctypes.c_int32, ...]:
        """What comes before the tensors: the number of steps, if the function takes it."""
        return (ctypes.c_int32(self.steps),) if self.looped else ()


class Interface(NamedTuple):
    """A network as in its library; the last `states` inputs and outputs belong to the state.

    `calls` are those of a network that runs step by step, by size; `loops` says that there is a
    function for any number of them. There are outputs in one of `every` calls,
    and silence changes nothing after `prewarm_calls`; `prewarms`: there is a function for them.

    `batch` is the size of the first axis of the inputs if that counts samples, else 0. `needs` are
    the words of /proc/cpuinfo that its processor must list, `machine` the processor's family.
    `latency` is by how many steps outputs are late, `first_output_call` the number of the first
    call with outputs, from 1.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    workspace_bytes: int
    states: int = 0
    state_bytes: int = 0
    max_length: int = 0
    batch: int = 0
    machine: str = ""
    needs: tuple[str, ...] = ()
    threads: ThreadMemory | None = None
    latency: int = 0
    calls: tuple[StepCall, ...] = ()
    loops: bool = False
    every: int = 1
    prewarm_calls: int = 0
    prewarms: bool = False
    first_output_call: int = 1

    @property
    def step_inputs(self) -> tuple[Argument, ...]:
        """The inputs without those of the state."""
        return self.inputs[: len(self.inputs) - self.states]

    @property
    def step_outputs(self) -> tuple[Argument, ...]:
        """The outputs without those of the state."""
        return self.outputs[: len(self.outputs) - self.states]


def interface_from(stored: Sequence[Any]) -> Interface:
    """The interface that JSON made lists of. Raises TypeError for anything else."""
    found = Interface._make(stored)
    return found._replace(
        inputs=tuple(map(_argument_from, found.inputs)),
        outputs=tuple(map(_argument_from, found.outputs)),
        needs=tuple(found.needs),
        threads=found.threads and ThreadMemory._make(found.threads),
        calls=tuple(map(_call_from, found.calls)),
    )


def _call_from(stored: Sequence[Any]) -> StepCall:
    found = StepCall._make(stored)
    return found._replace(
        inputs=tuple(map(_argument_from, found.inputs)),
        outputs=tuple(map(_argument_from, found.outputs)),
    )


def _argument_from(stored: Sequence[Any]) -> Argument:
    found = Argument._make(stored)
    return found._replace(dims=tuple(found.dims), strides=tuple(found.strides))


def interface_of(source: Source, batch: int, machine: str, needs: tuple[str, ...]) -> Interface:
    """The facts about generated code, made for `batch` samples and this processor."""
    axes = source.time_axes
    inputs = tuple(_argument(t, axes.get(t.name, -1)) for t in source.inputs)
    outputs = tuple(_argument(t, axes.get(t.name, -1)) for t in source.outputs)
    counted = inputs if batch == 1 else (*inputs, *outputs)
    plain = not source.states.slots and all(t.dims[:1] == (batch,) for t in counted)
    return Interface(
        source.name, inputs, outputs, source.many_bytes, len(source.states.slots),
        source.states.bytes, source.max_length, batch if plain else 0, machine, needs,
        _threads(source), source.graph.calls.latency if source.graph.calls else 0, _calls(source),
        bool(source.advances), source.graph.calls.every if source.graph.calls else 1,
        source.prewarm_calls, source.graph.calls is not None,
        source.graph.calls.first_output if source.graph.calls else 1,
    )  # fmt: skip


def _calls(source: Source) -> tuple[StepCall, ...]:
    """The calls for steps, if there are any, smallest first."""
    if not source.states.slots:
        return ()
    sizes = source.by_size[::-1]
    return tuple(_call(call, sizes[-1 if call is source else 0], call is source) for call in sizes)


def _call(call: Source, other: Source, first: bool) -> StepCall:
    """A call; `other` is one of another size, if there is one."""
    from cannery.emit.interface import differing_axis  # libraries that are kept do without

    inputs, outputs = (
        tuple(_argument(t, differing_axis(t, o)) for t, o in zip(own, others, strict=True))
        for own, others in (
            (call.step_inputs, other.step_inputs), (call.step_outputs, other.step_outputs),
        )
    )  # fmt: skip
    steps = call.graph.steps_of_call
    every = call.graph.calls.every if call.graph.calls else 1
    function = "_step_in" if first else f"_step_{steps}_in"
    return StepCall(steps, function, inputs, outputs, every=every)


def _threads(source: Source) -> ThreadMemory | None:
    if source.parallel is None:
        return None
    return ThreadMemory(
        source.parallel_base_bytes, source.thread_bytes, source.many_thread_bytes,
        len(source.parallel.steps),
    )  # fmt: skip


def _argument(tensor: Tensor, time: int) -> Argument:
    scale = tensor.scale.scale if tensor.scale else 0.0
    return Argument(
        tensor.name, tensor.source, tensor.dims, tensor.type.dtype.numpy.name,
        tensor.dense_strides, time, scale, tensor.zero_point,
    )  # fmt: skip
