"""Folds scales and shifts by constants into the weights of a neighbour.

After a convolution or matrix product, both always fold. Before one, a scale always folds, and a
shift does if there is no zero padding between (padding zeros would have to become -shift). A
division counts as a scale. What cannot be folded, for instance after an activation, later becomes a
stage of an epilogue. All products and sums are computed in float64, in index order, and rounded
once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise.binary import Add, Div, Mul, Sub
from cannery.ops.matmul.op import MatMul

F64 = NDArray[np.float64]


def fold_scale_shift(graph: Graph) -> Graph:
    """Until nothing changes: normalise, merge neighbours, fold backward, fold forward."""
    rewriter = Rewriter(graph)
    changed = True
    while changed:
        changed = False
        for rule in (_normalise, _merge, _backward):
            changed |= rewriter.sweep(rule)
        changed |= rewriter.sweep(_forward, backwards=True)
    return rewriter.finish()


def per_channel(rewriter: Rewriter, node: Node) -> tuple[str, F64] | None:
    """(other operand, constant per channel) of a node by a scalar or per-channel constant.

    The node is a Mul or Add, or a Div by the constant.
    """
    if len(node.inputs) != 2:
        return None
    type_ = rewriter.types[node.output]
    orders = (node.inputs, node.inputs[::-1])
    for value, constant in orders[:1] if isinstance(node.op, Div) else orders:
        array = rewriter.constants.get(constant)
        if array is None or value in rewriter.constants or array.dtype != np.float32:
            continue
        if rewriter.types[value] != type_ or type_.rank < 2:
            continue
        if array.size == 1 or (array.shape[-1] == array.size == type_.shape[-1]):
            flat = array.astype(np.float64).reshape(-1)
            return value, np.broadcast_to(flat, (type_.shape[-1],))
    return None


def _scale_or_shift(rewriter: Rewriter, node: Node) -> tuple[str, F64] | None:
    """(value, factor or summand per channel) of a node that may go into weights."""
    if not isinstance(node.op, (Mul, Add, Div)):
        return None
    found = per_channel(rewriter, node)
    if found is None or not isinstance(node.op, Div):
        return found
    value, c = found
    if not bool(np.all(np.abs(c) >= np.finfo(np.float32).tiny)):
        return None
    return value, 1.0 / c


def _normalise(rewriter: Rewriter, node: Node) -> bool:
    """X - c becomes x + (-c), exactly; x / c becomes x * (1/c) where 1/c is exact."""
    if not isinstance(node.op, (Sub, Div)) or len(node.inputs) != 2:
        return False
    value, constant = node.inputs
    array = rewriter.constants.get(constant)
    if array is None or value in rewriter.constants or array.dtype != np.float32:
        return False
    if isinstance(node.op, Sub):
        rewriter.update(node, Add(), (value, rewriter.constant(constant, np.negative(array))))
        return True
    mantissa, _ = np.frexp(array)
    if array.size and bool(np.all(np.abs(mantissa) == 0.5)):
        inverse = 1.0 / array.astype(np.float64)
        rewriter.update(node, Mul(), (value, rewriter.constant(constant, inverse)))
        return True
    return False


def _merge(rewriter: Rewriter, node: Node) -> bool:
    """Two scales in a row become one, so do two shifts; x * 1 and x + 0 vanish."""
    found = per_channel(rewriter, node) if isinstance(node.op, (Mul, Add)) else None
    if found is None:
        return False
    value, c = found
    neutral = 1.0 if isinstance(node.op, Mul) else 0.0
    if bool(np.all(c == neutral)) and rewriter.can_bypass(node, value):
        rewriter.bypass(node, value)
        return True
    reader = rewriter.single_reader(node.output)
    if reader is None or type(reader.op) is not type(node.op):
        return False
    after = per_channel(rewriter, reader)
    if after is None:
        return False
    merged = c * after[1] if isinstance(node.op, Mul) else c + after[1]
    rewriter.update(reader, inputs=(value, rewriter.constant(node.name, merged)))
    rewriter.replace_node(node, [])
    return True


def _backward(rewriter: Rewriter, node: Node) -> bool:
    """A scale or shift after a convolution or matrix product goes into its weights and bias."""
    found = _scale_or_shift(rewriter, node)
    if found is None:
        return False
    value, c = found
    producer = rewriter.producer(value)
    if producer is None or rewriter.single_reader(value) is not node:
        return False
    if not _has_constant_weights(rewriter, producer):
        return False
    weight, bias = _weights(rewriter, producer)
    if not isinstance(node.op, Add):
        weight, bias = weight * _along_outputs(producer, weight, c), bias * c
    else:
        bias = bias + c
    _set_weights(rewriter, producer, weight, bias)
    _take_over(rewriter, node, value)
    return True


def _take_over(rewriter: Rewriter, node: Node, value: str) -> None:
    """Remove `node`, the only reader of `value`; the producer of `value` writes its output
    instead.
    """
    producer = rewriter.producer(value)
    assert producer is not None
    rewriter.replace_node(
        producer, [Node(producer.op, producer.name, producer.inputs, node.outputs)]
    )
    rewriter.replace_node(node, [])


def _forward(rewriter: Rewriter, node: Node) -> bool:
    """A scale (or, without padding, a shift) before a convolution or product goes into it."""
    found = _scale_or_shift(rewriter, node)
    if found is None:
        return False
    value, c = found
    reader = rewriter.single_reader(node.output)
    if reader is None or isinstance(reader.op, ConvTranspose):
        return False
    if reader.inputs[0] != node.output or not _has_constant_weights(rewriter, reader):
        return False
    if isinstance(reader.op, MatMul) and reader.op.transpose_a:
        return False
    weight, bias = _weights(rewriter, reader)
    factor = _along_inputs(reader, weight, c)
    if not isinstance(node.op, Add):
        weight = weight * factor
    elif _padded(reader):
        return False
    else:
        bias = bias + _sum_over_inputs(reader, weight * factor)
    changed = _set_weights(rewriter, reader, weight, bias)
    rewriter.update(changed, inputs=(value, *changed.inputs[1:]))
    rewriter.replace_node(node, [])
    return True


def _padded(node: Node) -> bool:
    return isinstance(node.op, Conv) and any(pair != (0, 0) for pair in node.op.pads)


def _has_constant_weights(rewriter: Rewriter, node: Node) -> bool:
    """A Conv, ConvTranspose or MatMul whose weight (and bias) are constants that only it reads."""
    if not isinstance(node.op, (Conv, ConvTranspose, MatMul)):
        return False
    names = [i for i in node.inputs[1:] if i]
    if not names or any(i not in rewriter.constants for i in names):
        return False
    return not isinstance(node.op, MatMul) or rewriter.types[node.inputs[1]].rank == 2


def _weights(rewriter: Rewriter, node: Node) -> tuple[F64, F64]:
    weight = rewriter.constants[node.inputs[1]].astype(np.float64)
    outputs = rewriter.types[node.output].shape[-1]
    has_bias = len(node.inputs) > 2 and node.inputs[2]
    bias = rewriter.constants[node.inputs[2]].astype(np.float64) if has_bias else np.zeros(outputs)
    return weight, np.asarray(bias, np.float64).reshape(-1)


def _set_weights(rewriter: Rewriter, node: Node, weight: F64, bias: F64) -> Node:
    names = [rewriter.constant(f"{node.name}/w", weight), rewriter.constant(f"{node.name}/b", bias)]
    return rewriter.update(node, inputs=(node.inputs[0], *names))


def _along_outputs(node: Node, weight: F64, c: F64) -> F64:
    """`c`, one per output channel, shaped to multiply the weight."""
    if isinstance(node.op, ConvTranspose):  # [*K, OC/group, IC]
        groups, ic = node.op.group, weight.shape[-1]
        table = c.reshape(groups, -1)
        return np.repeat(table.T, ic // groups, axis=1)
    if isinstance(node.op, MatMul) and node.op.transpose_b:
        return c[:, None]
    return c


def _along_inputs(node: Node, weight: F64, c: F64) -> F64:
    """`c`, one per input channel, shaped to multiply the weight."""
    if isinstance(node.op, Conv):  # [*K, IC/group, OC]
        outputs = weight.shape[-1]
        table = c.reshape(node.op.group, -1)
        return np.repeat(table.T, outputs // node.op.group, axis=1)
    if isinstance(node.op, MatMul) and node.op.transpose_b:
        return c[None, :]
    return c[:, None]


def _sum_over_inputs(node: Node, product: F64) -> F64:
    """The sum over taps and input channels, in index order."""
    if isinstance(node.op, MatMul) and node.op.transpose_b:
        product = product.T
    flat = product.reshape(-1, product.shape[-1])
    total = np.zeros(flat.shape[-1])
    for row in flat:
        total = total + row
    return total
