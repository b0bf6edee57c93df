"""The node tests that come inside the onnx package, as models with fewer or more inputs.

Cases in double are turned into float: Cannery computes in float.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

#: Inputs that have to be known when a model is read.
_KNOWN = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Squeeze": (1,), "Unsqueeze": (1,),
    "Split": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Resize": (1, 2, 3), "Upsample": (1,),
    "TopK": (1,), "CumSum": (1,), "CumProd": (1,), "Trilu": (1,), "OneHot": (1,), "Compress": (1,),
    "Dropout": (1, 2), "Range": (0, 1, 2), "ConstantOfShape": (0,), "CenterCropPad": (1,),
    "LSTM": (1, 2, 3, 4, 7), "GRU": (1, 2, 3, 4), "RNN": (1, 2, 3, 4), "If": (0,), "Loop": (0, 1),
    "Col2Im": (1, 2), "DFT": (1, 2), "STFT": (1, 3), "AffineGrid": (1,), "MaxUnpool": (2,),
    "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "NonMaxSuppression": (2, 3, 4),
    **{f"Reduce{k}": (1,) for k in (
        "Max", "Min", "Mean", "Sum", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"
    )},
}  # fmt: skip

#: Floats of 16 bits, which are computed as float32, and what their rounding makes of a result.
HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}

#: Operators that are about element types: their cases in double are not run in float instead.
_CONVERSIONS = ("Cast", "CastLike", "BitCast", "EyeLike")

#: Operators whose results are known although their inputs are not.
_KNOWING = ("Shape", "Size")


@cache
def cases() -> tuple[Any, ...]:
    """All cases of single nodes and of the functions that define them."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(collect_testcases(None))


def operator_of(case: Any) -> str:
    """The operator that a case is about, after which its generator is called."""
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else "(several nodes)"


def _all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, each after those of its branches and bodies."""
    for node in graph.node:
        for body in _bodies(node):
            yield from _all_nodes(body)
        yield node


def _bodies(node: Any) -> Iterator[Any]:
    return (a.g for a in node.attribute if a.HasField("g"))


def _known(model: Any) -> set[str]:
    """The values that have to be known when a model is read."""
    known: set[str] = set()
    for node in reversed([*_all_nodes(model.graph)]):
        if known & set(node.output) and node.op_type not in _KNOWING:
            known |= set(node.input) | {o.name for body in _bodies(node) for o in body.output}
        known |= {node.input[k] for k in _KNOWN.get(node.op_type, ()) if k < len(node.input)}
    return known


def _is_double(array: Any) -> bool:
    return isinstance(array, np.ndarray | np.generic) and array.dtype == np.float64


def _as_float(model: Any) -> None:
    """Every double of a model as a float: cases whose operator is not about doubles."""
    from onnx import TensorProto, numpy_helper

    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
            if attribute.t.data_type == TensorProto.DOUBLE:
                array = numpy_helper.to_array(attribute.t).astype(np.float32)
                attribute.t.CopyFrom(numpy_helper.from_array(array))


def type_of(value: Any) -> str:
    """The element type of a tensor, as numpy names it; empty for lists."""
    from onnx import TensorProto, helper

    if isinstance(value, TensorProto):
        return str(helper.tensor_dtype_to_np_dtype(value.data_type).name)
    return str(value.dtype.name) if isinstance(value, np.ndarray | np.generic) else ""


def as_array(value: Any) -> Any:
    """A tensor as an array, with float32 for floats of 16 bits; lists as they are."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.name in HALVES:
        return value.astype(np.float32)
    return value


def with_initializers(case: Any, weights: bool) -> tuple[Any, list[Any]]:
    """The model with inputs turned into initializers, and the inputs that stay.

    `weights` turns all but the first, else only those that have to be known.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs, _ = case.data_sets[0]
    if operator_of(case) not in _CONVERSIONS and not case.name.startswith("test_cast"):
        _as_float(model)
        inputs = [a.astype(np.float32) if _is_double(a) else a for a in inputs]
    given = list(zip([i.name for i in model.graph.input], inputs, strict=True))
    known = _known(model)
    if weights:
        known |= {name for name, _ in given[1:]}
    kept = []
    for name, array in given:
        if name in known and isinstance(array, np.ndarray | np.generic):
            tensor = numpy_helper.from_array(np.asarray(array), name)
            model.graph.initializer.append(tensor)
        else:
            kept.append(as_array(array))
    return model, kept
