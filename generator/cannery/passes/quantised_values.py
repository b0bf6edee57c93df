"""Values between QuantizeLinear and DequantizeLinear stay bytes where nothing computes with them.

What moves elements, and maxima, move bytes; functions of one value become tables of 256 bytes;
sums and products of two become integer operators. All give the bits that ONNX defines for the
float operators in float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Clip, LeakyRelu, Max, Min, Mul, Relu, Sub
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.numeric import f64
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import BYTES, Activation, f32
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.registry import Elementwise, Op
from cannery.passes.eliminate_dead import eliminate_dead
from cannery.quantization.stored import Stored, known, quantised_to, stored

_MOVES = (Reshape, Transpose, Identity, Slice)

#: Operators of two values, and activations behind them, that float32 rounds at most once.
_PAIRS = (Add, Sub, Mul, Max, Min)
EXACT = (Relu, LeakyRelu, Clip)


def quantised_values(graph: Graph) -> Graph:
    """Until nothing changes."""
    rewriter = Rewriter(_without_sign(graph))
    while rewriter.sweep(_rule):
        pass
    return eliminate_dead(rewriter.finish())


def _without_sign(graph: Graph) -> Graph:
    """Numbers from -128 on, all of which are dequantised, as numbers from 0 on: so 0 is padding."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        facts = quantised_to(rewriter, node)
        readers = graph.consumers(node.outputs[0])
        if facts is None or facts[0] is not DType.INT8 or facts[1].zero != -128:
            continue
        pairs = all(isinstance(r.op, DequantizeLinear) for r in readers)
        if not pairs or node.output in graph.outputs:
            continue
        zero = rewriter.constant(f"{node.name}/zero", np.zeros((), np.uint8))
        rewriter.types[node.output] = TensorType(graph.types[node.output].shape, DType.UINT8)
        for each in (node, *readers):
            rewriter.update(each, inputs=(*each.inputs[:2], zero))
    return rewriter.finish()


def _rule(rewriter: Rewriter, node: Node) -> bool:
    """Whether the node was changed."""
    if isinstance(node.op, QuantizeLinear):
        return _moved_before(rewriter, node) or _in_bytes(rewriter, node)
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
    """The operator that does to bytes what the node's does to floats; None if there is none."""
    op = node.op
    if isinstance(op, _MOVES):
        return op
    if isinstance(op, Pad):
        if op.mode != "constant":
            return op
        return replace(op, value=float(zero)) if op.value == 0.0 else None
    if isinstance(op, MaxPool) and len(op.kernel) == 2:
        return QuantizedMaxPool(op.kernel, op.strides, op.pads, op.dilations)
    return None


def _dequantise_behind(
    rewriter: Rewriter, node: Node, op: Op, source: Stored, inputs: list[str]
) -> None:
    """Replace a node on floats by one on bytes, and what makes floats of its result."""
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


def _moved_before(rewriter: Rewriter, node: Node) -> bool:
    """A QuantizeLinear before what it follows, where that moves elements only or is monotonous."""
    facts, source = quantised_to(rewriter, node), rewriter.producer(node.inputs[0])
    if facts is None or source is None or rewriter.single_reader(node.inputs[0]) is not node:
        return False
    dtype, what = facts
    parts: list[Node] = []
    if isinstance(source.op, Concat):
        op: Op | None = source.op
    else:
        op = _on_bytes(rewriter, source, what.zero) if len(source.inputs) == 1 else None
    if op is None or any(i in rewriter.constants for i in source.inputs):
        return False
    for value in source.inputs:
        type_ = TensorType(rewriter.types[value].shape, dtype)
        name = rewriter.value(f"{value}/{dtype.value}", type_)
        parts.append(Node(node.op, f"{value}/quantised", (value, *node.inputs[1:]), (name,)))
    inputs = tuple(part.output for part in parts)
    rewriter.replace_node(source, [])
    rewriter.replace_node(node, [*parts, Node(op, source.name, inputs, node.outputs)])
    return True


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
    """Cast, MaxPool, Cast back: how the importer reads maxima of bytes."""
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
    """What a QuantizeLinear makes of bytes: the same ones, a table, or an operator of two."""
    facts = quantised_to(rewriter, node)
    if facts is None:
        return False
    source = stored(rewriter, node.inputs[0])
    if source and (source.dtype, source.scaled) == facts:
        if not rewriter.can_bypass(node, source.name):
            return False
        rewriter.bypass(node, source.name)
        return True
    return _by_table(rewriter, node) or _of_two(rewriter, node)


def _by_table(rewriter: Rewriter, node: Node) -> bool:
    """A function of one value: elementwise operators whose other operands are single numbers."""
    facts, value, chain = quantised_to(rewriter, node), node.inputs[0], list[Node]()
    assert facts
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
    """A value of which `known` says that it is constant."""
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
    if source is None or not isinstance(source.op, _PAIRS) or len(source.inputs) != 2:
        return False
    a, b = (stored(rewriter, i) for i in source.inputs)
    shapes = {rewriter.types[i].shape for i in (*source.inputs, node.output)}
    if a is None or b is None or len(shapes) != 1:
        return False
    activation: Activation = tuple(after)
    op = QuantizedElementwise(source.op, a.scaled, b.scaled, facts[1], facts[0], activation)
    rewriter.replace_node(node, [Node(op, source.name, (a.name, b.name), node.outputs)])
    return True
