"""Blocks of random ONNX models that are about one operator each."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.onnx_maker import BOOL, FLOAT, INT64, Maker, Value

#: Operators of one float tensor.
UNARY = (
    "Relu Sigmoid Tanh Exp Abs Neg Floor Ceil Round Sqrt Reciprocal Softplus Softsign Erf Sign "
    "HardSwish Identity Sin Cos Atan Elu Selu LeakyRelu HardSigmoid ThresholdedRelu Mish Gelu Celu"
).split()
_BINARY = "Add Sub Mul Div Max Min PRelu Pow".split()
_REDUCE = "ReduceMean ReduceSum ReduceMax ReduceMin ReduceL2 ReduceL1 ReduceProd".split()


def _window(m: Maker, dims: tuple[int, ...]) -> dict[str, Any]:
    """Attributes of a window over the spatial axes."""
    size = dims[2:]
    kernel = [m.count(1, min(3, s)) for s in size]
    found: dict[str, Any] = {"kernel_shape": kernel}
    if m.chance(0.6):
        found["strides"] = [m.count(1, 2) for _ in size]
    if m.chance(0.3):
        found["auto_pad"] = m.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif m.chance(0.6):
        found["pads"] = [m.count(0, k - 1) for _ in range(2) for k in kernel]
    return found


def conv(m: Maker) -> None:
    x, dims, _ = m.pick(rank=m.random.choice([3, 4, 4, 4, 5]))
    found = _window(m, dims)
    if m.chance(0.2):
        found["dilations"] = [m.count(1, 2) for _ in dims[2:]]
    channels = dims[1]
    group = m.random.choice([1, 1, 1, channels])
    outputs = group * m.count(1, max(1, m.random.choice([9, 20]) // group))
    w = m.weight(outputs, channels // group, *found["kernel_shape"])
    bias = [m.weight(outputs)] if m.chance(0.6) else []
    m.node("Conv", x, w, *bias, group=group, **found)


def conv_transpose(m: Maker) -> None:
    x, dims, _ = m.pick(rank=m.random.choice([3, 4, 4]))
    found = _window(m, dims)
    if m.chance(0.3):
        found["output_padding"] = [m.count(0, s - 1) for s in found.get("strides", [1] * 2)]
    w = m.weight(dims[1], m.count(1, 5), *found["kernel_shape"])
    m.node("ConvTranspose", x, w, **found)


def pool(m: Maker) -> None:
    x, dims, _ = m.pick(rank=m.random.choice([3, 4, 4, 4]))
    kind = m.random.choice(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool"])
    if kind.startswith("Global"):
        m.node(kind, x)
        return
    found = _window(m, dims)
    if kind == "AveragePool" and m.chance(0.5):
        found["count_include_pad"] = 1
    m.node(kind, x, **found)


def unary(m: Maker) -> None:
    m.node(m.random.choice(UNARY), m.pick()[0])


def binary(m: Maker) -> None:
    x, dims, _ = m.pick()
    others = [v for v in m.values if v[2] == FLOAT and v[1] == dims]
    if m.chance(0.5):
        y = m.random.choice(others)[0]
    else:
        kept = m.count(0, len(dims))
        y = m.positive(*(d if m.chance(0.7) else 1 for d in dims[kept:]))
    pair = [x, y] if m.chance(0.7) else [y, x]
    m.node(m.random.choice(_BINARY), *pair)


def compare(m: Maker) -> None:
    x, dims, _ = m.pick()
    (cond,) = m.node(m.random.choice(["Less", "Greater", "Equal"]), x, m.weight(dims[-1]))
    m.node("Where", cond, x, m.weight(*dims))


def dense(m: Maker) -> None:
    x, dims, _ = m.pick()
    units = m.count(1, 12)
    if len(dims) == 2 and m.chance(0.5):
        w = m.weight(units, dims[1])
        m.node("Gemm", x, w, m.weight(units), transB=1, alpha=m.random.choice([1.0, 0.5]))
    else:
        m.node("MatMul", x, m.weight(dims[-1], units))


def product(m: Maker) -> None:
    x, dims, _ = m.pick()
    axes = list(range(len(dims)))
    axes[-2:] = axes[-2:][::-1]
    (turned,) = m.node("Transpose", x, perm=axes)
    m.node("MatMul", x, turned)


def normalise(m: Maker) -> None:
    x, dims, _ = m.pick()
    kind = m.random.choice(["BatchNormalization", "InstanceNormalization", "LayerNormalization"])
    if kind == "LayerNormalization":
        m.node(kind, x, m.weight(dims[-1]), m.weight(dims[-1]), axis=-1)
        return
    if len(dims) < 3:
        raise LookupError
    c = dims[1]
    more = [m.weight(c), m.positive(c)] if kind.startswith("Batch") else []
    m.node(kind, x, m.weight(c), m.weight(c), *more)


def softmax(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.random.choice([-1, m.count(-len(dims), len(dims) - 1)])
    m.node(m.random.choice(["Softmax", "LogSoftmax", "Hardmax"]), x, axis=axis)


def transpose(m: Maker) -> None:
    x, dims, _ = m.pick()
    m.node("Transpose", x, perm=m.random.sample(range(len(dims)), len(dims)))


def reshape(m: Maker) -> None:
    x, dims, _ = m.pick()
    kind = m.count(0, 4)
    if kind == 0:
        m.node("Flatten", x, axis=m.count(0, len(dims)))
    elif kind == 1 and len(dims) > 1:
        at = m.count(0, len(dims) - 2)
        m.node("Reshape", x, m.numbers(*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]))
    elif kind == 2:
        m.node("Reshape", x, m.numbers(*([0] if m.chance(0.5) else [dims[0]]), -1))
    elif kind == 3:
        m.node("Unsqueeze", x, m.numbers(m.count(0, len(dims))))
    else:
        at = m.count(0, len(dims) - 1)
        half = 2 if dims[at] % 2 == 0 else 1
        m.node("Reshape", x, m.numbers(*dims[:at], half, dims[at] // half, *dims[at + 1 :]))


def concat(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.count(0, len(dims) - 1)

    def fits(other: Value) -> bool:
        if len(other[1]) != len(dims) or other[2] != FLOAT:
            return False
        pairs = enumerate(zip(other[1], dims, strict=True))
        return all(a == b or k == axis for k, (a, b) in pairs)

    others = [v[0] for v in m.values if fits(v)]
    m.node("Concat", x, *(m.random.choice(others) for _ in range(m.count(1, 2))), axis=axis)


def split(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.count(0, len(dims) - 1)
    if dims[axis] < 2:
        raise LookupError
    first = m.count(1, dims[axis] - 1)
    m.node("Split", x, m.numbers(first, dims[axis] - first), axis=axis, outputs=2)


def cut(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.count(0, len(dims) - 1)
    start, step = m.count(0, dims[axis] - 1), m.random.choice([1, 1, 2, -1])
    end = -(2**31) if step < 0 else m.random.choice([2**31 - 1, dims[axis], -1])
    m.node("Slice", x, *(m.numbers(k) for k in (start, end, axis, step)))


def pad(m: Maker) -> None:
    x, dims, _ = m.pick()
    pads = m.numbers(*(m.random.choice([0, 0, 1, 2]) for _ in range(2 * len(dims))))
    modes = ["constant", "edge", "reflect"] if min(dims, default=0) > 2 else ["constant"]
    m.node("Pad", x, pads, mode=m.random.choice(modes))


def resize(m: Maker) -> None:
    x = m.pick(rank=4)[0]
    factors = [1, 1, m.random.choice([1, 2, 3]), m.random.choice([1, 2])]
    mode = m.random.choice(["nearest", "linear", "cubic"])
    where = m.random.choice(["half_pixel", "asymmetric", "align_corners"])
    nearest = m.random.choice(["floor", "round_prefer_floor", "ceil"])
    scales = m.constant(np.array(factors, np.float32))
    m.node(
        "Resize", x, "", scales, mode=mode, nearest_mode=nearest,
        coordinate_transformation_mode=where,
    )  # fmt: skip


def rearrange(m: Maker) -> None:
    x, dims, _ = m.pick(rank=4)
    if dims[1] % 4 == 0:
        m.node("DepthToSpace", x, blocksize=2, mode=m.random.choice(["DCR", "CRD"]))
    elif dims[2] % 2 == dims[3] % 2 == 0:
        m.node("SpaceToDepth", x, blocksize=2)
    else:
        raise LookupError


def reduce(m: Maker) -> None:
    x, dims, _ = m.pick()
    kind = m.random.choice(_REDUCE)
    axes = m.random.sample(range(len(dims)), m.count(1, len(dims)))
    keep = m.count(0, 1)
    if m.opset >= 18 or kind == "ReduceSum":
        m.node(kind, x, m.numbers(*axes), keepdims=keep)
    else:
        m.node(kind, x, axes=axes, keepdims=keep)


def gather(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.count(0, len(dims) - 1)
    at = [m.count(-dims[axis], dims[axis] - 1) for _ in range(m.count(1, 3))]
    m.node("Gather", x, m.numbers(*at), axis=axis)


def index(m: Maker) -> None:
    x, dims, _ = m.pick()
    axis = m.count(0, len(dims) - 1)
    kind = m.count(0, 3)
    if kind == 0:
        m.node(m.random.choice(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=m.count(0, 1))
    elif kind == 1:
        m.node("TopK", x, m.numbers(m.count(1, dims[axis])), axis=axis, outputs=2)
    elif kind == 2:
        m.node("CumSum", x, m.constant(np.int64(axis)), exclusive=m.count(0, 1))
    else:
        m.node("Cast", x, to=m.random.choice([INT64, 6, BOOL, 2]))


def repeat(m: Maker) -> None:
    x, dims, _ = m.pick()
    if m.chance(0.5):
        m.node("Tile", x, m.numbers(*(m.random.choice([1, 1, 2]) for _ in dims)))
    else:
        m.node("Expand", x, m.numbers(m.count(1, 2), *(1 for _ in dims)))


def recurrent(m: Maker) -> None:
    x, dims, _ = m.pick(rank=3)
    kind, gates = m.random.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    directions, hidden = m.count(1, 2), m.count(1, 6)
    way = "bidirectional" if directions == 2 else m.random.choice(["forward", "reverse"])
    w = m.weight(directions, gates * hidden, dims[2])
    r = m.weight(directions, gates * hidden, hidden)
    b = [m.weight(directions, 2 * gates * hidden)] if m.chance(0.6) else []
    m.node(kind, x, w, r, *b, outputs=2, hidden_size=hidden, direction=way)
