"""Integer layers: every instruction set must give every bit of the references."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Clip, HardSigmoid, Mul, Relu, Sigmoid, Tanh
from cannery.ops.quantized.arithmetic import LARGEST_SUM, Activation
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.elementwise import ByteTable
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.rnn import QuantizedRnn
from cannery.ops.quantized.scale import Quantize
from cannery.ops.quantized.table import make_table
from cannery.ops.quantized.winograd import MOST_CHANNELS
from ops.cases import Net, add_case, case
from ops.cases_recurrent import first_step

INT32, INT16, INT8, UINT8 = DType.INT32, DType.INT16, DType.INT8, DType.UINT8
FLOAT32 = DType.FLOAT32
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
ALSO_INT8 = ("rows", "both", "same", "gru_reset")


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


def turned(activation: Activation, gain: float) -> Graph:
    """A dense layer with a factor after its activation, which may flip its sign."""
    net, n = Net(7), 19
    x, w = net.input("x", (4, 12), INT16), weights(net, INT16, 12, n)
    inputs = [x, net.constant("w", w), net.constant("scale", net.rng.uniform(0.2, 2.0, n) * 1e-8)]
    inputs += [net.constant("bias", net.rng.standard_normal(n)), net.constant("gain", gain)]
    op = QuantizedMatMul(activation=activation, bound=4095, dtype=INT16)
    return net.graph(net.node(op, inputs))


#: Activations that keep, and that do not keep, results from falling below 0.
SIGNS: dict[str, Activation] = {
    "relu": (Relu(),), "above": (Clip(0.0, 6.0),), "around": (Clip(-30.0, 6.0),),
    "below": (Clip(-30.0, 0.0),), "not_last": (Relu(), Clip(-1.0, 4.0)),
    "last": (Relu(), Clip(-9.0, -6.0)), "none": (),
}  # fmt: skip

for _name, _activation in SIGNS.items():
    for _gain in (800.0, -800.0):
        add_case(
            f"quantized_matmul_{_name}_times_{_gain:g}",
            partial(turned, _activation, np.float32(_gain)), tolerance=0.0,
        )  # fmt: skip


def far_results(*, bias: bool, zero: int, dtype: DType) -> Graph:
    """Results beyond int32 on both sides, by a large bias or by what sums begin with."""
    net, n = Net(5), 21
    w = net.constant("w", net.rng.integers(-9, 9, (11, n), np.int8))
    signs = net.rng.choice([-1.0, 1.0], n)
    inputs = [net.input("x", (3, 11), UINT8), w, net.constant("scale", np.full(n, 1.9)), "", ""]
    if bias:
        inputs[3] = net.constant("bias", signs * 5e9)
    else:
        inputs.append(net.constant("start", (signs * 1.6e9).astype(np.int32)))
    while not inputs[-1]:
        inputs.pop()
    return net.graph(net.node(QuantizedMatMul(dtype=dtype, zero=zero), inputs))


for _bias in (False, True):
    for _zero, _to in ((3, UINT8), (-128, INT8)):
        add_case(
            f"quantized_far_{'bias' if _bias else 'start'}_{_to.value}",
            partial(far_results, bias=_bias, zero=_zero, dtype=_to), tolerance=0.0,
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
    if "first" in attributes:
        inputs += [""] * (6 - len(inputs))
        inputs.append(first_step(net, attributes.pop("first")))
    # What goes into a gate is in steps of its table, some of it beyond.
    wide = net.node(Mul(), [p, net.constant("steps", np.float32(2.0 * table.scale))])
    op = kind(cells, repeated, bound, dtype, **attributes)
    return net.graph(*net.nodes(op, [wide, *inputs[1:]], name="lstm"))


BOTH, ALL = {"reverse": (False, True)}, ("sequence", "hidden", "cell")
RESET = {"linear_before_reset": False}
LAYERS: dict[str, Any] = {
    "usual": (19, 4, 1, "zz", {}),
    "state": (20, 1, 1, "ii", {"returns": ALL}),
    "both": (13, 3, 2, "zz", {**BOTH, "returns": ALL}),
    "large": (73, 3, 1, "zz", BOTH),
    "peepholes": (11, 4, 1, "ci", {"peepholes": True, "returns": ("hidden", "cell")}),
    "gru": (17, 4, 2, "iz", {"kind": QuantizedGru, **BOTH, "peepholes": True}),
    "gru_plain": (21, 3, 1, "zz", {"kind": QuantizedGru, "returns": ("sequence", "hidden")}),
    "gru_reset": (17, 4, 2, "iz", {"kind": QuantizedGru, **BOTH, **RESET, "returns": ALL[:2]}),
    "gru_reset_last": (21, 3, 1, "zz", {"kind": QuantizedGru, **RESET, "returns": ("hidden",)}),
    "gru_reset_large": (73, 3, 1, "zz", {"kind": QuantizedGru, **RESET, "clip": 2.7}),
    "gru_clip": (9, 3, 1, "zz", {"kind": QuantizedGru, "peepholes": True, "clip": 0.3}),
    "clip": (12, 3, 1, "zz", {**BOTH, "peepholes": True, "clip": 1.3}),
    "coupled": (14, 3, 1, "ii", {"coupled": True, "peepholes": True, "returns": ALL}),
    "coupled_plain": (37, 3, 1, "zz", {"coupled": True, "clip": 100.0}),
    "lengths": (10, 4, 3, "ii", {**BOTH, "lengths": (3, 0, 4), "returns": ALL}),
    "first": (9, 5, 2, "ic", {"peepholes": True, "first": 2.0, "returns": ALL}),
    "gru_reset_first": (
        9, 4, 1, "iz", {"kind": QuantizedGru, **RESET, "first": 3.0, "returns": ALL[:2]},
    ),
    "rnn_first_after_all": (
        6, 3, 1, "iz", {"kind": QuantizedRnn, "activations": (INPUT,), "first": 9.0,
                        "returns": ("hidden",)},
    ),
    "lengths_of_one": (9, 4, 1, "zz", {**BOTH, "lengths": (2,), "returns": ALL[:2]}),
    "rnn_lengths": (
        6, 3, 2, "iz", {"kind": QuantizedRnn, "activations": (INPUT,), "lengths": (3, 1),
                        "clip": 0.5, "returns": ("hidden",)},
    ),
    "rnn": (
        18, 4, 2, "iz",
        {**BOTH, "kind": QuantizedRnn, "activations": (INPUT,), "returns": ("sequence", "hidden")},
    ),
    "functions": (
        10, 3, 1, "zz",
        {**BOTH, "activations": ((HardSigmoid(),), INPUT, GATE, GATE, GATE, INPUT)},
    ),
    "gru_functions": (
        9, 3, 1, "zz",
        {**BOTH, "kind": QuantizedGru, "activations": ((HardSigmoid(),), INPUT, GATE, GATE)},
    ),
    "gru_reset_functions": (
        9, 3, 1, "zz",
        {**BOTH, **RESET, "kind": QuantizedGru, "activations": (GATE, GATE, GATE, INPUT)},
    ),
    "rnn_functions": (
        9, 3, 1, "zz", {**BOTH, "kind": QuantizedRnn, "activations": (INPUT, GATE)},
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


add_case("quantize_to_int16", partial(quantize, INT16, 4095), tolerance=0.0)
add_case("quantize_to_int8", partial(quantize, INT8, 127), tolerance=0.0)


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


#: (dtype of the input, bits of the weights, attributes): the ways to multiply bytes of `ways.py`.
WAYS: dict[str, Any] = {
    "proven": (UINT8, 7, {"dtype": UINT8, "zero": 3, "activation": (Relu(),)}),
    "signs": (UINT8, 8, {"dtype": INT8, "zero": -128}),
    "wide": (INT8, 9, {"dtype": UINT8, "zero": 0}),
    "sums": (INT8, 7, {"dtype": INT32}),
    "floats": (UINT8, 9, {}),
}  # fmt: skip


def bytes_product(of_x: DType, bits: int, *, conv: bool, **attributes: Any) -> Graph:
    """A product of bytes as ONNX files have them; weights of 9 bits are at the ends of int8."""
    net, n = Net(bits), 21
    largest = 2 ** (min(bits, 8) - 1) - 1
    shape = (2, 3, 3, n) if conv else (11, n)
    w = net.rng.integers(-largest - (bits == 9), largest, shape, np.int8, endpoint=True)
    w.flat[:4] = -largest - (bits == 9)
    x = net.input("x", (1, 5, 6, 3) if conv else (3, 11), of_x)
    start = net.constant("start", net.rng.integers(-5000, 5000, n, np.int32))
    inputs = [x, net.constant("w", w)]
    if attributes.get("dtype") is not INT32:
        inputs += [net.constant("scale", net.rng.uniform(0.2, 2.0, n) / largest / 30.0), "", ""]
    else:
        inputs += ["", "", ""]
    op = QuantizedConv(pads=ONE, **attributes) if conv else QuantizedMatMul(**attributes)
    return net.graph(net.node(op, [*inputs, start]))


ONE = ((1, 1), (1, 1))
for _name, (_dtype, _bits, _attributes) in WAYS.items():
    for _conv in (False, True):
        add_case(
            f"quantized_bytes_{_name}_{'conv' if _conv else 'matmul'}",
            partial(bytes_product, _dtype, _bits, conv=_conv, **_attributes), tolerance=0.0,
        )  # fmt: skip


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


def extremes(of_x: DType, shape: tuple[int, ...], oc: int, **attributes: Any) -> Graph:
    """3x3 bytes at the ends of their range, for transforms that add them up."""
    net = Net(oc)
    x = net.input("x", shape, of_x)
    w = np.where(net.rng.random((3, 3, shape[-1], oc)) < 0.5, -128, 127).astype(np.int8)
    start = net.constant("start", net.rng.integers(-5000, 5000, oc, np.int32))
    inputs = [x, net.constant("w", w), "", "", "", start]
    if attributes.get("dtype") is not INT32:
        inputs[2] = net.constant("scale", net.rng.uniform(0.2, 2.0, oc) / 1e4)
    return net.graph(net.node(QuantizedConv(**attributes), inputs))


@case(tolerance=0.0)
def quantized_conv_largest_sums() -> Graph:
    """As many channels as Winograd's algorithm takes, with the largest sums that bytes give."""
    net = Net()
    everywhere = net.constant("table", np.full(256, 255, np.uint8))
    x = net.node(ByteTable(), [net.input("x", (1, 4, 3, MOST_CHANNELS), UINT8), everywhere])
    w = np.full((3, 3, MOST_CHANNELS, 5), -128, np.int8)
    w[..., 1] = 127
    w[:, 1, :, 2] = w[1, :, :, 3] = 127
    inputs = [x, net.constant("w", w), "", "", ""]
    return net.graph(net.node(QuantizedConv(pads=ONE, dtype=INT32), inputs))


EXTREMES: dict[str, Any] = {
    "even": (UINT8, (1, 6, 8, 16), 24, {"pads": ONE, "dtype": INT32}),
    "odd": (INT8, (2, 7, 9, 11), 19, {"pads": ONE, "dtype": UINT8, "zero": 7}),
    "inside": (UINT8, (1, 9, 8, 37), 8, {"dtype": INT8, "zero": -3, "activation": (Relu(),)}),
}  # fmt: skip

for _name, (_dtype, _shape, _oc, _attributes) in EXTREMES.items():
    add_case(f"quantized_conv_extremes_{_name}",
             partial(extremes, _dtype, _shape, _oc, **_attributes), tolerance=0.0)  # fmt: skip


def depthwise(
    of_x: DType, shape: tuple[int, ...], kernel: tuple[int, int], most: int = 128, **attributes: Any
) -> Graph:
    """Each channel on its own, to bytes, floats or sums; weights of bytes from -`most` on."""
    net = Net(7)
    x = net.input("x", shape, of_x)
    n = shape[-1]
    w: NDArray[Any] = net.rng.integers(-most, min(most, 127), (*kernel, 1, n), np.int8, True)
    if of_x is INT16:
        w = weights(net, of_x, prod(kernel), n).reshape(*kernel, 1, n)
    inputs = [x, net.constant("w", w), "", "", ""]
    if attributes.get("dtype") is not INT32:
        spread = 1e-3 if of_x is not INT16 else 1e-5 if "bound" in attributes else 1e-9
        inputs[2] = net.constant("scale", net.rng.uniform(0.2, 2.0, n) * spread)
        inputs[3] = net.constant("bias", net.rng.standard_normal(n))
    start = net.constant("start", net.rng.integers(-5000, 5000, n, np.int32))
    op = QuantizedConv(depthwise=True, **attributes)
    return net.graph(net.node(op, [*inputs, start]))


DEPTHWISE: dict[str, Any] = {
    "same": (UINT8, (1, 7, 9, 21), (3, 3), {"pads": ONE, "dtype": UINT8, "zero": 7}),
    "strides": (INT8, (2, 8, 9, 8), (3, 2), {"strides": (2, 2), "dtype": INT8, "zero": -3}),
    "sums": (INT8, (1, 6, 8, 5), (2, 3), {"dilations": (2, 1), "dtype": INT32}),
    "chains": (INT8, (1, 6, 7, 27), (3, 3), {"most": 45, "pads": ONE, "bound": 127}),
    "few": (INT8, (1, 5, 6, 2), (2, 2), {"dtype": INT8, "zero": 5}),
    "two": (INT8, (1, 5, 8, 9), (3, 3), {"most": 127, "dtype": INT32, "strides": (1, 2)}),
    "floats": (UINT8, (1, 6, 5, 17), (5, 5), {"pads": ((2, 2), (2, 2)), "activation": (Relu(),)}),
    "many": (INT8, (2, 7, 9, 37), (3, 3),
             {"pads": ONE, "dtype": INT8, "zero": -3, "activation": (Relu(),)}),
    "many_strides": (UINT8, (1, 9, 12, 16), (3, 3), {"strides": (2, 2), "dtype": UINT8, "zero": 9}),
    "many_tall": (INT8, (1, 72, 5, 18), (3, 3), {"bound": 127, "activation": (Relu(),)}),
    "many_row": (UINT8, (1, 3, 14, 20), (1, 4), {"strides": (2, 1), "bound": 90}),
    "many_sums": (INT8, (1, 6, 7, 33), (4, 2), {"dtype": INT32}),
    "words": (INT16, (1, 6, 9, 69), (3, 3), {"pads": ONE, "bound": 8191, "activation": (Relu(),)}),
    "words_strides": (INT16, (1, 8, 11, 38), (3, 4), {"strides": (2, 2), "bound": 32767}),
    "words_sums": (INT16, (2, 7, 6, 21), (4, 1), {"dilations": (2, 1), "dtype": INT32}),
    "words_floats": (INT16, (1, 9, 13, 7), (5, 5), {"dilations": (1, 2), "pads": ONE}),
    "words_row": (INT16, (1, 1, 12, 16), (1, 6), {"dtype": INT16, "zero": -300}),
}  # fmt: skip

for _name, (_dtype, _shape, _kernel, _attributes) in DEPTHWISE.items():
    add_case(f"quantized_depthwise_{_name}",
             partial(depthwise, _dtype, _shape, _kernel, **_attributes), tolerance=0.0)  # fmt: skip
