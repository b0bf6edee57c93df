"""Judges of the references: ONNX's own implementation, and what `infer` foretells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ir.numeric import F64
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType


def numbers(*shape: int, seed: int = 0) -> F64:
    """Normal float32 numbers, as float64."""
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return drawn.astype(np.float64)


def onnx_run(kind: str, inputs: list[Any], opset: int = 20, **attributes: Any) -> NDArray[Any]:
    """One ONNX node in ONNX's reference implementation, in float32; None is an absent input."""
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    helper = onnx.helper
    arrays = [a if a is None or a.dtype.kind != "f" else a.astype(np.float32) for a in inputs]
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    node = helper.make_node(kind, names, ["y"], **attributes)
    out = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", infos, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        (y,) = evaluator(model).run(None, given)
    return np.asarray(y)


def first(x: NDArray[Any]) -> NDArray[Any]:
    """Channels last to channels first."""
    return np.moveaxis(x, -1, 1)


def last(x: NDArray[Any]) -> NDArray[Any]:
    """Channels first to channels last."""
    return np.moveaxis(x, 1, -1)


def flat(pads: tuple[tuple[int, int], ...]) -> list[int]:
    """ONNX's order: all begins, then all ends."""
    return [p[0] for p in pads] + [p[1] for p in pads]


def same(result: NDArray[Any], expected: NDArray[Any], tolerance: float = 1e-5) -> None:
    assert result.shape == expected.shape
    assert np.allclose(result, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def _type_of(a: NDArray[Any]) -> TensorType:
    return TensorType(a.shape, DType.FLOAT32 if a.dtype.kind == "f" else DType(a.dtype.name))


def checked(op: Op, *inputs: NDArray[Any] | None) -> NDArray[Any]:
    """The reference's output, whose type `infer` foretold."""
    types = [None if a is None else _type_of(a) for a in inputs]
    (type_,) = op.infer(*types)
    (y,) = op.reference(*inputs)
    assert y.shape == type_.shape
    assert y.dtype == (np.float64 if type_.dtype is DType.FLOAT32 else type_.dtype.numpy)
    return y
