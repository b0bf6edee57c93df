"""Floats whose zeros may have different signs on different processors.

Of +0 and -0 the maximum is the second operand on x86 and +0 on Arm, and kernels take operands in
different orders. That matters only where -0 can occur, and no integer is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.numeric import f64
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Abs, Add, Clip, Max, Min, Relu, Square, Sub
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.quantized.matmul import QuantizedProduct
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.reduce.op import ReduceMax, ReduceMin

#: Operators that pick one of several numbers.
PICKING = (Clip, Max, MaxPool, Min, ReduceMax, ReduceMin, Relu)

#: Operators that never make -0.
_POSITIVE = (Abs, Square)


def picking_zeros(graph: Graph, same: tuple[type[Op], ...]) -> frozenset[str]:
    """The names of the nodes that pick a zero whose sign an output may show.

    Results of operators outside `same` differ anyway, and are ignored.
    """
    negative = {
        name for name in graph.inputs if graph.types[name].dtype is DType.FLOAT32
    } | {name for name, array in graph.constants.items() if _holds_minus_zero(array)}  # fmt: skip
    picked: set[str] = set()
    for node in graph.nodes:
        if graph.types[node.outputs[0]].dtype is not DType.FLOAT32:
            continue
        if isinstance(node.op, PICKING) and _may_pick(graph, node, negative):
            picked.add(node.name)
        if isinstance(node.op, same) and _may_be_negative(graph, node, negative):
            negative |= set(node.outputs)
    seen = _seen(graph)
    return frozenset(
        n.name for n in graph.nodes if n.name in picked and not seen.isdisjoint(n.outputs)
    )


def _may_pick(graph: Graph, node: Node, negative: set[str]) -> bool:
    """Whether it must choose between zeros of both signs."""
    if not any(i in negative for i in node.inputs):
        return False
    return not isinstance(node.op, Clip) or 0.0 in (node.op.minimum, node.op.maximum)


def _may_be_negative(graph: Graph, node: Node, negative: set[str]) -> bool:
    """Whether a result may be -0: integers times positive scales are not."""
    if isinstance(node.op, _POSITIVE):
        return False
    if isinstance(node.op, DequantizeLinear):
        return not _is_positive(graph, node.inputs[1])
    if isinstance(node.op, QuantizedProduct):
        if node.op.held is not None:
            return False
        _, _, scale, _, gain = (*node.inputs, "", "", "")[:5]
        return not (_is_positive(graph, scale) and (not gain or _is_positive(graph, gain)))
    if isinstance(node.op, QuantizedOp):
        return isinstance(node.op, QuantizedRecurrent)
    inputs: Sequence[bool] = [i in negative for i in node.inputs if i]
    if isinstance(node.op, Add):
        return all(inputs)
    if isinstance(node.op, Sub):
        return inputs[0]
    if isinstance(node.op, PICKING):
        return any(inputs)
    return True


def _is_positive(graph: Graph, name: str) -> bool:
    """Whether a value is constant and greater than 0 everywhere."""
    array = graph.constants.get(name)
    return array is not None and bool((f64(array) > 0).all())


def _holds_minus_zero(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(((array == 0) & np.signbit(array)).any())


def _seen(graph: Graph) -> set[str]:
    """The values of floats on which an output may depend: integers hide the sign of a zero."""
    seen = {name for name in graph.outputs if graph.types[name].dtype is DType.FLOAT32}
    for node in reversed(graph.nodes):
        if not seen.isdisjoint(node.outputs):
            seen |= {i for i in node.inputs if i and graph.types[i].dtype is DType.FLOAT32}
    return seen
