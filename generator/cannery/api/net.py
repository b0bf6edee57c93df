"""A network, ready to be called."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cannery.api.arrays import Array, pointer, refuse_overlap, to_result
from cannery.api.direct import make_direct, make_direct_many, no_direct
from cannery.api.inputs import Inputs, cut_steps, read_inputs
from cannery.api.interface import Argument, Interface, Port, StepCall
from cannery.api.threads import Threads, aligned
from cannery.errors import OptionError


class Net:
    """A network, made by `load`: call it with its inputs.

        scores = net(image)
        scores = net(images)                # any number of samples along the first axis
        net(image, out=scores)              # into existing memory

    Inputs are arrays of numpy, torch, jax or anything with the array protocol, a buffer or DLPack,
    by position or by name. Several threads may call one network; calls do not hold Python's lock. A
    network never changes, so its copy is itself. Its pickle contains the machine code, and can be
    read on machines whose processor has the same instructions.
    """

    def __init__(self, library: str, interface: Interface, threads: int = 1) -> None:
        self._library, self._interface = library, interface
        self._names = tuple(argument.source for argument in interface.inputs)
        self._local = threading.local()
        functions = ctypes.CDLL(library)
        self._run = _function(functions, f"{interface.name}_run_in")
        self._run_many = _function(functions, f"{interface.name}_run_many")
        self._threads: Threads | None = None
        memory = interface.threads
        if threads > 1 and memory is not None:
            self._threads = Threads(functions, threads)
            self._run_parallel = _function(functions, f"{interface.name}_run_parallel")
            self._run_shared = _function(functions, f"{interface.name}_run_many_parallel")
        if interface.state_bytes:
            self._reset = _function(functions, f"{interface.name}_reset")
            self._functions = functions
            self._direct_steps = [
                make_direct(self._step_function(call), call.inputs, call.outputs, self._workspace)
                for call in (interface.calls if interface.every == 1 else ())
            ]
        self._cut = self._threads is not None and memory is not None and memory.steps > 0
        self._direct = make_direct(self._run, interface.inputs, interface.outputs, self._workspace)
        self._direct_many = make_direct_many(self._run_many, interface, self._workspace)
        if interface.max_length:
            self._direct = no_direct

    @property
    def name(self) -> str:
        """The prefix of its symbols in C."""
        return self._interface.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs in the model's order, without those of the state that `step` keeps."""
        return tuple(argument.port for argument in self._interface.step_inputs)

    @property
    def states(self) -> tuple[Port, ...]:
        """The inputs of the state: after the others in a call that passes everything itself."""
        inputs, own = self._interface.inputs, self._interface.step_inputs
        return tuple(argument.port for argument in inputs[len(own) :])

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs in the model's order, without those of the state."""
        return tuple(argument.port for argument in self._interface.step_outputs)

    @property
    def latency(self) -> int:
        """By how many steps the outputs of `step` are late; 0 unless `latency` allows more."""
        return self._interface.latency

    @property
    def calls_per_output(self) -> int:
        """In how many calls `step` returns outputs once: more than 1 with strides in short ones."""
        return self._interface.every

    @property
    def first_output_call(self) -> int:
        """The number of the first call of `step` after a reset that returns outputs, from 1."""
        return self._interface.first_output_call

    @property
    def threads(self) -> int:
        """How many threads a call may take."""
        return self._threads.count if self._threads else 1

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<cannery.Net {self.name}: {inputs} -> {outputs}>"

    def __copy__(self) -> Net:
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Net:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from cannery.api.store import library_bytes, restored

        return restored, (library_bytes(self._library), self._interface, self.threads)

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """The output for these inputs, or a tuple of outputs in the model's order.

        Pass inputs by position, or by their names in the model or in C. You may omit a batch of one
        from a shape. If the first axis counts samples, there may be any number of them; otherwise
        pass several along a new first axis. `out` is an array for the output, or a sequence of
        arrays, in which None means a new one. Raises OptionError for names, shapes or element types
        that do not fit.
        """
        given = self._in_order(arrays, named) if named else arrays
        found = None
        if given is not None and not self._cut:
            found = self._direct(given, out)
        if found is None and given is not None and self._threads is None:
            found = self._direct_many(given, out)
        if found is not None:
            return found
        net = self._interface
        inputs = read_inputs(net, net.inputs, arrays, named)
        results = self._results(net.outputs, inputs, out)
        if inputs.samples is None:
            self._run_one(inputs, results)
        else:
            self._run_several(inputs, results, inputs.samples)
        return self._returned(net.outputs, inputs, results, out)

    def _in_order(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """All inputs by position; None unless their names are just those of the model."""
        rest = self._names[len(arrays) :]
        if len(rest) != len(named) or not all(map(named.__contains__, rest)):
            return None
        return (*arrays, *map(named.__getitem__, rest))

    def new_state(self, *, prewarm: bool = False, seed: int | None = None) -> Array:
        """The state before the first step, for `step`; `copy()` saves one.

        With `prewarm`, it is the state after silence: `<NAME>_PREWARM_CALLS` calls with zeros. The
        states that STATE names, or that belong to the model, are those after 4096 calls.
        `seed`, from 0 to 2^64 - 1, chooses the random numbers of a network with `noise="seed"`.

        Raises OptionError if the network does not run step by step, or draws no random numbers.
        """
        size = self._interface.state_bytes
        if not size:
            raise OptionError(
                "the network has no state", where=self.name, cure="load it with streaming=True"
            )
        state = np.zeros(-(-size // 8), np.uint64).view(np.uint8)[:size]
        self._reset(pointer(state))
        calls = self._interface.prewarm_calls
        if prewarm and self._interface.prewarms:
            function = _function(self._functions, f"{self.name}_prewarm")
            function(self._workspace(), pointer(state), ctypes.c_int32(calls))
        elif prewarm:
            smallest = self._interface.calls[0]
            zeros = [np.zeros(argument.dims, argument.dtype) for argument in smallest.inputs]
            for _ in range(calls):
                self.step(state, *zeros)
        if seed is not None:
            self._seed(state, seed)
        return state

    def _seed(self, state: Array, seed: int) -> None:
        """Start the random numbers of a state anew."""
        if not 0 <= seed < 2**64:
            raise OptionError(f"seed {seed} is not from 0 to 2^64 - 1", where=self.name)
        try:
            function = _function(self._functions, f"{self.name}_seed")
        except AttributeError:
            raise OptionError(
                "the network draws no random numbers", where=self.name, cure="leave out the seed"
            ) from None
        function(pointer(state), ctypes.c_uint64(seed))

    def step(self, state: Array, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """The next steps: replaces `state`; inputs and outputs are as for a call, without the
        state's.

        A network that was made for calls of several sizes takes any number of steps that these add
        up to. Where layers with strides wait for more steps, there is no output: None. Raises
        OptionError for anything that does not fit.
        """
        net = self._interface
        fits = (
            isinstance(state, np.ndarray) and state.dtype == np.uint8
            and state.shape == (net.state_bytes,) and state.flags.c_contiguous
            and state.flags.writeable
        )  # fmt: skip
        if not fits or not net.state_bytes:
            raise OptionError(
                "this is not a state", where=self.name, cure="make one with new_state()"
            )
        for direct in () if named else self._direct_steps:
            found = direct(arrays, out, pointer(state))
            if found is not None:
                return found
        from cannery.api.steps import call_for  # seldom needed

        call = call_for(net, arrays, named)
        inputs = read_inputs(net, call.inputs, arrays, named)
        results = self._results(call.outputs, inputs, out)
        first = (*call.leading, *_arguments(call.inputs, inputs))
        function = self._step_function(call)
        written = function(self._workspace(), pointer(state), *first, *map(pointer, results))
        if call.every > 1 and not written:
            return None
        return self._returned(call.outputs, inputs, results, out)

    def _step_function(self, call: StepCall) -> Any:
        found = _function(self._functions, f"{self.name}{call.function}")
        found.restype = ctypes.c_int32 if call.every > 1 else None
        return found

    def _results(self, outputs: Sequence[Argument], inputs: Inputs, out: Any) -> list[Array]:
        """The memory of the outputs, new where `out` has none."""
        shapes = [inputs.result_dims(output) for output in outputs]
        given = [None] * len(outputs) if out is None else list(self._given_results(outputs, out))
        results = []
        for output, shape, each in zip(outputs, shapes, given, strict=True):
            new = each is None
            results.append(np.empty(shape, output.dtype) if new else to_result(each, output, shape))
        if out is not None:
            refuse_overlap(inputs.arrays, results)
        return results

    def _given_results(self, outputs: Sequence[Argument], out: Any) -> Sequence[Any]:
        found = out if isinstance(out, tuple | list) else (out,)
        if len(found) != len(outputs):
            raise OptionError(
                f"out= has {len(found)} arrays, there are {len(outputs)} outputs", where=self.name,
                cure="give one for each output, or None",
            )  # fmt: skip
        return found

    def _returned(
        self, outputs: Sequence[Argument], inputs: Inputs, results: Sequence[Array], out: Any
    ) -> Any:
        """What a call returns: for entries of `out`, the given object itself."""
        if out is not None and not isinstance(out, tuple | list):
            return out
        found = tuple(
            cut_steps(array, output, inputs.steps)
            for array, output in zip(results, outputs, strict=True)
        )
        if out is not None:
            found = tuple(a if b is None else b for a, b in zip(found, out, strict=True))
        return found[0] if len(found) == 1 and out is None else found

    def _run_one(self, inputs: Inputs, results: Sequence[Array]) -> None:
        arguments = _arguments(self._interface.inputs, inputs)
        if inputs.steps is not None:
            arguments.append(ctypes.c_int32(inputs.steps))
        arguments += map(pointer, results)
        threads = self._threads
        if threads is not None and self._cut and threads.lock.acquire(blocking=False):
            try:
                self._run_parallel(self._shared_workspace("one"), threads.pool(), *arguments)
            finally:
                threads.lock.release()
        else:
            self._run(self._workspace(), *arguments)

    def _run_several(self, inputs: Inputs, results: Sequence[Array], count: int) -> None:
        arguments, kept = _many_arguments(self._interface.inputs, inputs, count)
        if inputs.steps is not None:
            kept.append(np.full(count, inputs.steps, np.int32))
            arguments.append(pointer(kept[-1]))
        arguments = [ctypes.c_int32(count), *arguments, *map(pointer, results)]
        threads = self._threads
        if threads is not None and threads.lock.acquire(blocking=False):
            try:
                self._run_shared(self._shared_workspace("many"), threads.pool(), *arguments)
            finally:
                threads.lock.release()
        else:
            self._run_many(self._workspace(), *arguments)

    def _workspace(self) -> ctypes.c_void_p:
        """The thread's own workspace, zeroed before its first use."""
        try:
            found: ctypes.c_void_p = self._local.pointer
        except AttributeError:
            self._local.memory = aligned(self._interface.workspace_bytes)
            found = self._local.pointer = ctypes.c_void_p(pointer(self._local.memory).value)
        return found

    def _shared_workspace(self, kind: str) -> ctypes.c_void_p:
        """The workspace of all threads together; one input and many inputs have separate ones."""
        memory, threads = self._interface.threads, self.threads
        if memory is None:
            raise AssertionError("only networks that were made for threads have such memory")
        found: Array | None = self.__dict__.get(f"_memory_{kind}")
        if found is None:
            one = memory.base + (threads - 1) * memory.further
            found = aligned(one if kind == "one" else threads * memory.many)
            self.__dict__[f"_memory_{kind}"] = found
        return pointer(found)


def _function(library: Any, name: str) -> Any:
    found = library[name]
    found.restype = None
    return found


def _arguments(arguments: Sequence[Argument], inputs: Inputs) -> list[Any]:
    """The inputs in C's form: pointers, those of views followed by strides."""
    found: list[Any] = []
    for argument, array in zip(arguments, inputs.arrays, strict=True):
        found += [pointer(array), *map(ctypes.c_int32, argument.strides)]
    return found


def _many_arguments(
    arguments: Sequence[Argument], inputs: Inputs, count: int
) -> tuple[list[Any], list[Array]]:
    """The same for `run_many`, which takes a pointer for each view; and what must stay alive."""
    found: list[Any] = []
    kept: list[Array] = []
    for argument, array in zip(arguments, inputs.arrays, strict=True):
        if not argument.strides:
            found.append(pointer(array))
            continue
        start, size = pointer(array).value or 0, array.nbytes // max(count, 1)
        kept.append(np.array([start + k * size for k in range(count)], np.uintp))
        found += [pointer(kept[-1]), *map(ctypes.c_int32, argument.strides)]
    return found, kept
