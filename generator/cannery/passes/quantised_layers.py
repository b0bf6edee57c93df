"""Dense layers and convolutions between DequantizeLinear and QuantizeLinear become integer ones.

    DequantizeLinear(x), DequantizeLinear(w), bias -> MatMul or Conv -> activation -> QuantizeLinear

computes  saturate(round(float32(sum (x - zx) (w - zw) + bias) * (sx * sw / sy)) + zy),  all in
float32 except the sum, which is int32; QLinearConv and QLinearMatMul compute the same. A bias that
is not stored in units of sx * sw is added to the product instead. Without a QuantizeLinear, the
results are floats with the scale sx * sw. `ConvInteger`, `MatMulInteger` and the importer's forms
of QLinearConv and QLinearMatMul become the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import f64
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Clip, LeakyRelu, Mul, Relu, Sub
from cannery.ops.fixed_point.dynamic import DynamicWhole
from cannery.ops.fixed_point.pointwise import FixedQuantize, FixedRescale
from cannery.ops.fixed_point.wide import DoubleRescale
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Pad, Reshape, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.quantized.arithmetic import F32, STORED, Activation, f32
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.elementwise import Scaled
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.passes.quantised_values import EXACT
from cannery.quantization.products import FixedResult, Product, Result, append, made_of
from cannery.quantization.stored import (
    integer_bias,
    known,
    quantised_to,
    stored,
    weights,
)

#: Operators that compute with integers and are not known to be lossless.
COMPUTING = (QuantizedProduct, QuantizedAveragePool)

#: Operators that make integers of floats.
ROUNDING = (DynamicWhole, FixedQuantize, QuantizeLinear)

#: How far one unit of an integer within a network may move an output, relative to max|y|.
UNIT_ERROR = 1 / 64


def quantised_layers(graph: Graph) -> Graph:
    """Handles each layer once; `Graph.integer_layers` lists them."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_layer)
    rewriter.sweep(_integer_product)
    made = rewriter.finish()
    layers = tuple(n.name for n in made.nodes if isinstance(n.op, COMPUTING))
    if not layers and not any(isinstance(n.op, DynamicWhole) for n in made.nodes):
        return made
    return replace(made, integer_layers=layers, unit_error=UNIT_ERROR if _rounds(made) else 0.0)


def _rounds(graph: Graph) -> bool:
    """Whether results of float layers become integers."""
    return any(
        isinstance(node.op, ROUNDING) and not _is_exact(graph, node.inputs[0])
        for node in graph.nodes
    )


def _is_exact(graph: Graph, value: str) -> bool:
    """Whether a value has the same bits however it is computed."""
    node = graph.producer(value)
    while node is not None and isinstance(node.op, (*EXACT, Transpose, Reshape, Pad)):
        node = graph.producer(node.inputs[0])
    return node is None or isinstance(node.op, DequantizeLinear)


@dataclass(frozen=True)
class _Tail:
    """The nodes after a product that become part of it, the last one last."""

    nodes: tuple[Node, ...]
    bias: str
    activation: Activation
    quantise: Node | None


def _layer(rewriter: Rewriter, node: Node) -> bool:
    """Whether a layer of floats was replaced."""
    op = node.op
    if not isinstance(op, Conv | MatMul):
        return False
    if isinstance(op, MatMul) and (op.transpose_a or op.transpose_b):
        return False
    x, w = stored(rewriter, node.inputs[0]), weights(rewriter, node.inputs[1])
    if x is None or w is None:
        return False
    own = node.inputs[2] if len(node.inputs) > 2 else ""
    tail = _tail(rewriter, node, own)
    with np.errstate(over="ignore"):
        scale = f32(np.float32(x.scaled.scale) * w.scale)
    start, bias = _bias(rewriter, tail.bias, scale)
    if start is None:
        return False
    facts = quantised_to(rewriter, tail.quantise)
    activation, target = tail.activation, None
    if facts:
        dtype, y = facts
        with np.errstate(over="ignore"):
            scale = f32(scale / np.float32(y.scale))
            bias = None if bias is None else f32(bias / np.float32(y.scale))
        activation, target = _in_units(activation, y, dtype), (dtype, y.zero)
    numbers = [scale] if bias is None else [scale, bias]
    if not all(np.isfinite(each).all() for each in numbers) or not scale.all():
        return False  # beyond float32's exact range: the result depends on the order
    result = Result(scale, bias, activation, target)
    product = Product(node, x.name, x.scaled.zero, w.integers, start, result)
    return _replaced(rewriter, product, tail.nodes)


def _tail(rewriter: Rewriter, node: Node, bias: str) -> _Tail:
    """A constant that is added, activations, and a QuantizeLinear."""
    nodes, activation, value = list[Node](), list[Elementwise](), node.output
    while (reader := rewriter.single_reader(value)) is not None:
        if isinstance(reader.op, EXACT):
            activation.append(reader.op)
        elif isinstance(reader.op, Add) and not bias and not activation:
            (other,) = [i for i in reader.inputs if i != value] or ("",)
            if not _per_channel(rewriter, other, value):
                break
            bias = other
        else:
            break
        nodes.append(reader)
        value = reader.output
    last = reader if reader is not None and quantised_to(rewriter, reader) else None
    if last is not None:
        nodes.append(last)
    return _Tail(tuple(nodes), bias, tuple(activation), last)


def _per_channel(rewriter: Rewriter, value: str, result: str) -> bool:
    """Whether a value is a constant for each channel of a result."""
    array = known(rewriter, value) if value else None
    channels = rewriter.types[result].shape[-1]
    return array is not None and array.shape[-1:] == (channels,) and array.size == channels


def _bias(
    rewriter: Rewriter, value: str, scale: F32
) -> tuple[NDArray[np.int64] | None, F32 | None]:
    """The initial sums, and what is added afterwards; the initial sums are None if the bias is
    unknown.
    """
    none = np.zeros(scale.shape, np.int64)
    if not value:
        return none, None
    integers = integer_bias(rewriter, value, f64(scale))
    if integers is not None:
        return integers, None
    array = known(rewriter, value)
    if array is None or array.size != scale.size or not np.isfinite(f64(array)).all():
        return None, None
    return none, f32(array.reshape(-1))


def _in_units(activation: Activation, y: Scaled, dtype: DType) -> Activation:
    """Activations of numbers in units of the result, except those that saturation performs
    anyway.
    """
    info = np.iinfo(dtype.value)
    low, high = info.min - y.zero, info.max - y.zero
    found: list[Elementwise] = []
    for op in activation:
        least, most = (0.0, np.inf) if isinstance(op, Relu) else (-np.inf, np.inf)
        made: Elementwise = op
        if isinstance(op, Clip):
            least, most = op.minimum / y.scale, op.maximum / y.scale
            made = Clip(least, most)
        if isinstance(op, LeakyRelu) or least > low or most < high:
            found.append(made)
    return tuple(found)


def _replaced(rewriter: Rewriter, product: Product, tail: tuple[Node, ...]) -> bool:
    """Turns it into a product that replaces the node and those after it; returns whether that is
    possible.
    """
    last = tail[-1] if tail else product.node
    new = made_of(rewriter, product, last.output)
    if not new:
        return False
    for each in (product.node, *tail)[:-1]:
        rewriter.replace_node(each, [])
    rewriter.replace_node(last, new)
    return True


def _integer_product(rewriter: Rewriter, node: Node) -> bool:
    """Replaces a product of integers, including a bias and the conversion back to bytes if present;
    returns whether it did.
    """
    if not isinstance(node.op, ConvInteger | MatMulInteger) or node.op.wide:
        return False
    x, w, *rest = node.inputs
    integers, zero_x, zero_w = (known(rewriter, i) for i in (w, *rest))
    if integers is None or zero_w is None or rewriter.types[rest[0]].elements != 1:
        return False
    if x in rewriter.constants or zero_w.size not in (1, integers.shape[-1]):
        return False
    # A zero point per row of a matrix has the same number of elements if the matrix is square.
    if zero_w.size > 1 and zero_w.shape[-1:] != integers.shape[-1:]:
        return False
    wide = integers.astype(np.int64) - zero_w.reshape(-1).astype(np.int64)
    if zero_x is None:
        return _by_computed_zero(rewriter, node, wide)
    start: NDArray[np.int64] = np.zeros(integers.shape[-1], np.int64)
    tail, value = list[Node](), node.output
    reader = rewriter.single_reader(value)
    if reader is not None and isinstance(reader.op, Add):
        (other,) = [i for i in reader.inputs if i != value] or ("",)
        if _per_channel(rewriter, other, value):
            bias = known(rewriter, other)
            assert bias is not None
            start = bias.reshape(-1).astype(np.int64)
            tail, value = [reader], reader.output
            reader = rewriter.single_reader(value)
    result = _after_sums(rewriter, reader) if reader is not None else None
    product = Product(node, x, int(zero_x.item()), wide, start, result)
    if result is not None and reader is not None:
        if _replaced(rewriter, product, (*tail, reader)):
            return True
        product = replace(product, result=None)
    return _replaced(rewriter, product, tuple(tail))


def _after_sums(rewriter: Rewriter, node: Node) -> Result | FixedResult | None:
    """What a node makes of sums, if everything is known."""
    if isinstance(node.op, Requantize):
        return _requantised(rewriter, node)
    return _in_fixed_point(rewriter, node)


def _in_fixed_point(rewriter: Rewriter, node: Node) -> FixedResult | None:
    """What a FixedRescale or DoubleRescale makes of sums, which are its first input."""
    op = node.op
    if not isinstance(op, FixedRescale | DoubleRescale) or op.dtype not in STORED:
        return None
    channels = rewriter.types[node.output].shape[-1]
    arrays = [known(rewriter, i) for i in node.inputs[1:]]
    if any(a is None or not (a.size == 1 or a.shape == (channels,)) for a in arrays):
        return None
    each = (a.reshape(-1) for a in arrays if a is not None)
    factor, *more = (np.broadcast_to(a, (channels,)).copy() for a in each)
    shift = -more[0].astype(np.int32) if more else None
    held = op.minimum, op.maximum
    return FixedResult(factor, shift, op.dtype, op.zero, held)


def _by_computed_zero(rewriter: Rewriter, node: Node, w: NDArray[np.int64]) -> bool:
    """A product whose input has a computed zero point: sum x w minus zero * sum w."""
    if isinstance(node.op, ConvInteger) and any(map(any, node.op.pads)):
        return False  # padding means the zero point
    y, name = rewriter.types[node.output], node.name
    none: NDArray[np.int64] = np.zeros(w.shape[-1], np.int64)
    products = rewriter.value(f"{name}/products", y)
    new = made_of(rewriter, Product(node, node.inputs[0], 0, w, none, None), products)
    if not new:
        return False
    sums = w.reshape(-1, w.shape[-1]).sum(axis=0)
    zero = append(rewriter, new, Reshape((1,)), f"{name}/zero", [node.inputs[2]])
    wide = append(rewriter, new, Cast(DType.INT32), f"{name}/wide_zero", [zero])
    columns = rewriter.constant(f"{name}/columns", sums.astype(np.int32))
    less = append(rewriter, new, Mul(), f"{name}/less", [wide, columns])
    new.append(Node(Sub(), f"{name}/sums", (products, less), node.outputs))
    rewriter.replace_node(node, new)
    return True


def _requantised(rewriter: Rewriter, node: Node) -> Result | None:
    """What a Requantize makes of sums, if everything is known."""
    channels = rewriter.types[node.output].shape[-1]
    a, b, c, zero = (known(rewriter, i) for i in node.inputs[1:])
    if a is None or b is None or c is None or zero is None or not zero.size == c.size == 1:
        return None
    if a.size != 1 or not (b.size == 1 or b.shape[-1:] == (channels,) == (b.size,)):
        return None
    scale = f32(f32(f32(a).reshape(-1) * f32(b).reshape(-1)) / f32(c).reshape(-1))
    if not np.isfinite(scale).all():
        return None
    dtype = rewriter.types[node.output].dtype
    return Result(np.broadcast_to(scale, (channels,)), None, (), (dtype, int(zero.item())))
