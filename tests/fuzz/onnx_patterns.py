"""Blocks of random ONNX models that consist of several nodes, as networks have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fuzz.onnx_maker import Maker
from fuzz.onnx_operators import UNARY

onnx = pytest.importorskip("onnx")

#: The domain of QONNX's operators.
QONNX = "qonnx.custom_op.general"


def quantised(m: Maker) -> None:
    """A dense layer or a convolution between bytes."""
    x, dims, _ = m.pick()
    dtype = m.random.choice([np.uint8, np.int8])
    zero = m.constant(np.asarray(m.random.choice([0, 3, 120]), dtype))

    def bytes_of(value: str) -> str:
        scale = m.constant(np.float32(m.random.choice([0.02, 0.05, 0.1])))
        (made,) = m.node("QuantizeLinear", value, scale, zero)
        return m.node("DequantizeLinear", made, scale, zero)[0]

    units = m.count(1, 8)
    shape = (units, dims[1], 1, 1) if len(dims) == 4 else (dims[-1], units)
    name = m.constant(m.rng.integers(-127, 128, shape).astype(np.int8))
    parameters = [m.constant(np.float32(0.01)), m.constant(np.int8(0))]
    (w,) = m.node("DequantizeLinear", name, *parameters)
    (y,) = m.node("Conv" if len(dims) == 4 else "MatMul", bytes_of(x), w)
    bytes_of(m.node("Relu", y)[0] if m.chance(0.5) else y)


def known(m: Maker) -> None:
    """A reshape whose shape is computed of constants."""
    x = m.pick()[0]
    (shape,) = m.node("Shape", x)
    (first,) = m.node("Slice", shape, m.numbers(0), m.numbers(1), m.numbers(0))
    (to,) = m.node("Concat", first, m.numbers(-1), axis=0)
    m.node("Reshape", x, to)


def constants(m: Maker) -> None:
    """What is computed of constants alone."""
    a = m.weight(m.count(1, 4), m.count(1, 4))
    (b,) = m.node(m.random.choice(["Relu", "Exp", "Transpose"]), a)
    m.node("ReduceSum", b, keepdims=0) if m.chance(0.5) else m.node("Tanh", b)


def unet(m: Maker) -> None:
    """Down, up, and joined with what was there before."""
    x, dims, _ = m.pick(rank=4)
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    (a,) = m.node("Conv", x, m.weight(6, dims[1], 3, 3), m.weight(6), **same)
    (a,) = m.node("Relu", a)
    (b,) = m.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    (b,) = m.node("Conv", b, m.weight(8, 6, 3, 3), **same)
    if m.chance(0.5):
        scales = m.constant(np.array([1, 1, 2, 2], np.float32))
        mode = m.random.choice(["nearest", "linear"])
        (c,) = m.node("Resize", b, "", scales, mode=mode)
    else:
        (c,) = m.node("ConvTranspose", b, m.weight(8, 8, 2, 2), strides=[2, 2])
    (d,) = m.node("Concat", a, c, axis=1)
    m.node("Conv", d, m.weight(4, 14, 3, 3), **same)


def residual(m: Maker) -> None:
    """A sum with what was before one or two convolutions, perhaps depthwise."""
    x, dims, _ = m.pick(rank=4)
    c = dims[1]
    group = m.random.choice([1, 1, c])
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": group}
    (y,) = m.node("Conv", x, m.weight(c, c // group, 3, 3), m.weight(c), **same)
    if m.chance(0.5):
        (y,) = m.node("Relu", y)
        (y,) = m.node("Conv", y, m.weight(c, c, 1, 1))
    (y,) = m.node("Add", y, x)
    m.node(m.random.choice(["Relu", "Clip", "LeakyRelu"]), y)


def choice(m: Maker) -> None:
    """An If of branches with one shape; its condition is about an input, which is never NaN."""
    x, dims, dtype = m.pick()
    (most,) = m.node("ReduceMax", m.values[0][0], keepdims=m.count(0, 1))
    (flag,) = m.node("Less", most, m.constant(np.float32(m.random.random())))
    kinds = [m.random.choice(UNARY) for _ in range(2)]
    y = f"v{len(m.types)}_0"
    branches = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, [x], [f"{y}_{k}"])], f"{y}_{k}", [],
            [onnx.helper.make_tensor_value_info(f"{y}_{k}", dtype, dims)],
        )
        for k, kind in enumerate(kinds)
    ]  # fmt: skip
    m.nodes.append(
        onnx.helper.make_node(
            "If", [flag], [y], f"n{len(m.nodes)}", then_branch=branches[0], else_branch=branches[1]
        )
    )
    m.types[y] = m.types[x]
    m.values.append((y, dims, dtype))


def few_numbers(m: Maker) -> None:
    """Quant and the like of QONNX, of which the package has no schema."""
    x, dims, dtype = m.pick()
    kind = m.random.choice(["Quant", "Quant", "BipolarQuant", "MultiThreshold"])
    scale = m.constant(np.float32(m.random.choice([1.0, 0.5, 0.1, 2.0**-7])))
    zero, bits = (
        m.constant(np.float32(0)),
        m.constant(np.float32(m.random.choice([1, 2, 4, 8, 12]))),
    )
    attributes: dict[str, Any] = {}
    inputs = [x, scale]
    if kind == "Quant":
        inputs += [zero, bits]
        attributes = {"signed": m.count(0, 1), "narrow": m.count(0, 1)}
    elif kind == "MultiThreshold":
        inputs = [x, m.weight(1, m.count(1, 9))]
    name = f"v{len(m.types)}_0"
    made = onnx.helper.make_node(
        kind, inputs, [name], f"n{len(m.nodes)}", domain=QONNX, **attributes
    )
    m.nodes.append(made)
    m.types[name] = m.types[x]
    m.values.append((name, dims, dtype))


def drawing(m: Maker) -> None:
    """Random numbers, which other values become or decide about."""
    x, _, _ = m.pick()
    kind = m.random.choice(
        ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", ""]
    )
    if kind == "Multinomial":
        x, _, _ = m.pick(rank=2)
        m.node(kind, x, sample_size=m.count(1, 3), dtype=m.random.choice([6, 7]))
    elif kind:
        (z,) = m.node(kind, x)
        m.node(m.random.choice(["Add", "Mul"]), x, z)
    else:
        ratio, training = m.constant(np.float32(m.random.random())), m.constant(np.array(True))
        m.node("Dropout", x, ratio, training, outputs=m.count(1, 2))
