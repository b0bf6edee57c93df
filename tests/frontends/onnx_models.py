"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, to_model

onnx = pytest.importorskip("onnx")

Shape = Sequence[int | str | None]


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A node of the standard domain, or of `domain`."""
    return onnx.helper.make_node(kind, inputs, outputs, **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape | None],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
    dtype: int = 1,
) -> Any:
    """A model with float inputs; weights become initializers."""
    helper = onnx.helper
    arrays = {name: np.asarray(value) for name, value in (weights or {}).items()}
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(path: Path, proto: Any) -> Path:
    """The model in a file."""
    path.write_bytes(proto.SerializeToString())
    return path


def load(folder: Path, proto: Any, options: ImportOptions | None = None) -> Graph:
    """The graph of a model, by way of a file."""
    return load_graph(write(folder / "model.onnx", proto), options)


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected(proto: Any, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """What ONNX's own interpreter computes."""
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    return [np.asarray(y) for y in evaluator(proto).run(None, dict(inputs))]


def assert_as_onnx(proto: Any, graph: Graph, seed: int = 0) -> None:
    """The references compute what ONNX's own interpreter does, from random inputs."""
    inputs = to_model(
        graph, {n: floats(*graph.types[n].shape, seed=seed + k) for k, n in enumerate(graph.inputs)}
    )
    found = to_model(graph, evaluate(graph, from_model(graph, inputs)))
    for y, reference in zip(found.values(), expected(proto, inputs), strict=True):
        assert y.shape == reference.shape
        assert np.allclose(y, reference, rtol=1e-4, atol=1e-5)
