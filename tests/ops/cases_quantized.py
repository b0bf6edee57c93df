"""Layers in integers: every instruction set has to find every bit that the references tell."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.elementwise import HardSigmoid, Mul, Relu, Sigmoid, Tanh
from cannery.ops.quantized.arithmetic import LARGEST_SUM
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.scale import Quantize
from cannery.ops.quantized.softmax import QuantizedSoftmax
from cannery.ops.quantized.table import make_table
from ops.cases import Net, add_case

INT16, INT8 = DType.INT16, DType.INT8
GATE, INPUT = (Sigmoid(),), (Tanh(),)


def weights(net: Net, dtype: DType, *shape: int, bound: int = 32768) -> NDArray[Any]:
    """Integers whose sums over the last axis but one come close to what int32 holds."""
    values = net.rng.standard_normal(shape)
    values *= LARGEST_SUM / bound / np.abs(values).sum(axis=-2, keepdims=True)
    largest = np.iinfo(dtype.numpy).max
    return np.clip(np.trunc(values), -largest, largest).astype(dtype.numpy)


def product(
    dtype: DType, shape: tuple[int, ...], n: int, *, bias: bool = True, **attributes: Any
) -> Graph:
    """One dense layer."""
    net = Net(n)
    x = net.input("x", shape, dtype)
    w = weights(net, dtype, shape[-1], n)
    spread = 1e-9 if not attributes.get("bound") else 1e-4
    scale = net.rng.uniform(0.2, 2.0, n) * spread
    inputs = [x, net.constant("w", w), net.constant("scale", scale)]
    by_table = attributes.get("by_table", False)
    if bias:
        size = 1e6 if by_table else spread * 1e8
        inputs.append(net.constant("bias", net.rng.standard_normal(n) * size))
    elif by_table:
        inputs.append("")
    if by_table:
        inputs.append(net.constant("gain", np.float32(1e-9 if spread == 1e-9 else 2e-6)))
    op = QuantizedMatMul(dtype=dtype, **attributes)
    return net.graph(net.node(op, inputs))


PRODUCTS: dict[str, Any] = {
    "floats": ((2, 3, 7), 37, {"bias": False}),
    "relu": ((5, 12), 9, {"activation": (Relu(),), "bound": 8191}),
    "rows": ((1, 9, 33), 70, {"bound": 4095}),
    "one": ((3, 1), 1, {"bound": 127}),
    "table": ((2, 10), 18, {"activation": INPUT, "by_table": True, "bound": 16383}),
    "table_floats": ((1, 13, 8), 5, {"activation": GATE, "by_table": True, "bias": False}),
}  # fmt: skip

#: Those that are tried with int8, too.
ALSO_INT8 = ("rows", "both", "same")


def dtypes(name: str) -> tuple[DType, ...]:
    return (INT16, INT8) if name in ALSO_INT8 else (INT16,)


for _name, (_shape, _n, _attributes) in PRODUCTS.items():
    for _dtype in dtypes(_name):
        if _attributes.get("bound", 0) > 127 and _dtype is INT8:
            _attributes = {**_attributes, "bound": 127}
        add_case(
            f"quantized_matmul_{_name}_{_dtype.value}",
            partial(product, _dtype, _shape, _n, **_attributes), tolerance=0.0,
        )  # fmt: skip


def lstm(
    cells: int, steps: int, samples: int, states: str, *, peepholes: bool = False,
    dtype: DType = INT16, **attributes: Any,
) -> Graph:  # fmt: skip
    """One layer; `states` as in cases_recurrent."""
    net = Net(cells)
    kind = attributes.pop("kind", QuantizedLstm)
    gates, usual = kind.gates, (GATE, INPUT, INPUT)[: kind.functions]
    activations = attributes.pop("activations", usual)
    reverse = attributes.get("reverse", (False,))
    d, bound = len(reverse), 8192 if dtype is INT16 else 127
    repeated = activations * (d * kind.functions // len(activations))
    op = kind(cells, repeated, bound, dtype, **attributes)
    table = make_table(GATE)
    assert table is not None
    p = net.input("p", (samples, steps, d * gates * cells))
    r = weights(net, dtype, d, cells, gates * cells, bound=bound)
    scale = net.rng.uniform(0.5, 2.0, (d, gates * cells)) * table.scale / bound / 2e4
    inputs = [p, net.constant("r", r), net.constant("scale", scale)]
    for state, name in zip(states, ("h0", "c0"), strict=True):
        shape = (samples, d * cells)
        constant = net.rng.uniform(-1.0, 1.0, shape)
        inputs.append(
            net.input(name, shape) if state == "i" else net.constant(name, constant)
            if state == "c" else ""
        )  # fmt: skip
    if peepholes:
        inputs.append(
            net.constant("q", net.rng.standard_normal((d, kind.others * cells)) * table.scale / 8)
        )
    # What goes into a gate is in steps of its table, some of it beyond.
    wide = net.node(Mul(), [p, net.constant("steps", np.float32(2.0 * table.scale))])
    return net.graph(*net.nodes(op, [wide, *inputs[1:]], name="lstm"))


BOTH, ALL = {"reverse": (False, True)}, ("sequence", "hidden", "cell")
LAYERS: dict[str, Any] = {
    "usual": (19, 4, 1, "zz", {}),
    "state": (20, 1, 1, "ii", {"returns": ALL}),
    "both": (13, 3, 2, "zz", {**BOTH, "returns": ALL}),
    "large": (73, 3, 1, "zz", BOTH),
    "peepholes": (11, 4, 1, "ci", {"peepholes": True, "returns": ("hidden", "cell")}),
    "gru": (17, 4, 2, "iz", {"kind": QuantizedGru, **BOTH, "peepholes": True}),
    "gru_plain": (21, 3, 1, "zz", {"kind": QuantizedGru, "returns": ("sequence", "hidden")}),
    "functions": (
        10, 3, 1, "zz",
        {**BOTH, "activations": ((HardSigmoid(),), GATE, INPUT, GATE, INPUT, INPUT)},
    ),
}  # fmt: skip

for _name, (_cells, _steps, _samples, _states, _attributes) in LAYERS.items():
    for _dtype in dtypes(_name):
        add_case(
            f"quantized_lstm_{_name}_{_dtype.value}",
            partial(lstm, _cells, _steps, _samples, _states, dtype=_dtype, **_attributes),
            tolerance=0.0,
        )


def quantize(dtype: DType, bound: int) -> Graph:
    """Floats to integers, some beyond the bound."""
    net = Net(bound)
    x = net.input("x", (2, 5, 7))
    return net.graph(
        net.node(Quantize(bound, dtype), [x, net.constant("factor", np.float32(bound / 1.5))])
    )


add_case("quantize_int16", partial(quantize, INT16, 4095), tolerance=0.0)
add_case("quantize_int8", partial(quantize, INT8, 127), tolerance=0.0)


def convolution(
    dtype: DType, shape: tuple[int, ...], kernel: tuple[int, int], oc: int, bound: int,
    **attributes: Any,
) -> Graph:  # fmt: skip
    """One convolution with ReLU; all outputs are integers, or floats where `bound` is 0."""
    net = Net(oc)
    x = net.input("x", shape, dtype)
    w = weights(net, dtype, kernel[0] * kernel[1] * shape[-1], oc).reshape(*kernel, shape[-1], oc)
    scale = net.rng.uniform(0.2, 2.0, oc) * (1e-4 if bound else 1e-9)
    inputs = [x, net.constant("w", w), net.constant("scale", scale),
              net.constant("bias", net.rng.standard_normal(oc) * scale * 1e7)]  # fmt: skip
    op = QuantizedConv((Relu(),), bound=bound, dtype=dtype, **attributes)
    return net.graph(net.node(op, inputs))


ONE = ((1, 1), (1, 1))
CONVOLUTIONS: dict[str, Any] = {
    "same": ((1, 7, 6, 3), (3, 3), 9, 127, {"pads": ONE}),
    "floats": ((2, 6, 5, 8), (3, 2), 20, 0, {}),
    "strides": ((1, 9, 8, 5), (2, 3), 4, 127, {"strides": (2, 3), "pads": ((1, 0), (2, 1))}),
    "dilated": ((1, 8, 9, 4), (3, 3), 17, 100, {"dilations": (2, 2), "pads": ONE}),
}  # fmt: skip

for _name, (_shape, _kernel, _oc, _bound, _attributes) in CONVOLUTIONS.items():
    for _dtype in dtypes(_name):
        add_case(
            f"quantized_conv_{_name}_{_dtype.value}",
            partial(convolution, _dtype, _shape, _kernel, _oc, _bound, **_attributes),
            tolerance=0.0,
        )


def softmax(shape: tuple[int, ...]) -> Graph:
    """Rows of scores, some far below the largest."""
    net = Net(shape[-1])
    x = net.input("x", shape)
    wide = net.node(Mul(), [x, net.constant("wide", np.float32(7.0))])
    return net.graph(net.node(QuantizedSoftmax(), [wide]))


for _shape in ((3, 37), (2, 2, 5)):
    add_case(f"quantized_softmax_{_shape[-1]}", partial(softmax, _shape), tolerance=0.0)
