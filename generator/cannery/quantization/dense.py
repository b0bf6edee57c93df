"""Dense layers and convolutions with constant weights as products of integers."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import F64, Numeric, f64
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Clip, LeakyRelu, Relu
from cannery.ops.matmul.op import MatMul
from cannery.ops.quantized.arithmetic import EXACT_SUM, Activation
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import BYTE, QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.table import make_table
from cannery.quantization.calibration import Observed
from cannery.quantization.draft import Draft
from cannery.quantization.recurrent import gates_of
from cannery.quantization.steps import Weights, round_weights

#: Terms of the longest sum: longer ones would leave too few bits for each.
MOST_TERMS = 2**15

#: Activations that round at most once: every processor computes the same bits.
EXACT = (Relu, LeakyRelu, Clip)

#: Activations where a factor may be applied before instead of after.
HOMOGENEOUS = (Relu, LeakyRelu)


def is_dense(graph: Graph, seen: Observed, dtype: DType, node: Node) -> bool:
    """Whether a node multiplies by constant weights and has an integer form."""
    return isinstance(node.op, MatMul | Conv) and not why_float(graph, seen, dtype, node)


def why_float(graph: Graph, seen: Observed, dtype: DType, node: Node) -> str:
    """Why a dense layer or convolution has no integer form; empty if it has one."""
    op, types = node.op, graph.types
    x, w, *bias = node.inputs
    shape = types[w].shape
    if x in graph.constants or not all(v in graph.constants for v in (w, *bias) if v):
        return "its weights are not constant"
    if not types[node.output].elements or not min(shape):
        return "it computes nothing"
    if not seen.is_finite(x):
        return "its input was not finite on the samples"
    if isinstance(op, Conv):
        fault = _why_no_kernel(graph, dtype, node)
    else:
        fault = "" if _is_plain(graph, node) else "its weights are not a plain matrix"
    terms = prod(shape[:-1]) if isinstance(op, Conv) else max(shape[-2:])
    return fault or ("" if terms <= MOST_TERMS else f"its sums have more than {MOST_TERMS} terms")


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether one matrix of weights multiplies the last axis of an input."""
    x, w, types = node.inputs[0], node.inputs[1], graph.types
    assert isinstance(node.op, MatMul)
    same_rank = types[node.output].rank == types[x].rank
    return not node.op.transpose_a and same_rank and all(d == 1 for d in types[w].shape[:-2])


def _why_no_kernel(graph: Graph, dtype: DType, node: Node) -> str:
    """Convolutions must have one group, or one channel per group.

    Sums of bytes within a single channel are computed in float32, and must be exact there.
    """
    assert isinstance(node.op, Conv)
    if len(node.op.strides) != 2:
        return f"convolutions along {len(node.op.strides)} axes have no integer form"
    w = graph.types[node.inputs[1]].shape
    alone = node.op.group == graph.types[node.inputs[0]].shape[-1] == w[-1]
    if node.op.group > 1 and not alone:
        return "grouped convolutions have no integer form"
    exact = dtype is not DType.INT8 or prod(w[:2]) * 128 * 128 < EXACT_SUM
    return "" if node.op.group == 1 or exact else "its window is too large for bytes"


def activation_behind(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The activation after a layer that becomes part of it, at most one."""
    readers = graph.consumers(node.output)
    if len(readers) != 1 or node.output in graph.outputs:
        return ()
    (reader,) = readers
    op = reader.op
    if not isinstance(op, Elementwise) or len(reader.inputs) != 1:
        return ()
    return (reader,) if joins(op) else ()


def joins(op: Elementwise) -> bool:
    """Whether a layer may take in an activation: it is exact in float32 or has a table."""
    return isinstance(op, EXACT) or make_table((op,)) is not None


def factors_of(graph: Graph, node: Node) -> Numeric:
    """The weights w[K,N] of a dense layer, or of a convolution with K = KH KW IC."""
    w = graph.constants[node.inputs[1]]
    if isinstance(node.op, Conv):
        return np.asarray(w.reshape(-1, w.shape[-1]))
    assert isinstance(node.op, MatMul)
    w = w.reshape(w.shape[-2:])
    return np.ascontiguousarray(w.T if node.op.transpose_b else w)


def rewrite_dense(draft: Draft, node: Node) -> None:
    """A dense layer or convolution, with the activation after it."""
    fused = draft.fused[node.output]
    value = (node, *fused)[-1].output
    ops = tuple(n.op for n in fused if isinstance(n.op, Elementwise))
    new: list[Node] = []
    x = draft.as_integers(node.inputs[0], new)
    weights, bits = _weights(draft, node, x.bound)
    scale = weights.steps * x.unit
    bias: F64 | None = None
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = f64(draft.graph.constants[node.inputs[2]])
    if (steps := gates_of(draft.graph, value)) is not None:
        draft.gates[value] = steps
        scale, bias = scale * steps, None if bias is None else bias * steps
    bound, unit = draft.scale_of(value)
    op, factor, gain = _product(node.op, ops, bound, unit, draft.dtype)
    integers, op = weights.integers, replace(op, weight_bits=bits)
    if isinstance(node.op, Conv):
        integers = integers.reshape(draft.graph.types[node.inputs[1]].shape)
    inputs = [
        x.name,
        draft.constant(f"{node.name}/{draft.dtype.value}", integers),
        draft.scales(f"{node.name}/scale", scale * factor),
        "" if bias is None else draft.constant(f"{node.name}/bias", bias * factor),
        "" if gain is None else draft.scalar(f"{node.name}/gain", gain),
    ]
    while not inputs[-1]:
        inputs.pop()
    draft.layers.append(node.name)
    draft.finish(node, op, inputs, (bound, unit), new)


def _weights(draft: Draft, node: Node, bound: int) -> tuple[Weights, int]:
    """The weights of a layer, and the bits of each."""
    factors = draft.factors[node.output]
    weights = round_weights(factors, bound, draft.dtype)
    bits = draft.coding.bits(node.name, factors.size) if draft.coding else BYTE
    if draft.coding is None or bits == BYTE:
        return weights, BYTE
    draft.coded[node.name] = factors.size - -(-factors.size * bits // BYTE)
    return draft.coding.form.of(factors, weights), bits


def _product(
    op: Op, ops: Activation, bound: int, unit: float, dtype: DType
) -> tuple[QuantizedProduct, float, float | None]:
    """The operator, the factor of its scale and bias, and its gain."""
    exact = all(isinstance(o, EXACT) for o in ops)
    table = None if exact else make_table(ops)
    made: QuantizedProduct
    common = (ops, table is not None, bound, dtype)
    if isinstance(op, Conv):
        window: dict[str, Any] = {
            "strides": op.strides, "pads": op.pads, "dilations": op.dilations,
            "depthwise": op.group != 1,
        }  # fmt: skip
        made = QuantizedConv(*common, **window)
    else:
        made = QuantizedMatMul(*common)
    outer = 1.0 / unit
    if table is not None:
        return made, table.scale, table.unit * outer
    if all(isinstance(o, HOMOGENEOUS) for o in ops):
        return made, outer, None
    return made, 1.0, outer if bound else None
