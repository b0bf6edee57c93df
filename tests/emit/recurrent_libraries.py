"""Random recurrent networks as shared libraries with random options, driven through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.api.arrays import pointer
from cannery.api.threads import aligned
from cannery.emit.source import Source
from cannery.execution.shared_library import exported_library
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import compile_model, load_model
from frontends.keras_files import LayerSpec, chain, image, write_h5

F32 = NDArray[np.float32]
State = NDArray[Any]

FEATURES = 3

#: Layers: gates, and numbers of cells some of which exceed the first-level cache.
KINDS: dict[str, tuple[int, tuple[int, ...]]] = {
    "LSTM": (4, (5, 17, 41, 48, 56)), "GRU": (3, (6, 47, 64)), "SimpleRNN": (1, (9, 80, 93)),
}  # fmt: skip

#: What libraries differ in. Weights in a file depend on the instruction set.
FORMS: tuple[Mapping[str, Any], ...] = (
    {}, {"block": (1, 16, 64)}, {"block": (1, 5)}, {"batch": 2}, {"batch": 3, "block": (1, 16)},
    {"many": 3}, {"many": 2, "parallel": True}, {"parallel": True, "block": (1, 16, 64)},
    {"weights": "net.weights"}, {"weights": "net.weights", "block": (1, 16)},
    {"isa": ("sse2", "avx2")}, {"isa": ("sse2", "avx2"), "block": (1, 16), "parallel": True},
    {"split": 3}, {"max_lines": 200},
)  # fmt: skip

Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
ParallelFor = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, Task, ctypes.c_void_p)


class Pool(ctypes.Structure):
    """`cannery_pool`."""

    _fields_ = (("run", ParallelFor), ("context", ctypes.c_void_p), ("threads", ctypes.c_int32))


def write_network(folder: Path, seed: int, steps: int | None) -> Path:
    """One to three recurrent layers, the first of which exceeds the cache, with dense ones between.

    The number of steps is open if `steps` is None; weights are the same.
    """
    rng = np.random.default_rng(seed)
    layers, features = [image("x", steps, FEATURES)], FEATURES
    for number in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(list(KINDS)))
        gates, sizes = KINDS[kind]
        cells = int(rng.choice(sizes[-2:] if number == 0 else sizes))
        after = kind == "GRU" and bool(rng.random() < 0.5)
        shapes = {
            "kernel": (features, gates * cells), "recurrent_kernel": (cells, gates * cells),
            "bias": (2, gates * cells) if after else (gates * cells,),
        }  # fmt: skip
        layers.append(_layer(rng, kind, f"cells{number}", shapes, cells, reset_after=after))
        features = cells
        if rng.random() < 0.5:
            dense = {"kernel": (features, 7), "bias": (7,)}
            layers.append(_layer(rng, "Dense", f"dense{number}", dense, 7))
            features = 7
    return write_h5(folder / f"net{steps or ''}.h5", chain(*layers))


def _layer(
    rng: np.random.Generator, kind: str, name: str, shapes: Mapping[str, tuple[int, ...]],
    units: int, *, reset_after: bool = False,
) -> LayerSpec:  # fmt: skip
    recurrent = kind != "Dense"
    config: dict[str, Any] = {"units": units}
    config |= {"return_sequences": True} if recurrent else {}
    config |= {"reset_after": reset_after} if kind == "GRU" else {}
    weights = {
        ("cell/" if recurrent else "") + key: (
            rng.standard_normal(shape) / np.sqrt(shape[0])
        ).astype(np.float32)
        for key, shape in shapes.items()
    }  # fmt: skip
    return LayerSpec(kind, name, (), config, weights)


def expected(folder: Path, seed: int, x: F32) -> F32:
    """What the whole sequences [N,T,F] give, in float64."""
    path = write_network(folder, seed, x.shape[1])
    graph = load_model(make_options(path, {"batch": x.shape[0]}))
    (y,) = evaluate(graph, {"x": x}).values()
    return np.asarray(y, np.float32)


@dataclass(frozen=True)
class Library:
    """A network that runs step by step: its functions; `source` says what they take.

    `weights` keeps those in memory that the library reads from there.
    """

    handle: ctypes.CDLL
    source: Source
    weights: State

    @property
    def batch(self) -> int:
        """Sequences of a call."""
        return self.source.step_inputs[0].type.shape[0]

    @cached_property
    def workspace(self) -> State:
        """Memory for any of the functions, aligned to 64 bytes."""
        return aligned(1 << 20)

    def new_state(self) -> State:
        """A state after a reset."""
        state: State = aligned(self.source.states.bytes)
        self._call("reset", state)
        return state

    def step(self, state: State, x: F32) -> F32:
        """The outputs of the next steps, as many as `x` [N,T,F] has: one of the sizes."""
        size = x.shape[1]
        suffix = f"_{size}" if size > 1 else ""
        y = np.full((*x.shape[:2], self.columns), np.nan, np.float32)
        self._call(f"step{suffix}_in", self.workspace, state, np.ascontiguousarray(x), y)
        return y

    def steps(self, state: State, x: F32) -> F32:
        """The same of a single sequence of any length."""
        y = np.full((*x.shape[:2], self.columns), np.nan, np.float32)
        pointers = [pointer(a) for a in (self.workspace, state)]
        n = ctypes.c_int32(x.shape[1])
        done = self.handle.net_steps_in(*pointers, n, *map(pointer, (x, y)))
        assert done == x.shape[1]
        return y

    def run_many(self, states: Sequence[State], x: F32, *, parallel: bool) -> F32:
        """A step of several states, which are tensors here and stay as they are: x [n,1,F]."""
        n = len(states)
        pasts = [
            np.stack([state[slot.offset :][: slot.bytes] for state in states])
            for slot in self.source.states.slots
        ]
        y = np.full((n, 1, self.columns), np.nan, np.float32)
        tensors = [x, *pasts, y, *(np.empty_like(past) for past in pasts)]
        pointers = [pointer(tensor) for tensor in tensors]
        workspace, count = pointer(self.workspace), ctypes.c_int32(n)
        if parallel:
            pool = ctypes.byref(Pool(_backwards, None, 2))
            self.handle.net_run_many_parallel(workspace, pool, count, *pointers)
        else:
            self.handle.net_run_many(workspace, count, *pointers)
        return y

    @property
    def columns(self) -> int:
        """Features of an output."""
        return self.source.step_outputs[0].type.shape[-1]

    def _call(self, name: str, *arrays: NDArray[Any]) -> None:
        function: Callable[..., None] = getattr(self.handle, f"net_{name}")
        function(*map(pointer, arrays))


def make_library(folder: Path, seed: int, given: Mapping[str, Any]) -> Library:
    """The network of this seed with some options."""
    path = write_network(folder, seed, None)
    words = {"streaming": True, "name": "net", "isa": "avx2", **given, "shared": True}
    options = make_options(path, words)
    made = compile_model(options)
    name, content = exported_library(options, made.files)
    (folder / name).write_bytes(content)
    blob = np.frombuffer(made.files.get("net.weights", b""), np.uint8)
    weights = aligned(blob.size)
    weights[:] = blob
    library = Library(ctypes.CDLL(str(folder / name)), made.source, weights)
    if blob.size:
        size = ctypes.c_size_t(blob.size)
        assert library.handle.net_weights_set(pointer(weights), size) == 0
    return library


@ParallelFor
def _backwards(_context: object, count: int, task: Callable[[Any, int], None], data: Any) -> None:
    """A pool that runs the pieces one after the other, the last one first."""
    for index in reversed(range(count)):
        task(data, index)
