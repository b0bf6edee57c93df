"""Networks of the benchmarks that are ONNX files, as Keras has no form for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Columns, pixels of a column, cells of a direction, symbols.
_STEPS, _PIXELS, _CELLS, _SYMBOLS = 200, 25, 100, 110


def blstm() -> Any:
    """OCR of text lines: 200 columns of 25 pixels, LSTM of 2x100 cells, 110 symbols, 24 MMAC."""
    return _blstm(peepholes=False)


def blstm_peepholes() -> Any:
    """The same with peepholes, as the network that it follows; few runtimes have them."""
    return _blstm(peepholes=True)


def _blstm(*, peepholes: bool) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(7)

    def normal(*shape: int, scale: float) -> NDArray[np.float32]:
        return np.asarray(rng.standard_normal(shape, np.float32) * np.float32(scale))

    h, d = _CELLS, 2
    weights = {
        "w": normal(d, 4 * h, _PIXELS, scale=_PIXELS**-0.5),
        "r": normal(d, 4 * h, h, scale=h**-0.5),
        "b": normal(d, 8 * h, scale=0.1),
        "rows": np.array([_STEPS, d * h], np.int64),
        "kernel": normal(d * h, _SYMBOLS, scale=(d * h) ** -0.5),
        "bias": normal(_SYMBOLS, scale=0.1),
        "p": normal(d, 3 * h, scale=0.3),
    }  # fmt: skip
    inputs = ["columns", "w", "r", "b"]
    if peepholes:
        inputs += ["", "", "", "p"]
    else:
        del weights["p"]
    nodes = [
        helper.make_node("LSTM", inputs, ["by_direction"], hidden_size=h,
                         direction="bidirectional"),
        helper.make_node("Transpose", ["by_direction"], ["by_sample"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["by_sample", "rows"], ["features"]),
        helper.make_node("Gemm", ["features", "kernel", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["symbols"], axis=-1),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes, "blstm",
        [value("columns", TensorProto.FLOAT, [_STEPS, 1, _PIXELS])],
        [value("symbols", TensorProto.FLOAT, [_STEPS, _SYMBOLS])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


#: Observations, hidden units, joints.
_POLICY = (48, 512, 256, 128, 12)


def walking_policy() -> Any:
    """Walking, as reinforcement learning gives it: dense layers 48-512-256-128-12, 190 kMAC."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(11)
    nodes, weights, last = [], [], "observation"
    for number, (taken, units) in enumerate(itertools.pairwise(_POLICY)):
        matrix = rng.standard_normal((units, taken), np.float32) * np.float32((2 / taken) ** 0.5)
        weights += [
            numpy_helper.from_array(matrix, f"w{number}"),
            numpy_helper.from_array(np.full(units, 0.1, np.float32), f"b{number}"),
        ]
        hidden = units != _POLICY[-1]
        product = f"product_{number}" if hidden else "action"
        inputs = [last, f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Gemm", inputs, [product], transB=1))
        if hidden:
            last = f"hidden_{number}"
            nodes.append(helper.make_node("Elu", [product], [last]))
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes, "walking_policy",
        [value("observation", TensorProto.FLOAT, [1, _POLICY[0]])],
        [value("action", TensorProto.FLOAT, [1, _POLICY[-1]])], weights,
    )  # fmt: skip
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONNX_NETWORKS: dict[str, Callable[[], Any]] = {
    make.__name__: make for make in (blstm, blstm_peepholes, walking_policy)
}


def write_onnx_network(name: str, folder: Path) -> Path:
    """Write `folder/name.onnx`; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.onnx"
    file.write_bytes(ONNX_NETWORKS[name]().SerializeToString())
    return file
