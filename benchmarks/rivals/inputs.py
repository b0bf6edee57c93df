"""What all contestants get: numbers that mean the same to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.measure.trial import random_inputs
from cannery.ops.indexing.gather import Gather

#: Integers that no table is read at lie below this.
_MOST = 100


def contest_inputs(graph: Graph, seed: int = 0) -> dict[str, RefArray]:
    """Inputs by name: normal floats; integers that no runtime takes for an index out of bounds."""
    rng, found = np.random.default_rng(seed + 1), random_inputs(graph, seed)
    for name, array in found.items():
        if array.dtype.kind in "iu" and array.dtype.itemsize > 1:
            numbers = rng.integers(0, _entries(graph, name), array.shape)
            found[name] = numbers.astype(array.dtype)
    return found


def _entries(graph: Graph, name: str) -> int:
    """Of the smallest table that a value is an index of."""
    sizes = [
        graph.types[node.inputs[0]].shape[node.op.axis]
        for node in graph.consumers(name)
        if isinstance(node.op, Gather) and node.inputs[1] == name
    ]
    return min(sizes, default=_MOST)


def write_inputs(inputs: Mapping[str, RefArray], folder: Path) -> tuple[Path, Path]:
    """Write a rival's inputs; returns their file and the one for its outputs (`child.py`)."""
    data, found = folder / "inputs.npz", folder / "outputs.npz"
    arrays = {key: np.ascontiguousarray(array) for key, array in inputs.items()}
    np.savez(data, **arrays)  # type: ignore[arg-type]
    return data, found
