"""Integer layers whose weights are codes of 4 or 2 bits on microcontrollers.

Other instruction sets store the same weights as bytes; all must give every bit of the references.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.scale import Quantize
from ops.cases import Net, add_case

#: Levels by the name of what they are: two's complement of 4 and 2 bits, tables of both.
LEVELS: dict[str, tuple[int, tuple[int, ...]]] = {
    "int4": (4, tuple(range(-8, 8))),
    "palette4": (4, (-127, -90, -61, -40, -23, -11, -4, 0, 3, 9, 20, 37, 58, 83, 127)),
    "int2": (2, (-2, -1, 0, 1)),
    "palette2": (2, (-100, 0, 49, 127)),
}

ONE = ((1, 1), (1, 1))


def layer(
    levels: tuple[int, ...], op: QuantizedProduct, shape: tuple[int, ...], *kernel: int,
    unsigned: bool = False,
) -> Graph:  # fmt: skip
    """One layer of bytes; every level is a weight."""
    net, n = Net(kernel[-1]), kernel[-1]
    if unsigned:
        x = net.input("x", shape, DType.UINT8)
    else:
        factor = net.constant("factor", np.float32(90.0))
        x = net.node(Quantize(127, DType.INT8), [net.input("x", shape), factor])
    w = net.rng.choice(np.asarray(levels, np.int8), kernel)
    w.flat[: len(levels)] = levels
    scale = net.rng.uniform(1.0, 9.0, n) * 30.0 / max(levels) / w[..., 0].size / 9.0
    inputs = [x, net.constant("w", w), net.constant("scale", scale),
              net.constant("bias", net.rng.standard_normal(n) * 9.0)]  # fmt: skip
    return net.graph(net.node(op, inputs))


CONV = QuantizedConv(bound=127, dtype=DType.INT8)
DENSE = QuantizedMatMul(bound=127, dtype=DType.INT8)
DEPTHWISE = replace(CONV, depthwise=True)

#: The layer, the shape of its input, its weights: rests of groups, outputs, rows, vectors.
LAYERS: dict[str, tuple[QuantizedProduct, tuple[int, ...], tuple[int, ...]]] = {
    "conv": (replace(CONV, pads=ONE), (1, 5, 7, 5), (3, 3, 5, 7)),
    "conv_vectors": (replace(CONV, pads=ONE), (1, 4, 5, 20), (3, 3, 20, 5)),
    "conv_dilated": (replace(CONV, dilations=(1, 2)), (1, 6, 9, 4), (2, 3, 4, 5)),
    "pixels": (CONV, (1, 5, 5, 18), (1, 1, 18, 9)),
    "pixels_long": (CONV, (1, 3, 3, 200), (1, 1, 200, 6)),
    "row": (DENSE, (1, 41), (41, 11)),
    "row_long": (DENSE, (1, 331), (331, 4)),
    "rows": (DENSE, (3, 5, 22), (22, 5)),
    "rows_long": (DENSE, (3, 165), (165, 6)),
    "windows": (CONV, (1, 7, 8, 3), (5, 5, 3, 6)),
    "depthwise": (replace(DEPTHWISE, pads=ONE), (1, 6, 7, 18), (3, 3, 1, 18)),
    "depthwise_5x5": (replace(DEPTHWISE, pads=ONE), (1, 7, 6, 3), (5, 5, 1, 3)),
}

for _coding, (_bits, _levels) in LEVELS.items():
    for _name, (_op, _shape, _kernel) in LAYERS.items():
        _coded = replace(_op, weight_bits=_bits)
        add_case(f"codes_{_coding}_{_name}", partial(layer, _levels, _coded, _shape, *_kernel),
                 tolerance=0.0)  # fmt: skip
for _name in ("conv", "row", "depthwise"):
    _op, _shape, _kernel = LAYERS[_name]
    add_case(f"codes_unsigned_{_name}",
             partial(layer, LEVELS["palette4"][1], replace(_op, weight_bits=4), _shape, *_kernel,
                     unsigned=True), tolerance=0.0)  # fmt: skip
