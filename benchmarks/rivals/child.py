"""A rival in a separate process, driven line by line.

    python child.py RIVAL FILE THREADS INPUTS.npz OUTPUTS.npz [INSTRUCTIONS.so]

It loads the network, runs it once, writes the outputs, and prints a line of JSON: the names of the
`outputs`, a `remark`, and with the library of `instructions.c` what that counted. Then each line
`COUNT` on its input is answered by the seconds that this many calls took, after a few that were not
counted.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rivals.packages import HALF_RIVALS, RIVALS

#: Calls before a sample: other contestants have had the caches since the last one.
_WARM = 2

#: Seconds of the processor in which instructions are sampled, about a hundred times.
_WATCHED = 0.5


def seconds_of(call: Callable[[], None], count: int) -> float:
    """The time of `count` calls, the loop included."""
    for _ in range(_WARM):
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def instructions(library: str, call: Callable[[], None]) -> list[int]:
    """Samples, those in code of AVX, those in code of AVX-512, of calls for a while."""
    watch = ctypes.CDLL(library)
    counts, start = (ctypes.c_long * 3)(), time.process_time()
    watch.watch_begin(1000)
    while time.process_time() - start < _WATCHED:
        call()
    watch.watch_end(counts)
    return list(counts)


def main() -> int:
    """Serves until its input ends."""
    name, file, threads, inputs, outputs, *watch = sys.argv[1:]
    # Libraries print what they like; only this process's own lines may reach the reader.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    runtime = (RIVALS | HALF_RIVALS)[name].load(Path(file), int(threads))
    with np.load(inputs) as arrays:
        runtime.set({key: arrays[key] for key in arrays.files})
    runtime.call()
    np.savez(outputs, *runtime.outputs().values())
    about: dict[str, Any] = {"remark": runtime.remark(), "outputs": list(runtime.outputs())}
    if watch:
        about["instructions"] = instructions(watch[0], runtime.call)
    print(json.dumps(about), file=answers)
    for line in sys.stdin:
        print(repr(seconds_of(runtime.call, int(line))), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
