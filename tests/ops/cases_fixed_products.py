"""Products of integers whose sums become results in fixed point, as TensorFlow Lite has them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import make_factor
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul
from ops.cases import Net, add_case

INT8, UINT8, INT16 = DType.INT8, DType.UINT8, DType.INT16
ONE = ((1, 1), (1, 1))

#: What follows the sums: factors spread by so much, or one for all, as float64 or not; the result.
RESULTS: dict[str, Any] = {
    "channels": (4.0, False, {"dtype": INT8, "zero": -3, "held": (-128, 127)}),
    "one": (1.0, False, {"dtype": INT8, "zero": -128, "held": (-128, 90)}),
    "unsigned": (2.0, False, {"dtype": UINT8, "zero": 120, "held": (120, 255)}),
    "double": (1.0, True, {"dtype": INT8, "zero": 9, "held": (-128, 127)}),
    "doubles": (3.0, True, {"dtype": UINT8, "zero": 0, "held": (3, 255)}),
}

#: Operators by the shapes of x and of the weights.
PRODUCTS: dict[str, Any] = {
    "dense": ((5, 40), (40, 21), QuantizedMatMul, {}),
    "conv": ((1, 6, 7, 12), (3, 3, 12, 20), QuantizedConv, {"pads": ONE}),
    "pointwise": ((2, 3, 5, 16), (1, 1, 16, 9), QuantizedConv, {}),
    "depthwise": ((1, 7, 8, 21), (3, 3, 1, 21), QuantizedConv, {"pads": ONE, "depthwise": True}),
}


def fixed_product(
    of_x: DType, product: str, spread: float, doubles: bool, **attributes: Any
) -> Graph:
    """Sums of bytes, or of int16, of which most become numbers within the bounds."""
    x_shape, w_shape, kind, geometry = PRODUCTS[product]
    net, n, terms = Net(len(product)), w_shape[-1], int(np.prod(w_shape[:-1]))
    wide = of_x is INT16
    largest = 127 if not wide else 2000
    w = net.rng.integers(-largest, largest, w_shape).astype(np.int16 if wide else np.int8)
    unit = 100.0 / (70.0 * (80.0 if not wide else 3e5) * np.sqrt(terms))
    reals = unit * net.rng.uniform(1.0, spread, n) if spread > 1.0 else np.full(n, unit)
    made = [make_factor(float(real)) for real in reals]
    start = net.constant("start", net.rng.integers(-900, 900, n, np.int32))
    inputs = [net.input("x", x_shape, of_x), net.constant("w", w), "", "", "", start]
    if doubles:
        inputs.append(net.constant("factor", reals.view(np.int64)))
    else:
        inputs += [
            net.constant("factor", np.asarray([f.multiplier for f in made], np.int32)),
            net.constant("shift", np.asarray([-f.shift for f in made], np.int32)),
        ]
    return net.graph(net.node(kind(**geometry, **attributes), inputs))


for _product in PRODUCTS:
    for _name, (_spread, _doubles, _attributes) in RESULTS.items():
        _x = UINT8 if _name == "unsigned" else INT8
        _case = partial(fixed_product, _x, _product, _spread, _doubles, **_attributes)
        add_case(f"fixed_product_{_product}_{_name}", _case, tolerance=0.0)
    _words = {"dtype": INT16, "zero": 0, "held": (-32768, 32767)}
    _case = partial(fixed_product, INT16, _product, 3.0, False, **_words)
    add_case(f"fixed_product_{_product}_words", _case, tolerance=0.0)
