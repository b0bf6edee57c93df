"""A rival in a process of its own, driven line by line.

    python child.py RIVAL FILE THREADS INPUTS.npz OUTPUTS.npz

It loads the network, runs it once, writes the outputs, and prints a line of JSON: the names of the
`outputs`, and a `remark`. Then each line `COUNT` on its input is answered by the seconds that so
many calls took, after a few that were not counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rivals.runtimes import RIVALS

#: Calls before a sample: other contestants have had the caches since the last one.
_WARM = 2


def seconds_of(call: Callable[[], None], count: int) -> float:
    """The time of `count` calls, the loop included."""
    for _ in range(_WARM):
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def main() -> int:
    """Serves until its input ends."""
    name, file, threads, inputs, outputs = sys.argv[1:]
    # Libraries print what they like; only this process's own lines may reach the reader.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    runtime = RIVALS[name].load(Path(file), int(threads))
    with np.load(inputs) as arrays:
        runtime.set({key: arrays[key] for key in arrays.files})
    runtime.call()
    np.savez(outputs, *runtime.outputs().values())
    about = {"remark": runtime.remark(), "outputs": list(runtime.outputs())}
    print(json.dumps(about), file=answers)
    for line in sys.stdin:
        print(repr(seconds_of(runtime.call, int(line))), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
