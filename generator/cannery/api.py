"""Networks as Python callables: the code that `compile` makes, in a shared library.

    net = cannery.load("ball.h5")
    scores = net(image)

Libraries are kept in a per-user cache, by content and compiler; in a temporary folder where the
cache cannot be written.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import ArrayLike, NDArray

from cannery.atomic import replace_files, temporary_folder
from cannery.emit.files import OPENMP_SOURCE
from cannery.emit.interface import Tensor
from cannery.emit.source import Source
from cannery.errors import OptionError, ToolchainError, one_of
from cannery.measure.cache import user_cache
from cannery.options import SPECS, Options, make_options
from cannery.pipeline import compile_model
from cannery.target.runner import why_not_here
from cannery.target.targets import NATIVE
from cannery.target.toolchain import Toolchain, find_toolchain
from cannery.user_files import unusual

#: An array that goes in or comes out.
Array = NDArray[np.generic]


@dataclass(frozen=True)
class Port:
    """An input or output: its name in the model, shape as it lies in memory, and element type.

    Where integers stand for other numbers, these are scale * (q - zero_point); else scale is 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    scale: float = 0.0
    zero_point: int = 0


class Net:
    """A network, ready to be called from any number of threads; see `load`."""

    def __init__(self, library: Path, source: Source) -> None:
        self._inputs, self._outputs = source.inputs, source.outputs
        self._step_inputs, self._step_outputs = source.step_inputs, source.step_outputs
        self._workspace_bytes = source.single_bytes
        self._state_bytes = source.states.bytes
        self._max_length, self._time_axes = source.max_length, source.time_axes
        self._local = threading.local()
        functions = ctypes.CDLL(str(library))
        self._run = functions[f"{source.name}_run_in"]
        self._run.restype = None
        if self._state_bytes:
            self._reset = functions[f"{source.name}_reset"]
            self._step = functions[f"{source.name}_step_in"]
            self._reset.restype = self._step.restype = None
        self.name = source.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs in the model's order."""
        return tuple(map(_port, self._inputs))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs in the model's order."""
        return tuple(map(_port, self._outputs))

    def __call__(self, *arrays: ArrayLike, **named: ArrayLike) -> Any:
        """The output for these inputs, or a tuple of outputs in the model's order.

        Inputs come by position, or by their names in the model or in C. A batch of one may be left
        out of a shape. Raises OptionError for names, shapes or element types that do not fit.
        """
        if self._max_length:
            return self._call_short(arrays, named)
        inputs = self._given(self._inputs, arrays, named)
        return self._call(self._run, (), self._inputs, inputs, self._outputs)

    def _call_short(self, arrays: tuple[ArrayLike, ...], named: Mapping[str, ArrayLike]) -> Any:
        """With the length that the inputs have along the axis of time."""
        lengths: set[int] = set()
        inputs = self._given(self._inputs, arrays, named, lengths)
        if len(lengths) != 1:
            raise OptionError(
                f"inputs have {', '.join(map(str, sorted(lengths))) or 'no'} steps",
                where=self.name, cure="give all sequences the same length",
            )  # fmt: skip
        (length,) = lengths
        found = self._call(self._run, (), self._inputs, inputs, self._outputs, length)
        outputs = found if isinstance(found, tuple) else (found,)
        cut = []
        for tensor, array in zip(self._outputs, outputs, strict=True):
            axis = self._time_axes.get(tensor.name)
            kept = [slice(length if k == axis else None) for k in range(array.ndim)]
            cut.append(array[tuple(kept)])
        return cut[0] if len(cut) == 1 else tuple(cut)

    def new_state(self) -> Array:
        """The state before the first step, for `step`; `copy()` saves one.

        Raises OptionError if the network is not one that runs step by step.
        """
        if not self._state_bytes:
            raise OptionError(
                "the network has no state", where=self.name, cure="load it with streaming=True"
            )
        state = np.zeros(-(-self._state_bytes // 8), np.uint64).view(np.uint8)[: self._state_bytes]
        self._reset(_pointer(state))
        return state

    def step(self, state: Array, *arrays: ArrayLike, **named: ArrayLike) -> Any:
        """One step: replaces `state`; inputs and outputs as for a call, but for the state's.

        Raises OptionError for what does not fit.
        """
        fits = (
            isinstance(state, np.ndarray) and state.dtype == np.uint8
            and state.shape == (self._state_bytes,) and state.flags.c_contiguous
            and state.flags.writeable
        )  # fmt: skip
        if not fits or not self._state_bytes:
            raise OptionError("this is not a state", where=self.name, cure="make it by new_state()")
        inputs = self._given(self._step_inputs, arrays, named)
        return self._call(
            self._step, (_pointer(state),), self._step_inputs, inputs, self._step_outputs
        )

    def _call(
        self, function: Any, first: tuple[Any, ...], tensors: Sequence[Tensor],
        inputs: Sequence[Array], results: Sequence[Tensor], length: int | None = None,
    ) -> Any:  # fmt: skip
        """What a generated function returns in new arrays."""
        outputs = [np.empty(t.dims, t.type.dtype.numpy) for t in results]
        arguments: list[Any] = [*first]
        for tensor, array in zip(tensors, inputs, strict=True):
            arguments += [_pointer(array), *map(ctypes.c_int32, tensor.dense_strides)]
        if length is not None:
            arguments.append(ctypes.c_int32(length))
        function(self._workspace(), *arguments, *map(_pointer, outputs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _given(
        self, tensors: Sequence[Tensor], arrays: tuple[ArrayLike, ...],
        named: Mapping[str, ArrayLike], lengths: set[int] | None = None,
    ) -> list[Array]:  # fmt: skip
        """The arrays of `tensors`, in their order; `lengths` collects their steps."""
        if len(arrays) > len(tensors):
            raise OptionError(
                f"{len(arrays)} inputs given, there are {len(tensors)}", where=self.name
            )
        found: dict[str, ArrayLike] = {t.source: a for t, a in zip(tensors, arrays, strict=False)}
        sources = {t.name: t.source for t in tensors} | {t.source: t.source for t in tensors}
        for name, array in named.items():
            if name not in sources or sources[name] in found:
                what = "is given twice" if name in sources else "is not an input"
                cure = one_of(name, [t.source for t in tensors], "inputs")
                raise OptionError(f"{name!r} {what}", where=self.name, cure=cure)
            found[sources[name]] = array
        missing = [t.source for t in tensors if t.source not in found]
        if missing:
            raise OptionError(f"input {missing[0]!r} is missing", where=self.name)
        axes = self._time_axes if lengths is not None else {}
        return [_array(t, self._padded(t, found[t.source], axes, lengths)) for t in tensors]

    def _padded(
        self, tensor: Tensor, given: ArrayLike, axes: Mapping[str, int], lengths: set[int] | None
    ) -> ArrayLike:
        """A sequence with room for all steps; others as they are."""
        array = np.asarray(given)
        if tensor.name not in axes or lengths is None:
            return array
        axis = axes[tensor.name] - len(tensor.dims) + array.ndim
        steps = array.shape[axis] if 0 <= axis < array.ndim else -1
        if not 0 <= steps <= self._max_length:
            raise OptionError(
                f"shape {array.shape}, up to {tensor.dims} is possible",
                where=f"input {tensor.source!r}",
            )
        lengths.add(steps)
        ends = [(0, self._max_length - steps if k == axis else 0) for k in range(array.ndim)]
        return np.pad(array, ends)

    def _workspace(self) -> ctypes.c_void_p:
        """The thread's own workspace, zeroed before its first use."""
        if not hasattr(self._local, "memory"):
            self._local.memory = np.zeros(self._workspace_bytes + 64, np.uint8)
        address = self._local.memory.ctypes.data
        return ctypes.c_void_p(address + -address % 64)


def _pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _port(tensor: Tensor) -> Port:
    scale = tensor.scale.scale if tensor.scale else 0.0
    return Port(tensor.source, tensor.dims, tensor.type.dtype.numpy, scale, tensor.zero_point)


def _array(tensor: Tensor, given: ArrayLike) -> Array:
    """An input as the code reads it: floats may be of any width, other types have to agree."""
    array = np.asarray(given)
    dtype = tensor.type.dtype.numpy
    same = array.dtype == dtype or (dtype.kind == "f" and array.dtype.kind == "f")
    if not same:
        raise OptionError(
            f"element type {array.dtype}, {dtype} is needed", where=f"input {tensor.source!r}"
        )
    if array.shape != tensor.dims and (1, *array.shape) != tensor.dims:
        raise OptionError(
            f"shape {array.shape}, {tensor.dims} is needed", where=f"input {tensor.source!r}"
        )
    return np.ascontiguousarray(array, dtype)


def load(
    path: str | os.PathLike[str],
    *,
    target: str = "",
    isa: str | Sequence[str] = "",
    **options: Any,
) -> Net:
    """The network in a model file, compiled for this machine.

    `target` and `isa` are as on the command line (default: everything that this machine has), and
    so are other options, by name: `batch=2`, `tuning="records"`, `input_dtype={"image": "uint8"}`.
    Where there may be several, one text is a list of one: `input_view="image"`. Each item of a list
    is what the command line's option takes once: `runner=("./robot-1 -q", "./robot-2 -q")`. A
    tuning record beside the model is used. Raises CanneryError.
    """
    raw: dict[str, Any] = {"target": target or NATIVE, "isa": isa or ()}
    for name, value in options.items():
        field = _field(name)
        if field in raw:
            raise OptionError("is given twice", where=f"option {name!r}")
        raw[field] = value
    chosen = make_options(_model(path), raw)
    toolchain = find_toolchain(chosen)
    reason = why_not_here(toolchain.target) or _other_process(toolchain)
    if reason:
        raise ToolchainError(
            f"cannot be loaded: {reason}", where=f"target {toolchain.target.name}",
            cure="take another target, or run it by cannery run",
        )  # fmt: skip
    compiled = compile_model(chosen)
    return Net(_library(chosen, toolchain, compiled.files), compiled.source)


def _model(path: object) -> Path:
    if not isinstance(path, str | bytes | os.PathLike):
        raise OptionError(f"{path!r:.60} is not a path", where="load")
    return Path(os.fsdecode(path))


def _other_process(toolchain: Toolchain) -> str:
    bits = toolchain.target.isa.bits
    here = 8 * ctypes.sizeof(ctypes.c_void_p)
    return "" if bits == here else f"its code has {bits} bits, this Python {here}"


def _field(name: str) -> str:
    """The field of Options that is meant by its name or that of the command line (`dim`)."""
    for spec in SPECS:
        if name in (spec.name, spec.flag.removeprefix("--").replace("-", "_")):
            return spec.name
    known = [spec.flag.removeprefix("--").replace("-", "_") for spec in SPECS]
    cure = one_of(name, known, "options")
    raise OptionError(f"no option is called {name!r}", where="load", cure=cure)


def _library(options: Options, toolchain: Toolchain, files: Mapping[str, bytes]) -> Path:
    """The shared library of generated files, built if it is not in the cache."""
    digest = hashlib.sha256(toolchain.compiler.version.encode())
    for text in (*toolchain.compiler.command, *toolchain.cflags):
        digest.update(text.encode() + b"\0")
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name])
    name = f"{options.name}.so"
    try:
        library = user_cache() / "libraries" / digest.hexdigest()[:24] / name
        _build_once(options, toolchain, files, library)
    except OSError:
        # A cache that cannot be written is none.
        try:
            library = _temporary_folder() / name
            _build(options, toolchain, files, library)
        except OSError as error:
            raise ToolchainError(
                f"no library can be written: {error.strerror}",
                where=error.filename or f"network {options.name!r}",
                cure="make room, or let TMPDIR name a folder that can be written",
            ) from None
    return library


def _build_once(
    options: Options, toolchain: Toolchain, files: Mapping[str, bytes], library: Path
) -> None:
    if _is_whole(library):
        return
    library.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(library.parent / "lock")):
        if not _is_whole(library):
            _build(options, toolchain, files, library)


def _digest_file(library: Path) -> Path:
    """The file beside a library that holds its SHA-256: loading a damaged one may crash."""
    return library.with_suffix(".sha256")


def _is_whole(library: Path) -> bool:
    """Whether there is a library, and it is what was built."""
    if any(map(unusual, (library, _digest_file(library)))):  # reading a pipe would never end
        return False
    try:
        found = hashlib.sha256(library.read_bytes()).hexdigest()
        return found.encode() == _digest_file(library).read_bytes()
    except OSError:
        return False


def _temporary_folder() -> Path:
    """A folder that is there until Python ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary_folder())


def _build(
    options: Options, toolchain: Toolchain, files: Mapping[str, bytes], library: Path
) -> None:
    with temporary_folder() as folder:
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        weights = folder / f"{options.name}_weights.bin"
        define = f'-D{options.name.upper()}_WEIGHTS_FILE="{weights}"'
        objects = []
        unused = {f"{options.name}{suffix}" for suffix in ("_static.c", OPENMP_SOURCE)}
        for name in sorted(files):
            if name.endswith(".c") and name not in unused:
                objects.append((folder / name).with_suffix(".o"))
                flags = [*toolchain.cflags, "-fPIC", "-w", define]
                toolchain.compiler.compile(folder / name, objects[-1], flags, [folder])
        built = folder / library.name
        toolchain.compiler.link(objects, built, [*toolchain.cflags, "-shared", "-lm"])
        data = built.read_bytes()
        digest = hashlib.sha256(data).hexdigest().encode()
        replace_files({library: data, _digest_file(library): digest})
