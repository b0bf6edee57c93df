"""Random valid ONNX models: nodes are proposed, and kept where ONNX itself infers their shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

onnx = pytest.importorskip("onnx")

#: No value has more elements, so that references stay quick.
MAX_ELEMENTS = 4000

QONNX = "qonnx.custom_op.general"

_FLOAT, _INT64, _BOOL = 1, 7, 9

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

    def pick(self, dtype: int = _FLOAT, rank: int | None = None) -> Value:
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

    def input(self, name: str, dims: tuple[int, ...], dtype: int = _FLOAT) -> None:
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


_UNARY = (
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
    m.node(m.random.choice(_UNARY), m.pick()[0])


def binary(m: Maker) -> None:
    x, dims, _ = m.pick()
    others = [v for v in m.values if v[2] == _FLOAT and v[1] == dims]
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
        if len(other[1]) != len(dims) or other[2] != _FLOAT:
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
        m.node("Cast", x, to=m.random.choice([_INT64, 6, _BOOL, 2]))


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
    kinds = [m.random.choice(_UNARY) for _ in range(2)]
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


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    conv, conv, conv, conv_transpose, pool, pool, unary, unary, binary, binary, compare, dense,
    dense, product, normalise, softmax, transpose, reshape, concat, split, cut, pad, resize,
    rearrange, reduce, gather, index, repeat, recurrent, quantised, known, constants, unet,
    residual, residual, drawing, few_numbers, choice,
)  # fmt: skip


def _first_inputs(m: Maker) -> None:
    rank = m.random.choice([1, 2, 3, 3, 4, 4, 4, 4, 5])
    batch = 1 if m.chance(0.85) else 2
    dims = (batch, *(m.count(1, 9) for _ in range(rank - 1)))
    if rank == 4 and m.chance(0.6):
        dims = (batch, m.random.choice([1, 3, 4, 8, 16]), m.count(3, 13), m.count(3, 13))
    if m.chance(0.04):
        dims = m.random.choice([(), (0,), (1,), (2, 0), (1, 3, 0, 2), (1, 1, 1, 1)])
    m.input("x", dims)
    if m.chance(0.2):
        m.input("other", dims)


def random_network(random: Random) -> Any:
    """A model of two to nine blocks."""
    m = Maker(random, random.choice([11, 13, 13, 17, 18, 19, 20, 21]))
    _first_inputs(m)
    wanted, tried = m.count(2, 9), 0
    while wanted and tried < 60:
        tried += 1
        try:
            random.choice(BLOCKS)(m)
            wanted -= 1
        except (LookupError, ValueError, ZeroDivisionError):
            pass
    return _finished(m)


def _finished(m: Maker) -> Any:
    """The last value that nobody reads is an output, and now and then others are."""
    read = {i for n in m.nodes for i in n.input}
    made = [o for n in m.nodes for o in n.output]
    free = [o for o in made if o not in read] or made[-1:]
    outputs = [o for k, o in enumerate(free) if k == len(free) - 1 or m.chance(0.5)]
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(v[0], v[2], v[1]) for v in m.values if v[0] not in made]
    used = {i for n in m.nodes for i in n.input}
    graph = helper.make_graph(
        m.nodes, "net", inputs,
        [helper.make_empty_tensor_value_info(o) if m.chance(0.3)
         else helper.make_value_info(o, m.types[o]) for o in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in m.weights.items() if n in used],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", m.opset)]
    if any(n.domain == QONNX for n in m.nodes):
        opsets.append(helper.make_opsetid(QONNX, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
