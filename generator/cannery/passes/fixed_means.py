"""Means of whole quantised images: Cast, ReduceSum, Sub and FixedRescale become one operator."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Sub
from cannery.ops.fixed_point.arithmetic import Factor
from cannery.ops.fixed_point.pointwise import FixedRescale
from cannery.ops.fixed_point.window_sum import MOST_TAPS, SHIFTS, FixedWindowSum
from cannery.ops.movement.op import Cast, Reshape
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.reduce.op import ReduceSum
from cannery.quantization.products import append


def fixed_means(graph: Graph) -> Graph:
    """Where only the result is read elsewhere."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_fuse)
    return rewriter.finish()


def _fuse(rewriter: Rewriter, node: Node) -> bool:
    """Starts from the factor."""
    op = node.op
    if not isinstance(op, FixedRescale) or op.dtype not in BYTES:
        return False
    sums, numbers = node.inputs[0], [_number(rewriter, i) for i in node.inputs[1:]]
    less: int | None = 0
    if centred := rewriter.sole_producer(sums, Sub):
        sums, less = centred.inputs[0], _number(rewriter, centred.inputs[1])
    total = rewriter.sole_producer(sums, ReduceSum)
    wide = rewriter.sole_producer(total.inputs[0], Cast) if total else None
    if not total or not wide or less is None or None in numbers:
        return False
    multiplier, shift = (n for n in numbers if n is not None)
    image = rewriter.types[wide.inputs[0]]
    whole = isinstance(total.op, ReduceSum) and total.op.axes == (1, 2) and image.rank == 4
    exact = image.dtype in BYTES and rewriter.types[wide.output].dtype is DType.INT32
    window = image.shape[1:-1]
    fits = prod(window) <= MOST_TAPS and shift in SHIFTS and abs(less) <= 2**24
    if not (whole and exact and fits):
        return False
    found: Op = FixedWindowSum(
        window, (1, 1), ((0, 0), (0, 0)), (1, 1), op.dtype, op.zero, op.minimum, op.maximum, less,
        Factor(multiplier, shift),
    )  # fmt: skip
    for inner in filter(None, (centred, total, wide)):
        rewriter.replace_node(inner, [])
    new, shape = list[Node](), rewriter.types[node.output].shape
    inputs = [wide.inputs[0]]
    if len(shape) != image.rank:
        inputs = [append(rewriter, new, found, f"{node.name}/means", inputs)]
        found = Reshape(shape)
    rewriter.replace_node(node, [*new, Node(found, node.name, tuple(inputs), node.outputs)])
    return True


def _number(rewriter: Rewriter, value: str) -> int | None:
    """The only element of a constant."""
    array = rewriter.constants.get(value)
    single = array is not None and array.size == 1 and array.dtype == np.int32
    return int(array.item()) if single and array is not None else None
