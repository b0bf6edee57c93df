"""Replaces functions of one value by tables of integers."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Node
from cannery.ir.numeric import F64, f64
from cannery.ir.tensor import DType
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.quantized.elementwise import ByteTable
from cannery.ops.quantized.function import TableFunction
from cannery.ops.quantized.table import ONE, tabulated
from cannery.quantization.draft import Draft, Integers
from cannery.quantization.functions import NO_TABLE, Function

#: The largest error of a table of int16, relative to the largest result: that of the piece in which
#: a function has a kink.
WORST_TABLE = 64.0 / ONE


def rewrite_function(draft: Draft, node: Node) -> None:
    """A function whose source is integers, or is computed from them; others stay."""
    function = draft.functions[node.output]
    if not (draft.exists(function.source) or (function.differs and _is_made(draft, function))):
        return
    new: list[Node] = []
    x = draft.as_integers(function.source, new)
    bound, unit = draft.scale_of(node.output)
    made = _bytes if draft.dtype is DType.INT8 else _words
    if not made(draft, function, x, (bound, unit), new):
        draft.kept[node.name] = NO_TABLE


def _is_made(draft: Draft, function: Function) -> bool:
    """Whether a layer of integers computes the source as floats."""
    node = draft.rewriter.producer(function.source)
    return node is not None and isinstance(node.op, QuantizedOp)


def _held(results: F64, draft: Draft, value: str) -> F64:
    """Results, where there are none those of the samples that are next to them."""
    most = draft.seen.spreads[value].largest
    return np.nan_to_num(results, nan=0.0, posinf=most, neginf=-most)


def _bytes(
    draft: Draft, function: Function, x: Integers, scale: tuple[int, float], new: list[Node]
) -> bool:
    """All results of a byte."""
    (bound, unit), last = scale, function.nodes[-1]
    codes = np.arange(256).astype(np.uint8).view(np.int8)
    results = _held(function.at(f64(codes) * x.unit), draft, function.value)
    table = results.astype(np.float32)
    if bound:
        table = np.clip(np.rint(results / unit), -bound, bound).astype(np.int8)
    entries = draft.constant(f"{last.name}/table", table)
    draft.finish(last, ByteTable(), [x.name, entries], scale, new)
    return True


def _words(
    draft: Draft, function: Function, x: Integers, scale: tuple[int, float], new: list[Node]
) -> bool:
    """Lines between results; whether there is such a table."""
    (bound, unit), last = scale, function.nodes[-1]
    limit = x.bound * x.unit

    def at(places: F64) -> F64:
        return _held(function.at(places), draft, function.value)

    found = tabulated(at, limit, WORST_TABLE)
    if found is None:
        return False
    table, largest = found
    factor, gain = table.scale * x.unit, table.unit * largest / unit
    op = TableFunction(float(np.float32(factor)), float(np.float32(gain)), bound)
    entries = draft.constant(f"{last.name}/table", table.entries)
    draft.finish(last, op, [x.name, entries], scale, new)
    return True
