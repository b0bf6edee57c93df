"""A random ONNX model under construction: nodes are kept where ONNX itself infers their shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

onnx = pytest.importorskip("onnx")

#: No value has more elements, so that references stay quick.
MAX_ELEMENTS = 4000

FLOAT, INT64, BOOL = 1, 7, 9

#: A value: name, dims, element type of ONNX.
Value = tuple[str, tuple[int, ...], int]


@dataclass
class Maker:
    """A model under construction; `values` may be read."""

    random: Random
    opset: int
    values: list[Value] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, NDArray[Any]] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.random.randrange(2**32))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def count(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, dtype: int = FLOAT, rank: int | None = None) -> Value:
        """A value, mostly a late one."""
        fits = [v for v in self.values if v[2] == dtype and rank in (None, len(v[1]))]
        if not fits:
            raise LookupError
        return fits[-1] if self.chance(0.6) else self.random.choice(fits)

    def weight(self, *shape: int) -> str:
        fan_in = max(int(np.prod(shape[1:])), 1)
        return self.constant((self.rng.standard_normal(shape) / fan_in**0.5).astype(np.float32))

    def positive(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.3, 2.0, shape).astype(np.float32))

    def constant(self, array: Any) -> str:
        """An initializer, or now and then a Constant node."""
        name, values = f"c{len(self.types)}", np.asarray(array)
        self.types[name] = onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(values.dtype), values.shape
        )
        self.weights[name] = values
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def input(self, name: str, dims: tuple[int, ...], dtype: int = FLOAT) -> None:
        self.types[name] = onnx.helper.make_tensor_type_proto(dtype, dims)
        self.values.append((name, dims, dtype))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node if it is valid; raises LookupError if it is not, or too large."""
        names = [f"v{len(self.types)}_{k}" for k in range(outputs)]
        made = onnx.helper.make_node(kind, inputs, names, f"n{len(self.nodes)}", **attributes)
        given = {i: self.types[i] for i in inputs if i}
        data = {
            i: onnx.numpy_helper.from_array(self.weights[i], i) for i in inputs if i in self.weights
        }
        try:
            schema = onnx.defs.get_schema(kind, self.opset, "")
            found = onnx.shape_inference.infer_node_outputs(
                schema, made, given, data, opset_imports=[onnx.helper.make_opsetid("", self.opset)]
            )
        except Exception as error:
            raise LookupError from error
        shapes = [_dims(found.get(name)) for name in names]
        if any(s is None or np.prod(s[0]) > MAX_ELEMENTS for s in shapes):
            raise LookupError
        self.nodes.append(made)
        for name, shape in zip(names, shapes, strict=True):
            assert shape is not None
            self.types[name] = found[name]
            self.values.append((name, *shape))
        return names


def _dims(type_: Any) -> tuple[tuple[int, ...], int] | None:
    if type_ is None or not type_.HasField("tensor_type"):
        return None
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or any(not d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    return tuple(d.dim_value for d in tensor.shape.dim), tensor.elem_type
