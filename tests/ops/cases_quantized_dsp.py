"""Integer layers after others that keep bytes within +-127, so that two weights may be one number.

Sizes leave rests: of pixels, outputs, numbers of a group, channels of a word.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Relu
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.scale import Quantize
from ops.cases import Net, add_case

INT8 = DType.INT8
ONE = ((1, 1), (1, 1))


def layer(
    op: QuantizedProduct, shape: tuple[int, ...], *kernel: int, starts: bool = False
) -> Graph:
    """Floats that become bytes, and one layer with weights at the ends of what they may be."""
    net, n = Net(kernel[-1]), kernel[-1]
    factor = net.constant("factor", np.float32(90.0))
    x = net.node(Quantize(127, INT8), [net.input("x", shape), factor])
    w = net.rng.integers(-127, 127, kernel, np.int8, endpoint=True)
    w.flat[: len(w.flat) // 3] = 127
    w.flat[-3:] = -127
    inputs = [x, net.constant("w", w), net.constant("scale", net.rng.uniform(1.0, 9.0, n) * 1e-4),
              net.constant("bias", net.rng.standard_normal(n) * 9.0)]  # fmt: skip
    if starts:
        first = net.rng.integers(-9999, 9999, n, np.int32)
        inputs += ["", net.constant("start", first)]
    return net.graph(net.node(op, inputs))


def conv(*, relu: bool = False, **attributes: Any) -> QuantizedConv:
    return QuantizedConv((Relu(),) if relu else (), bound=127, dtype=INT8, **attributes)


def dense(**attributes: Any) -> QuantizedMatMul:
    return QuantizedMatMul(**{"bound": 127, "dtype": INT8, **attributes})


#: The layer, the shape of its input, its weights.
LAYERS: dict[str, Any] = {
    "conv": (conv(pads=ONE, relu=True), (1, 5, 7, 5), 3, 3, 5, 7),
    "conv_strides": (conv(strides=(2, 2)), (1, 9, 8, 3), 3, 3, 3, 6),
    "conv_dilated": (conv(dilations=(1, 2)), (1, 6, 9, 4), 2, 3, 4, 5),
    "pixels": (conv(relu=True), (1, 5, 5, 18), 1, 1, 18, 9),
    "pixels_apart": (conv(strides=(1, 2)), (2, 3, 5, 8), 1, 1, 8, 3),
    "column": (conv(pads=ONE), (1, 6, 1, 6), 3, 3, 6, 5),
    "row": (dense(), (1, 41), 41, 11),
    "rows": (dense(activation=(Relu(),)), (3, 5, 22), 22, 5),
    "rows_zero": (dense(bound=0, zero=-128), (1, 7, 16), 16, 4),
    "rows_floats": (dense(bound=0), (1, 4, 19), 19, 6),
    "depthwise": (conv(pads=ONE, relu=True, depthwise=True), (1, 6, 7, 10), 3, 3, 1, 10),
    "depthwise_even": (conv(pads=ONE, depthwise=True), (1, 5, 8, 8), 3, 3, 1, 8),
    "depthwise_strides": (conv(strides=(2, 2), depthwise=True), (1, 9, 11, 7), 3, 3, 1, 7),
    "depthwise_tall": (conv(relu=True, depthwise=True), (1, 130, 33, 4), 3, 2, 1, 4),
    "depthwise_wide": (conv(depthwise=True), (1, 3, 300, 5), 1, 3, 1, 5),
    "depthwise_parts": (conv(pads=ONE, depthwise=True), (1, 5, 90, 6), 3, 3, 1, 6),
    "depthwise_parts_strides": (
        conv(pads=ONE, strides=(1, 2), depthwise=True), (1, 4, 191, 5), 3, 3, 1, 5
    ),
}  # fmt: skip

for _name, (_op, _shape, *_kernel) in LAYERS.items():
    add_case(f"quantized_dsp_{_name}", partial(layer, _op, _shape, *_kernel), tolerance=0.0)
add_case("quantized_dsp_starts",
         partial(layer, conv(pads=ONE), (1, 4, 6, 4), 3, 3, 4, 5, starts=True),
         tolerance=0.0)  # fmt: skip
