"""A rival that computes the standard WaveNet in calls, in a separate process.

    python cached.py RIVAL STEPS INPUT.npy OUTPUT.npy

It computes the whole input[samples], STEPS samples in a call, writes the output, and then serves
as `child.py` does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rivals.child import seconds_of
from rivals.wavenet import F32, WaveNet, standard_wavenet


class Caller(Protocol):
    """A network that keeps its pasts from call to call, in the beginning zeros."""

    def set(self, x: F32) -> None:
        """The samples of the next calls, x[1,1,steps]."""

    def call(self) -> None:
        """The next call."""

    def output(self) -> F32:
        """Of the last call, y[1,1,steps]."""


@dataclass(frozen=True)
class CachedRival:
    """A program: its name for people, its package, and where its class is."""

    title: str
    package: str
    module: str
    name: str

    @property
    def version(self) -> str:
        """The installed version, empty if it is absent."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    def load(self, net: WaveNet, steps: int) -> Caller:
        """A network, of which a call brings this many steps; raises whatever the rival raises."""
        kind: Callable[[WaveNet, int], Caller] = getattr(import_module(self.module), self.name)
        return kind(net, steps)


CACHED_RIVALS: dict[str, CachedRival] = {
    "onnxruntime": CachedRival(
        "ONNX Runtime", "onnxruntime", "rivals.cached_onnx", "OnnxRuntime"
    ),
    "pytorch": CachedRival("PyTorch", "torch", "rivals.cached_torch", "PyTorch"),
    "torchscript": CachedRival(
        "PyTorch, TorchScript", "torch", "rivals.cached_torch", "TorchScript"
    ),
}  # fmt: skip


def run_calls(caller: Caller, x: F32, steps: int) -> F32:
    """The output for x[samples], in calls of so many steps."""
    found = []
    for call in x.reshape(-1, 1, 1, steps):
        caller.set(call)
        caller.call()
        found.append(caller.output().ravel())
    return np.concatenate(found)


def main() -> int:
    """Serves until its input ends."""
    name, steps, given, found = sys.argv[1:]
    # Libraries print what they like; only this process's own lines may reach the reader.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    caller = CACHED_RIVALS[name].load(standard_wavenet(), int(steps))
    np.save(found, run_calls(caller, np.load(given), int(steps)))
    print(json.dumps({"remark": "", "outputs": []}), file=answers)
    for line in sys.stdin:
        print(repr(seconds_of(caller.call, int(line))), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
