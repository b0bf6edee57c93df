"""Normalisation spelt as a factor and a shift becomes one operator.

TensorFlow's batch_normalization, by which Keras computes layer and group normalisation, writes x *
f + (bias - mean * f) with f = scale / sqrt(variance + epsilon); Keras on PyTorch has the variance
as the mean of the squares minus the square of the mean.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Div, Mul, Neg, Reciprocal, Sub
from cannery.ops.movement.op import Reshape
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.passes.fuse_layer_norm import Spelling, Values, alone


def fuse_folded_norm(graph: Graph) -> Graph:
    """Over the last axes: LayerNormalization. Over groups of channels, which a Reshape has split
    off: GroupNormalization.

    A graph that has integer layers stays as it is: its bits are those of the operators in it.
    """
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    rewriter.sweep(_fuse)
    return rewriter.finish()


class _Found(NamedTuple):
    """What is normalised, by which constants; "" for none."""

    x: Values
    epsilon: float
    scale: str
    bias: str


def _fuse(rewriter: Rewriter, node: Node) -> bool:
    """Starts from the sum."""
    if not isinstance(node.op, Add) or rewriter.types[node.output].dtype is not DType.FLOAT32:
        return False
    for scaled, order in product((0, 1), (0, 1)):
        spelling = Spelling(rewriter)
        found = _read(spelling, node.inputs[scaled], node.inputs[1 - scaled], order)
        same = found and rewriter.types[found.x.value] == rewriter.types[node.output]
        if found and same and alone(rewriter, spelling, node):
            return _as_layer(rewriter, spelling, node, found) or _as_groups(
                rewriter, spelling, node, found
            )
    return False


def _read(spelling: Spelling, scaled: str, shift: str, order: int) -> _Found | None:
    """X * factor + shift, with x first or second."""
    node = spelling.made(scaled, Mul)
    if node is None:
        return None
    x, factor = node.inputs[order], node.inputs[1 - order]
    inverse, scale = factor, ""
    multiplied = spelling.rewriter.producer(factor)
    if multiplied and isinstance(multiplied.op, Mul):
        spelling.made(factor, Mul)
        inverse, scale = _with_constant(spelling, multiplied)
    deviation = _inverted(spelling, inverse)
    found = spelling.deviation(deviation) if deviation else None
    if found is None or found[0].value != x:
        return None
    bias = _bias(spelling, shift, factor, found[0])
    return None if bias is None else _Found(*found, scale, bias)


def _with_constant(spelling: Spelling, node: Node) -> tuple[str, str]:
    """The operand that is not constant, and the one that is."""
    a, b = node.inputs
    return (b, a) if a in spelling.rewriter.constants else (a, b)


def _inverted(spelling: Spelling, value: str) -> str:
    """The value of which this is the inverse."""
    node = spelling.made(value, Reciprocal, Div)
    if node is None or (isinstance(node.op, Div) and spelling.number(node.inputs[0]) != 1.0):
        return ""
    return node.inputs[-1]


def _bias(spelling: Spelling, shift: str, factor: str, x: Values) -> str | None:
    """The bias in bias - mean * factor, "" where there is none; None for anything else."""
    node = spelling.made(shift, Add, Sub, Mul)
    if node is None:
        return None
    if isinstance(node.op, Mul):
        return "" if _is_mean(spelling, node, factor, x, negative=True) else None
    moved, bias = node.inputs[::-1] if isinstance(node.op, Sub) else _with_constant(spelling, node)
    inner = spelling.made(moved, Mul)
    negative = isinstance(node.op, Add)
    if inner is None or not _is_mean(spelling, inner, factor, x, negative=negative):
        return None
    return bias if bias in spelling.rewriter.constants else None


def _is_mean(spelling: Spelling, node: Node, factor: str, x: Values, *, negative: bool) -> bool:
    """Whether a product is that of the factor and the mean, or the negated mean."""
    if factor not in node.inputs:
        return False
    mean = node.inputs[1 - node.inputs.index(factor)]
    if negative:
        negated = spelling.made(mean, Neg)
        if negated is None:
            return False
        mean = negated.inputs[0]
    return spelling.mean(mean) == x


def _as_layer(rewriter: Rewriter, spelling: Spelling, last: Node, found: _Found) -> bool:
    """Over the last axes, with an element of scale and bias for each place of them."""
    shape, axes = rewriter.types[found.x.value].shape, found.x.axes
    if axes != tuple(range(len(shape) - len(axes), len(shape))):
        return False
    parameters = _parameters(rewriter, found, tuple(shape[a] for a in axes))
    if parameters is None:
        return False
    _clear(rewriter, spelling)
    rewriter.update(last, LayerNormalization(axes, found.epsilon), [found.x.value, *parameters])
    return True


def _as_groups(rewriter: Rewriter, spelling: Spelling, last: Node, found: _Found) -> bool:
    """Over all axes but the batch and the groups, of x[N,*S,groups,channels]."""
    split = rewriter.types[found.x.value].shape
    before = rewriter.producer(found.x.value)
    groups = len(split) - 2
    if not before or not isinstance(before.op, Reshape) or groups < 1:
        return False
    source = rewriter.types[before.inputs[0]]
    whole = source.shape == (*split[:groups], split[groups] * split[groups + 1])
    if not whole or found.x.axes != (*range(1, groups), groups + 1):
        return False
    parameters = _parameters(rewriter, found, split[groups:])
    if parameters is None:
        return False
    flat = [rewriter.constant(v, rewriter.constants[v].reshape(-1)) for v in parameters]
    op: Op = GroupNormalization(split[groups], groups, found.epsilon)
    value = rewriter.value(f"{last.output}/joined", source)
    _clear(rewriter, spelling)
    norm = Node(op, last.name, (before.inputs[0], *flat), (value,))
    rewriter.replace_node(last, [norm, Node(Reshape(split), last.name, (value,), last.outputs)])
    return True


def _parameters(rewriter: Rewriter, found: _Found, dims: tuple[int, ...]) -> tuple[str, ...] | None:
    """Scale and bias as constants of this shape, as far as there are any; None if they differ."""
    made: list[str] = []
    for value in (found.scale, found.bias):
        array = rewriter.constants.get(value)
        if value and (array is None or array.size != prod(dims)):
            return None
        if array is not None and array.shape[-len(dims) :] != dims:
            return None
    if found.bias or found.scale:
        scale = rewriter.constants[found.scale] if found.scale else np.ones(dims, np.float32)
        made.append(rewriter.constant(found.scale or f"{found.bias}/ones", scale.reshape(dims)))
    if found.bias:
        made.append(rewriter.constant(found.bias, rewriter.constants[found.bias].reshape(dims)))
    return tuple(made)


def _clear(rewriter: Rewriter, spelling: Spelling) -> None:
    """Remove all nodes but the last."""
    for node in spelling.nodes.values():
        rewriter.replace_node(node, [])
