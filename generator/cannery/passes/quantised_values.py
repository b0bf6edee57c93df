"""Values between QuantizeLinear and DequantizeLinear stay integers where nothing needs floats.

Maxima, and operators that only move elements, work on integers. Functions of a byte become tables
of 256 bytes; sums and products of two become integer operators. All give the bits that ONNX defines
for the float operators in float32, except means: their sums are exact.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import f64
from cannery.ir.registry import Elementwise, Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Clip, LeakyRelu, Relu
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Pad, Reshape
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import BYTES, EXACT_SUM, Activation, f32, largest_of
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise
from cannery.quantization.flow import on_integers
from cannery.quantization.means import PAIRS, mean_of
from cannery.quantization.products import append
from cannery.quantization.stored import Stored, known, quantised_to, scaled, stored

#: Activations that float32 rounds at most once.
EXACT = (Relu, LeakyRelu, Clip)


def quantised_values(graph: Graph) -> Graph:
    """Until nothing changes."""
    rewriter = Rewriter(_other_zeros(graph))
    while rewriter.sweep(_rule):
        pass
    return rewriter.finish()


def _other_zeros(graph: Graph) -> Graph:
    """Integers that are made and then dequantised, with other zero points.

    Bytes whose zero point is -128 become unsigned ones with 0, so that 0 is padding. Unsigned
    16-bit numbers become signed.
    """
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        readers = graph.consumers(node.outputs[0])
        pairs = all(isinstance(r.op, DequantizeLinear) for r in readers)
        if not isinstance(node.op, QuantizeLinear) or not pairs or node.output in graph.outputs:
            continue
        facts, dtype = scaled(rewriter, node), rewriter.types[node.output].dtype
        zero: np.ndarray[tuple[()], np.dtype[np.generic]] | None = None
        if facts and dtype is DType.INT8 and facts.zero == -128:
            zero = np.zeros((), np.uint8)
        elif facts and dtype is DType.UINT16:
            zero = np.asarray(facts.zero - 2**15, np.int16)
        if zero is None:
            continue
        name = rewriter.constant(f"{node.name}/zero", zero)
        made = TensorType(graph.types[node.output].shape, DType(zero.dtype.name))
        rewriter.types[node.output] = made
        for each in (node, *readers):
            rewriter.update(each, inputs=(*each.inputs[:2], name))
    return rewriter.finish()


def _rule(rewriter: Rewriter, node: Node) -> bool:
    """Whether the node was changed."""
    if isinstance(node.op, QuantizeLinear):
        return _moved_back(rewriter, node) or _in_bytes(rewriter, node)
    if isinstance(node.op, Concat):
        return _joined(rewriter, node)
    if isinstance(node.op, Cast):
        return _maximum_of_casts(rewriter, node)
    source = stored(rewriter, node.inputs[0]) if len(node.inputs) == 1 else None
    op = _on_bytes(rewriter, node, source.scaled.zero) if source else None
    if source is None or op is None:
        return False
    _dequantise_behind(rewriter, node, op, source, [source.name])
    return True


def _on_bytes(rewriter: Rewriter, node: Node, zero: int) -> Op | None:
    """The operator that does to bytes what the node's operator does to floats; None if there is
    none.
    """
    op = node.op
    if isinstance(op, Pad) and op.mode == "constant":
        return replace(op, value=float(zero)) if op.value == 0.0 else None
    return on_integers(op)


def _dequantise_behind(
    rewriter: Rewriter, node: Node, op: Op, source: Stored, inputs: list[str]
) -> None:
    """Replace a node on floats by one on bytes, followed by one that turns its result into
    floats.
    """
    parameters = [
        rewriter.constant(f"{node.name}/scale", np.float32(source.scaled.scale).reshape(())),
        rewriter.constant(f"{node.name}/zero", np.asarray(source.scaled.zero, source.dtype.numpy)),
    ]
    moved = _value(rewriter, node, source.dtype)
    floats = Node(DequantizeLinear(), f"{node.name}/floats", (moved, *parameters), node.outputs)
    rewriter.replace_node(node, [Node(op, node.name, tuple(inputs), (moved,)), floats])


def _value(rewriter: Rewriter, node: Node, dtype: DType) -> str:
    """A new value of the shape of a node's output."""
    shape = rewriter.types[node.output].shape
    return rewriter.value(f"{node.output}/{dtype.value}", TensorType(shape, dtype))


def _moved_back(rewriter: Rewriter, node: Node) -> bool:
    """Moves a QuantizeLinear before the node it follows, and before that node's predecessors;
    returns whether it did.
    """
    waiting = _moved_before(rewriter, node)
    moved = bool(waiting)
    while waiting:
        waiting += _moved_before(rewriter, waiting.pop())
    return moved


def _moved_before(rewriter: Rewriter, node: Node) -> list[Node]:
    """Moves a QuantizeLinear before the node it follows, if that only moves elements or is
    monotonic.

    Returns one for each input of that node; none if it stays.
    """
    facts, source = quantised_to(rewriter, node), rewriter.producer(node.inputs[0])
    if facts is None or source is None or rewriter.single_reader(node.inputs[0]) is not node:
        return []
    dtype, what = facts
    parts: list[Node] = []
    if isinstance(source.op, Concat):
        op: Op | None = source.op
    else:
        op = _on_bytes(rewriter, source, what.zero) if len(source.inputs) == 1 else None
    if op is None or any(i in rewriter.constants for i in source.inputs):
        return []
    for value in source.inputs:
        type_ = TensorType(rewriter.types[value].shape, dtype)
        name = rewriter.value(f"{value}/{dtype.value}", type_)
        parts.append(Node(node.op, f"{value}/quantised", (value, *node.inputs[1:]), (name,)))
    inputs = tuple(part.output for part in parts)
    rewriter.replace_node(source, [])
    rewriter.replace_node(node, [*parts, Node(op, source.name, inputs, node.outputs)])
    return parts


def _joined(rewriter: Rewriter, node: Node) -> bool:
    """A concatenation of bytes that all mean the same."""
    parts = [stored(rewriter, i) for i in node.inputs]
    first = parts[0]
    same = {(p.dtype, p.scaled) for p in parts if p}
    if first is None or None in parts or len(same) != 1:
        return False
    _dequantise_behind(rewriter, node, node.op, first, [p.name for p in parts if p])
    return True


def _maximum_of_casts(rewriter: Rewriter, node: Node) -> bool:
    """Cast, MaxPool, Cast back: the importer's form of maxima of bytes."""
    assert isinstance(node.op, Cast)
    pool = rewriter.producer(node.inputs[0])
    cast = rewriter.producer(pool.inputs[0]) if pool else None
    if pool is None or cast is None or not isinstance(cast.op, Cast) or node.op.to not in BYTES:
        return False
    op = _on_bytes(rewriter, pool, 0) if isinstance(pool.op, MaxPool) else None
    if op is None or rewriter.types[cast.inputs[0]].dtype is not node.op.to:
        return False
    rewriter.replace_node(node, [Node(op, pool.name, cast.inputs, node.outputs)])
    return True


def _in_bytes(rewriter: Rewriter, node: Node) -> bool:
    """What a QuantizeLinear makes of integers: the same integers, a table, a sum of two, a mean."""
    facts = quantised_to(rewriter, node)
    if facts is None:
        return False
    source = stored(rewriter, node.inputs[0])
    if source and (source.dtype, source.scaled) == facts:
        if not rewriter.can_bypass(node, source.name):
            return False
        rewriter.bypass(node, source.name)
        return True
    return _by_table(rewriter, node) or _of_two(rewriter, node) or _mean(rewriter, node)


def _by_table(rewriter: Rewriter, node: Node) -> bool:
    """A function of a byte: elementwise operators whose other operands are single numbers."""
    facts, value, chain = quantised_to(rewriter, node), node.inputs[0], list[Node]()
    assert facts
    if facts[0] not in BYTES:
        return False
    while (source := stored(rewriter, value)) is None:
        before = rewriter.producer(value)
        if before is None or not isinstance(before.op, Elementwise):
            return False
        varying = [i for i in before.inputs if known(rewriter, i) is None]
        single = all(rewriter.types[i].elements == 1 for i in before.inputs if i not in varying)
        if len(varying) != 1 or not single:
            return False
        chain.append(before)
        value = varying[0]
    if rewriter.types[source.name].shape != rewriter.types[node.output].shape:
        return False
    if source.dtype not in BYTES:
        return False
    numbers = np.arange(256).astype(np.uint8).view(source.dtype.numpy)
    results = {value: source.scaled.floats(numbers)}
    with np.errstate(all="ignore"):
        for each in reversed(chain):
            operands = [
                results[i] if i in results else f64(known_floats(rewriter, i)).reshape(())
                for i in each.inputs
            ]
            results[each.output] = f32(each.op.reference(*map(f64, operands))[0])
    entries = facts[1].integers(results[node.inputs[0]], facts[0])
    table = rewriter.constant(f"{node.name}/table", entries)
    rewriter.replace_node(node, [Node(ByteTable(), node.name, (source.name, table), node.outputs)])
    return True


def known_floats(
    rewriter: Rewriter, value: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """A value that `known` says is constant."""
    found = known(rewriter, value)
    assert found is not None
    return found


def _of_two(rewriter: Rewriter, node: Node) -> bool:
    """A sum, product or extremum of two values of the same shape, and activations."""
    facts, value, after = quantised_to(rewriter, node), node.inputs[0], list[Elementwise]()
    assert facts
    source = rewriter.producer(value)
    while source is not None and isinstance(source.op, EXACT):
        after.insert(0, source.op)
        source = rewriter.producer(source.inputs[0])
    if source is None or not isinstance(source.op, PAIRS) or len(source.inputs) != 2:
        return False
    a, b = (stored(rewriter, i) for i in source.inputs)
    shapes = {rewriter.types[i].shape for i in (*source.inputs, node.output)}
    if a is None or b is None or len(shapes) != 1:
        return False
    activation: Activation = tuple(after)
    op = QuantizedElementwise(source.op, a.scaled, b.scaled, facts[1], facts[0], activation)
    rewriter.replace_node(node, [Node(op, source.name, (a.name, b.name), node.outputs)])
    return True


def _mean(rewriter: Rewriter, node: Node) -> bool:
    """A mean over windows or all pixels, whose sums are exact."""
    facts, source = quantised_to(rewriter, node), rewriter.producer(node.inputs[0])
    mean = mean_of(rewriter.types, source) if source else None
    x = stored(rewriter, source.inputs[0]) if source and mean else None
    assert facts
    if not source or not mean or not x:
        return False
    if prod(mean.pool.kernel) * largest_of(x.dtype) > EXACT_SUM:
        return False
    dtype, y = facts
    scale = x.scaled.scale / y.scale
    op = mean.on_integers(dtype, scale, x_zero=x.scaled.zero, zero=y.zero)
    new = list[Node]()
    image = append(rewriter, new, Reshape(mean.image), f"{source.name}/image", [x.name])
    means = append(rewriter, new, op, source.name, [image])
    result = Reshape(rewriter.types[node.output].shape)
    new.append(Node(result, node.name, (means,), node.outputs))
    rewriter.replace_node(node, new)
    return True
