"""Files of a single Keras layer, and what Cannery makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from frontends.keras_files import LayerSpec, Model, image, write_h5, write_keras

Ops = Sequence[tuple[str, Op]]


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def imported(
    folder: Path,
    spec: LayerSpec,
    *shapes: tuple[int, ...],
    version: str = "2.15.0",
    archive: bool = False,
) -> Graph:
    """The graph of a single layer on inputs x0, x1 ... of these shapes (without the batch)."""
    inputs = [image(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    names: Any = [spec.name for spec in inputs]
    call = [names] if len(names) > 1 and version.startswith("3") else names
    single = LayerSpec(spec.class_name, spec.name, [call], spec.config, spec.weights)
    model = Model("net", [*inputs, single], names, [spec.name])
    write = write_keras if archive else write_h5
    return load_graph(write(folder / "model", model, version))


def ops(graph: Graph) -> Ops:
    return [(node.name, node.op) for node in graph.nodes]


def conv(class_name: str, weights: Mapping[str, Any], **config: Any) -> LayerSpec:
    return LayerSpec(class_name, "c", (), {"use_bias": "bias" in weights, **config}, weights)


def kernel(*shape: int) -> dict[str, NDArray[np.float32]]:
    return {"kernel": numbers(1, *shape)}
