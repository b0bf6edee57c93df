"""Operators of TensorFlow Lite on integers. What LiteRT's reference kernels make of them is in
`tflite_quantised.npz`; `python tests/frontends/tflite_quantised.py` writes it, and needs LiteRT.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from frontends import tflite_integer_elements as elements
from frontends import tflite_integer_products as products
from frontends import tflite_integer_windows as windows
from frontends.tflite_files import by_litert, input_shape
from frontends.tflite_integers import Case
from frontends.tflite_nets import NETS, samples
from frontends.tflite_random import SEEDS, random_case

GOLDEN = Path(__file__).with_suffix(".npz")

CASES = {**products.CASES, **elements.CASES, **windows.CASES}


def litert_result(case: Case) -> NDArray[Any]:
    """What LiteRT computes."""
    return by_litert(case.data(), case.inputs(), reference=case.reference)[0]


def write_golden() -> None:
    """Stores it."""
    found = {name: litert_result(case) for name, case in CASES.items()}
    found |= {f"random_{seed}": litert_result(random_case(seed)) for seed in SEEDS}
    for name, make in NETS.items():
        data = make()
        results = [by_litert(data, {"x0": x})[0] for x in samples(input_shape(data))]
        found[f"net_{name}"] = np.concatenate(results)
    np.savez_compressed(GOLDEN, **found)


if __name__ == "__main__":
    write_golden()
